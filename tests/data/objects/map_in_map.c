/* Maps of maps: templates named and anonymous, values set statically, lookups through both levels. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
};

struct inner first SEC(".maps");
struct inner second SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__array(values, struct inner);
} by_index SEC(".maps") = {
	.values = { &first, &second },
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 4);
	__type(key, __u64);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, 1);
		__type(key, __u32);
		__type(value, __u32);
	});
} by_name SEC(".maps");

SEC("xdp")
int update_inner(struct xdp_md *ctx)
{
	__u32 index = 1;
	__u64 value = 2;
	void *map = bpf_map_lookup_elem(&by_index, &index);

	if (!map)
		return XDP_PASS;
	return bpf_map_update_elem(map, &index, &value, 0) < 0 ? XDP_ABORTED : XDP_PASS;
}

SEC("xdp")
int lookup_inner(struct xdp_md *ctx)
{
	__u64 name = 77;
	__u32 index = 0, *value;
	void *map = bpf_map_lookup_elem(&by_name, &name);

	if (!map)
		return XDP_PASS;
	value = bpf_map_lookup_elem(map, &index);
	return value && *value ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
