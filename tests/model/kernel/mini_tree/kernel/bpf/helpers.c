int each_args(struct bpf_verifier_env *env)
{
	return 0;
}
BPF_CALL_2(bpf_map_get, struct bpf_map *, map, void *, key)
{
	WARN_ON_ONCE(!held());
	return (unsigned long) map->ops->map_get_elem(map, key);
}
const struct bpf_func_proto bpf_map_get_proto = {
	.func		= bpf_map_get,
	.arg1_type	= ARG_CONST_MAP_PTR,
	.arg2_type	= ARG_PTR_TO_MAP_KEY,
};
BPF_CALL_4(bpf_map_put, struct bpf_map *, map, void *, key,
	   void *, value, u64, flags)
{
	return map->ops->map_put_elem(map, key, value, flags);
}
const struct bpf_func_proto bpf_map_put_proto = {
	.func		= bpf_map_put,
	.arg1_type	= ARG_CONST_MAP_PTR,
	.arg2_type	= ARG_ANYTHING,
};
BPF_CALL_4(bpf_each_one, struct bpf_map *, map, void *, fn, void *, ctx, u32, flags)
{
	return map->ops->map_for_each_callback(map, fn, ctx, flags);
}
const struct bpf_func_proto bpf_each_proto = { .func = bpf_each_one, };
const struct bpf_func_proto *find(enum bpf_func_id func_id)
{
	switch (func_id) {
	case BPF_FUNC_map_lookup_elem:
		return &bpf_map_get_proto;
	case BPF_FUNC_map_put:
		return &bpf_map_put_proto;
	case BPF_FUNC_for_each_map_elem:
		return &bpf_each_proto;
	default:
		return NULL;
	}
}
