"""What BPF programs and kernels mean. Frozen values; no solver, no clock."""
