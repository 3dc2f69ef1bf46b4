/* bpf_redirect_map on each map type that it takes. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAP(name, kind)                            \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_##kind); \
		__uint(max_entries, 8);            \
		__type(key, __u32);                \
		__type(value, __u32);              \
	} name SEC(".maps")

MAP(ports, DEVMAP);
MAP(ports_by_hash, DEVMAP_HASH);
MAP(cpus, CPUMAP);
MAP(sockets, XSKMAP);

SEC("xdp")
int to_port(struct xdp_md *ctx)
{
	return bpf_redirect_map(&ports, ctx->rx_queue_index, 0);
}

SEC("xdp")
int to_hashed_port(struct xdp_md *ctx)
{
	return bpf_redirect_map(&ports_by_hash, ctx->ingress_ifindex, XDP_PASS);
}

SEC("xdp")
int to_cpu(struct xdp_md *ctx)
{
	return bpf_redirect_map(&cpus, 1, 0);
}

SEC("xdp")
int to_socket(struct xdp_md *ctx)
{
	__u32 key = ctx->rx_queue_index;

	if (bpf_map_lookup_elem(&sockets, &key))
		return bpf_redirect_map(&sockets, key, 0);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
