static struct bpf_map *bag_alloc(union bpf_attr *attr)
{
	if (attr->key_size || attr->value_size == 0)
		return ERR_PTR(-EINVAL);
	return NULL;
}
#define MAKE_GET(name)	static void *name##_get(struct bpf_map *map, void *key) { return NULL; }
MAKE_GET(bag)
static long bag_put(struct bpf_map *map, void *key, void *value, u64 flags)
{
	return 0;
}
const struct bpf_map_ops bag_ops = {
	.map_alloc = bag_alloc,
	.map_get_elem = bag_get,
	.map_put_elem = bag_put,
	.map_for_each_callback = NULL,
};
const struct bpf_map_ops locked_ops = {
	.map_get_elem = bag_get,
	.map_put_elem = bag_put,
};
