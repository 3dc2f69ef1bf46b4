/* lookup, update and delete on arrays and hashes, shared and per CPU; lookup of another CPU's value. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAP(name, kind, size)                      \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_##kind); \
		__uint(max_entries, 64);           \
		__type(key, __u32);                \
		__uint(value_size, size);          \
	} name SEC(".maps")

MAP(hash, HASH, 16);
MAP(array, ARRAY, 12);
MAP(lru_hash, LRU_HASH, 8);
MAP(percpu_hash, PERCPU_HASH, 8);
MAP(percpu_array, PERCPU_ARRAY, 8);
MAP(lru_percpu_hash, LRU_PERCPU_HASH, 8);

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 64);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, 8);
	__uint(value_size, 8);
} trie SEC(".maps");

#define PROGRAM(name)                                                          \
	SEC("xdp")                                                             \
	int use_##name(struct xdp_md *ctx)                                     \
	{                                                                      \
		__u32 key[2] = { 1, 0 };                                       \
		__u64 value[2] = { 7, 9 };                                     \
		__u64 *found = bpf_map_lookup_elem(&name, key);                \
                                                                               \
		if (found)                                                     \
			value[0] = *(__u32 *)found;                            \
		if (bpf_map_update_elem(&name, key, value, BPF_ANY) < 0)       \
			return XDP_ABORTED;                                    \
		return bpf_map_delete_elem(&name, key) ? XDP_DROP : XDP_PASS;  \
	}

PROGRAM(hash)
PROGRAM(array)
PROGRAM(lru_hash)
PROGRAM(percpu_hash)
PROGRAM(percpu_array)
PROGRAM(lru_percpu_hash)
PROGRAM(trie)

SEC("xdp")
int other_cpu(struct xdp_md *ctx)
{
	__u32 key = 1;
	__u64 *one = bpf_map_lookup_percpu_elem(&percpu_array, &key, 0);
	__u64 *two = bpf_map_lookup_percpu_elem(&percpu_hash, &key, 0);

	return one && two && *one == *two ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
