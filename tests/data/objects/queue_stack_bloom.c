/* push, pop and peek: the operations of maps without keys. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAP(name, kind)                            \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_##kind); \
		__uint(max_entries, 8);            \
		__type(value, __u64);              \
	} name SEC(".maps")

MAP(queue, QUEUE);
MAP(stack, STACK);
MAP(bloom, BLOOM_FILTER);

SEC("xdp")
int use_queue(struct xdp_md *ctx)
{
	__u64 value = 3;

	if (bpf_map_push_elem(&queue, &value, BPF_EXIST) < 0)
		return XDP_ABORTED;
	if (bpf_map_peek_elem(&queue, &value))
		return XDP_DROP;
	return bpf_map_pop_elem(&queue, &value) ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int use_stack(struct xdp_md *ctx)
{
	__u64 value = 4;

	if (bpf_map_push_elem(&stack, &value, 0) < 0)
		return XDP_ABORTED;
	if (bpf_map_peek_elem(&stack, &value))
		return XDP_DROP;
	return bpf_map_pop_elem(&stack, &value) ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int use_bloom(struct xdp_md *ctx)
{
	__u64 value = 5;

	bpf_map_push_elem(&bloom, &value, 0);
	return bpf_map_peek_elem(&bloom, &value) == 0 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
