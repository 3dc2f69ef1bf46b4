#define BPF_CALL_IMM(x)	((void *)(x) - (void *)__bpf_call_base)
