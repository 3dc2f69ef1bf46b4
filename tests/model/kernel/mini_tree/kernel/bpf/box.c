/* struct bpf_map_ops not_a_table = { .map_get_elem = nobody, }; */
struct box_elem {
	struct box_elem __rcu *next;
	union {
		u16 narrow;
		u32 wide;
	};
	char key[] __aligned(8);
};
struct box {
	struct bpf_map map;
	u32 mask;
};
static void *box_get(struct bpf_map *map, void *key)
{
	return (void *)"struct bpf_map_ops in_a_string = {";
}
static long
box_put(struct bpf_map *map, void *key,
	void *value, u64 flags)
{
	return 0;
}
static int box_gen(struct bpf_map *map, struct bpf_insn *insn_buf)
{
	struct box *box = container_of(map, struct box, map);
	struct bpf_insn *insn = insn_buf;
	const int ret = BPF_REG_0, at = BPF_REG_2;

	if (!jit_can())
		return -EOPNOTSUPP;
	BUILD_BUG_ON(sizeof(u32) != 4);
	*insn++ = BPF_LDX_MEM(BPF_W, ret, at, 0);
	if (map->trusted)
		*insn++ = BPF_JMP_IMM(BPF_JGE, ret, box->map.max_entries, 2);
	else {
		*insn++ = BPF_ALU32_IMM(BPF_AND, ret, box->mask);
	}
	*insn++ = BPF_ALU64_IMM(BPF_ADD, ret, offsetof(struct box_elem, key) + round_up(map->key_size, 8));
	return insn - insn_buf;
}
static bool same_box(const struct bpf_map *a, const struct bpf_map *b)
{
	return a == b;
}
static long box_each(struct bpf_map *map, bpf_callback_t callback_fn, void *callback_ctx, u64 flags)
{
	return callback_fn(0, 0, 0, 0, 0);
}
#define PAIR(_n) \
	.map_put_elem = _n##_put, \
	.map_meta_equal = same_##_n
const struct bpf_map_ops box_ops = {
	.map_get_elem = box_get,
	PAIR(box),
	.map_for_each_callback = box_each,
	.map_set_for_each_callback_args = each_args,
	.map_gen_lookup = box_gen,
	.map_btf_id = &ids[0],
};
