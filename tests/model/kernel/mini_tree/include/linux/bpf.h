typedef u64 (*bpf_callback_t)(u64, u64, u64, u64, u64);
struct bpf_map_ops {
	struct bpf_map *(*map_alloc)(union bpf_attr *attr);
	void *(*map_get_elem)(struct bpf_map *map, void *key);
	long (*map_put_elem)(struct bpf_map *map, void *key,
			     void *value, u64 flags);
	long (*map_for_each_callback)(struct bpf_map *map, bpf_callback_t callback_fn,
				      void *callback_ctx, u64 flags);
	int (*map_gen_lookup)(struct bpf_map *map, struct bpf_insn *insn_buf);
	bool (*map_meta_equal)(const struct bpf_map *a, const struct bpf_map *b);
	int (*map_set_for_each_callback_args)(struct bpf_verifier_env *env);
	int *map_btf_id;
};
struct bpf_map {
	const struct bpf_map_ops *ops;
#ifdef CONFIG_SOMETHING
	void *something;
#endif
	u32 key_size;
	u32 max_entries;
	bool trusted;
};
