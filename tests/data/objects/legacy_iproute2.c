/* Records of 36 bytes (iproute2): inner maps by id, pinning; and a .maps section in the same file. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct record {
	__u32 type, key_size, value_size, max_entries, flags, id, pinning, inner_id, inner_index;
};

struct record SEC("maps") template = { BPF_MAP_TYPE_LRU_HASH, 4, 8, 16, 0, 42 };
struct record SEC("maps") holder = { BPF_MAP_TYPE_HASH_OF_MAPS, 4, 4, 2, 0, 43, 2, 42 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, __u32);
} modern SEC(".maps");

SEC("classifier")
int use_both(struct __sk_buff *skb)
{
	__u32 key = 1, value = 2;
	__u64 number = 3;
	void *inner = bpf_map_lookup_elem(&holder, &key);

	if (inner)
		bpf_map_update_elem(inner, &key, &number, 0);
	return bpf_map_update_elem(&modern, &key, &value, 0) < 0;
}

char _license[] SEC("license") = "GPL";
