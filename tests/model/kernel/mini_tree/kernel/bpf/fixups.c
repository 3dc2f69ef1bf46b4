int bpf_do_misc_fixups(struct bpf_verifier_env *env)
{
	for (i = 0; i < insn_cnt; i++) {
		if (prog->jit_requested && BITS_PER_LONG == 64 &&
		    (insn->imm == BPF_FUNC_map_put ||
		     insn->imm == BPF_FUNC_map_lookup_elem ||
		     insn->imm == BPF_FUNC_for_each_map_elem)) {
			aux = &env->insn_aux_data[i + delta];
			if (bpf_map_ptr_poisoned(aux))
				goto patch_call_imm;
			map_ptr = aux->map_ptr_state.map_ptr;
			ops = map_ptr->ops;
			if (insn->imm == BPF_FUNC_map_lookup_elem && ops->map_gen_lookup) {
				cnt = ops->map_gen_lookup(map_ptr, insn_buf);
				if (cnt == -EOPNOTSUPP)
					goto patch_map_ops_generic;
				if (cnt <= 0 || cnt >= INSN_BUF_SIZE)
					return -EFAULT;
				new_prog = bpf_patch_insn_data(env, i + delta, insn_buf, cnt);
				if (!new_prog)
					return -ENOMEM;
				delta += cnt - 1;
				env->prog = prog = new_prog;
				insn = new_prog->insnsi + i + delta;
				goto next_insn;
			}
			BUILD_BUG_ON(!__same_type(ops->map_put_elem,
				     (long (*)(struct bpf_map *map, void *key, void *value,
					       u64 flags))NULL));
patch_map_ops_generic:
			switch (insn->imm) {
			case BPF_FUNC_map_lookup_elem:
				insn->imm = BPF_CALL_IMM(ops->map_get_elem);
				goto next_insn;
			case BPF_FUNC_map_put:
				insn->imm = BPF_CALL_IMM(ops->map_put_elem);
				goto next_insn;
			case BPF_FUNC_for_each_map_elem:
				insn->imm = BPF_CALL_IMM(ops->map_for_each_callback);
				goto next_insn;
			}
			goto patch_call_imm;
		}
patch_call_imm:
		fn = env->ops->get_func_proto(insn->imm, env->prog);
		if (!fn->func) {
			return -EFAULT;
		}
		insn->imm = BPF_CALL_IMM(fn->func);
next_insn:
		insn++;
	}
	return 0;
}
