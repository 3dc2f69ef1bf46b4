struct shelf {
	struct bpf_map map;
	u32 index_mask;
	char value[0] __aligned(8);
};
static void *shelf_lookup(struct bpf_map *map, void *key)
{
	return NULL;
}
static u32 shelf_gen(struct bpf_map *map, struct bpf_insn *insn_buf)
{
	struct shelf *shelf = container_of(map, struct shelf, map);
	struct bpf_insn *insn = insn_buf;
	u32 elem_size = round_up(map->value_size, 8);

	*insn++ = BPF_LDX_MEM(BPF_W, BPF_REG_0, BPF_REG_2, 0);
	if (map->unpriv_array) {
		*insn++ = BPF_JMP_IMM(BPF_JGE, BPF_REG_0, map->max_entries, 2);
		*insn++ = BPF_ALU32_IMM(BPF_AND, BPF_REG_0, shelf->index_mask);
	} else {
		*insn++ = BPF_JMP_IMM(BPF_JGE, BPF_REG_0, map->max_entries, 1);
	}
	*insn++ = BPF_ALU64_IMM(BPF_MUL, BPF_REG_0, elem_size);
	return insn - insn_buf;
}
static int shelf_update(struct bpf_map *map, void *key, void *value,
			u64 map_flags)
{
	return -E2BIG;
}
static int shelf_delete(struct bpf_map *map, void *key)
{
	return -EINVAL;
}
static void *chest_lookup(struct bpf_map *map, void *key)
{
	return NULL;
}
static u32 chest_gen(struct bpf_map *map, struct bpf_insn *insn_buf)
{
	struct bpf_insn *insn = insn_buf;

	BUILD_BUG_ON(!__same_type(&chest_lookup,
		     (void *(*)(struct bpf_map *map, void *key))NULL));
	*insn++ = BPF_EMIT_CALL(BPF_CAST_CALL(chest_lookup));
	return insn - insn_buf;
}
const struct bpf_map_ops shelf_ops = {
	.map_lookup_elem = shelf_lookup,
	.map_update_elem = shelf_update,
	.map_delete_elem = shelf_delete,
	.map_gen_lookup = shelf_gen,
};
const struct bpf_map_ops chest_ops = {
	.map_lookup_elem = chest_lookup,
	.map_update_elem = shelf_update,
	.map_delete_elem = shelf_delete,
	.map_gen_lookup = chest_gen,
};
const struct bpf_map_ops port_ops = {
	.map_lookup_elem = chest_lookup,
	.map_update_elem = shelf_update,
	.map_delete_elem = shelf_delete,
};
