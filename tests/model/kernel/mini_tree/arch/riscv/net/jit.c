bool bpf_jit_supports_percpu_insn(void)
{
	return true;
}
