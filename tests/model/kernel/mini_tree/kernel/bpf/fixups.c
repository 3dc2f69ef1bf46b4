int bpf_do_misc_fixups(struct bpf_verifier_env *env)
{
	for (i = 0; i < insn_cnt; i++) {
		if (prog->jit_requested && BITS_PER_LONG == 64 &&
		    (insn->imm == BPF_FUNC_map_put ||
		     insn->imm == BPF_FUNC_map_get ||
		     insn->imm == BPF_FUNC_for_each_map_elem)) {
			if (bpf_map_ptr_poisoned(aux))
				goto patch_call_imm;
			if (insn->imm == BPF_FUNC_map_get && ops->map_gen_lookup) {
				cnt = ops->map_gen_lookup(map_ptr, insn_buf);
				if (cnt <= 0 || cnt >= INSN_BUF_SIZE)
					return -EFAULT;
			}
			BUILD_BUG_ON(!__same_type(ops->map_put_elem,
				     (long (*)(struct bpf_map *map, void *key, void *value,
					       u64 flags))NULL));
			switch (insn->imm) {
			case BPF_FUNC_map_get:
				insn->imm = BPF_CALL_IMM(ops->map_get_elem);
				goto next_insn;
			case BPF_FUNC_map_put:
				insn->imm = BPF_CALL_IMM(ops->map_put_elem);
				goto next_insn;
			case BPF_FUNC_for_each_map_elem:
				insn->imm = BPF_CALL_IMM(ops->map_for_each_callback);
				goto next_insn;
			}
		}
	}
	return 0;
}
