struct bpf_insn_aux_data {
	unsigned long map_state;
};
