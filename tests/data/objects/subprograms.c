/* Functions: static with a map as argument, global, weak, in .text, in a section, callbacks of callbacks. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define noinline __attribute__((noinline))

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static noinline long store(void *map, __u32 index, __u64 value)
{
	__u32 key = index;

	return bpf_map_update_elem(map, &key, &value, BPF_ANY);
}

static noinline long store_twice(__u32 index)
{
	return store(&table, index, 1) + store(&table, index + 1, 2);
}

noinline int average(int a, int b)
{
	return (a + b) >> 1;
}

__weak noinline int limit(int a)
{
	return a > 100 ? 100 : a;
}

static long inner_step(void *map, __u32 *key, __u64 *value, __u64 *total)
{
	*total += *value;
	return 0;
}

static long outer_step(void *map, __u32 *key, __u64 *value, __u64 *total)
{
	bpf_for_each_map_elem(&counters, inner_step, total, 0);
	return 0;
}

SEC("xdp")
int one_map(struct xdp_md *ctx)
{
	return store_twice(ctx->rx_queue_index) < 0 ? XDP_ABORTED : XDP_PASS;
}

SEC("xdp")
int both_maps(struct xdp_md *ctx)
{
	__u32 index = ctx->rx_queue_index;

	return store(&table, index, 3) + store(&counters, index, 4) < 0 ? XDP_ABORTED : XDP_PASS;
}

SEC("tc")
int nested(struct __sk_buff *skb)
{
	__u64 total = 0;

	bpf_for_each_map_elem(&table, outer_step, &total, 0);
	return limit(average(total, skb->len));
}

char _license[] SEC("license") = "GPL";
