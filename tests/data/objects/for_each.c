/* bpf_for_each_map_elem over every map type that has it, with callbacks of each kind. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} numbers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u64);
	__type(value, __u64);
} names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} cpu_numbers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} recent SEC(".maps");

struct sum {
	__u64 total;
	__u64 calls;
};

static long add(void *map, void *key, __u64 *value, struct sum *sum)
{
	sum->total += *value;
	sum->calls++;
	return 0;
}

static long first_big(void *map, void *key, __u64 *value, struct sum *sum)
{
	sum->total = *value;
	return *value > 100;
}

static long forget(void *map, __u64 *key, void *value, struct sum *sum)
{
	__u64 copy = *key;

	bpf_map_delete_elem(&names, &copy);
	return 0;
}

SEC("xdp")
int sum_array(struct xdp_md *ctx)
{
	struct sum sum = {};

	bpf_for_each_map_elem(&numbers, add, &sum, 0);
	return sum.total > 10 ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int sum_hash(struct xdp_md *ctx)
{
	struct sum sum = {};
	long calls = bpf_for_each_map_elem(&names, add, &sum, 0);

	return calls < 0 ? XDP_ABORTED : XDP_PASS;
}

SEC("tc")
int search_all(struct __sk_buff *skb)
{
	struct sum sum = {};

	bpf_for_each_map_elem(&cpu_numbers, first_big, &sum, 0);
	bpf_for_each_map_elem(&recent, first_big, &sum, 0);
	bpf_for_each_map_elem(&names, forget, &sum, 0);
	/* Flags other than 0 are refused at run time: -EINVAL. */
	return bpf_for_each_map_elem(&numbers, add, &sum, 1) < 0;
}

char _license[] SEC("license") = "GPL";
