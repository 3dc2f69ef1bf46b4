enum bpf_map_type {
	BPF_MAP_TYPE_UNSPEC,
	BPF_MAP_TYPE_BOX, /* BPF_MAP_TYPE_NOT_THIS_ONE */
	BPF_MAP_TYPE_BAG_DEPRECATED,
	BPF_MAP_TYPE_BAG = BPF_MAP_TYPE_BAG_DEPRECATED,
	BPF_MAP_TYPE_CRATE,
	BPF_MAP_TYPE_LOCKED,
	__MAX_BPF_MAP_TYPE
};
#define ___BPF_FUNC_MAPPER(FN, ctx...)		\
	FN(unspec, 0, ##ctx)			\
	FN(map_lookup_elem, 1, ##ctx)			\
	FN(map_put, 2, ##ctx)			\
	FN(for_each_map_elem, 7, ##ctx)		\
	/* there is no 8 */

#define __BPF_FUNC_MAPPER_APPLY(name, value, FN) FN(name),
#define __BPF_FUNC_MAPPER(FN) ___BPF_FUNC_MAPPER(__BPF_FUNC_MAPPER_APPLY, FN)
