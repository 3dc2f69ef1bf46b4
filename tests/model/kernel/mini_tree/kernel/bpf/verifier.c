static int set_map_elem_callback_state(struct bpf_verifier_env *env)
{
	if (!map->ops->map_set_for_each_callback_args || !map->ops->map_for_each_callback)
		return -ENOTSUPP;
	return 0;
}
static bool may_put(struct bpf_verifier_env *env, int func_id)
{
	if (func_id != BPF_FUNC_map_put)
		return false;
	switch (type) {
	case BPF_PROG_TYPE_XDP:
	case BPF_PROG_TYPE_SCHED_CLS:
		return true;
	case BPF_PROG_TYPE_TRACING:
		if (how == BPF_TRACE_ITER)
			return true;
		break;
	default:
		break;
	}
	return false;
}
static int check_map_func_compatibility(struct bpf_verifier_env *env, struct bpf_map *map, int func_id)
{
	if (!map)
		return 0;
	switch (map->map_type) {
	case BPF_MAP_TYPE_BAG:
		if (func_id != BPF_FUNC_map_lookup_elem && !may_put(env, func_id))
			goto error;
		break;
	default:
		break;
	}
	switch (func_id) {
	case BPF_FUNC_for_each_map_elem:
		if (map->map_type == BPF_MAP_TYPE_LOCKED)
			goto error;
		break;
	default:
		break;
	}
	return 0;
error:
	verbose(env, "no");
	return -EINVAL;
}
static int check_map_prog_compatibility(struct bpf_verifier_env *env, struct bpf_map *map)
{
	if (map->map_type == BPF_MAP_TYPE_LOCKED) {
		verbose(env, "no");
		return -EINVAL;
	}
	return 0;
}
