/* Two XDP programs, with callbacks, subprograms, kfuncs and most forms of a 64-bit load.
 * clang -target bpf -g -O2 -mcpu=v3 -c walk.bpf.c -o walk.o
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

struct bpf_map;

struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 4); __type(key, __u32); __type(value, __u64); } cells SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 8); __type(key, __u64); __type(value, __u64); } table SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 8); __type(key, __u32); __type(value, __u32); } recent SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 2); __type(key, __u32); __type(value, __u32); } jumps SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_QUEUE); __uint(max_entries, 2); __type(value, __u32); } queue SEC(".maps");

__u64 total = 7, seen[3] = { 1, 2, 3 };
const volatile __u64 limit = 0x1122334455667788ULL;

static long add_cell(struct bpf_map *map, __u32 *key, __u64 *value, void *ctx)
{
	__sync_fetch_and_add(&total, *value);
	return *value > 100;
}

static long count_entry(struct bpf_map *map, __u64 *key, __u64 *value, void *ctx)
{
	seen[2] += *key;
	return 0;
}

static __noinline int store(__u32 key, __u32 value)
{
	return bpf_map_update_elem(&recent, &key, &value, BPF_ANY);
}

__noinline int forget(__u32 key)
{
	return bpf_map_delete_elem(&recent, &key);
}

SEC("xdp")
int walk(struct xdp_md *ctx)
{
	__u64 key = 0xabcdef0123456789ULL, *value;

	bpf_for_each_map_elem(&cells, add_cell, &key, 0);
	bpf_for_each_map_elem(&table, count_entry, &key, 0);
	value = bpf_map_lookup_elem(&table, &key);
	if (value && *value > limit)
		total = __sync_val_compare_and_swap(value, total, 5);
	if (store(ctx->ingress_ifindex, -3) < 0)
		return XDP_DROP;
	bpf_rcu_read_lock();
	bpf_rcu_read_unlock();
	return forget(3) ? XDP_PASS : XDP_ABORTED;
}

SEC("xdp")
int jump(struct xdp_md *ctx)
{
	__u32 item = 9;

	bpf_map_push_elem(&queue, &item, 0);
	if (bpf_map_pop_elem(&queue, &item) == 0)
		bpf_tail_call(ctx, &jumps, item & 1);
	return store(item, 1);
}

char _license[] SEC("license") = "GPL";
