/* Maps as before BTF: records in section "maps", here of 28 bytes with the index of an inner map. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct record {
	__u32 type, key_size, value_size, max_entries, flags, inner_index, numa_node;
};

struct record SEC("maps") a_hash = { BPF_MAP_TYPE_HASH, 4, 8, 16, BPF_F_NO_PREALLOC };
struct record SEC("maps") b_array = { BPF_MAP_TYPE_ARRAY, 4, 8, 4 };
struct record SEC("maps") c_outer = { BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, 4, 2, 0, 1 };

SEC("xdp")
int use_legacy(struct xdp_md *ctx)
{
	__u32 key = 1;
	__u64 value = 2;
	void *inner;

	bpf_map_update_elem(&a_hash, &key, &value, 0);
	bpf_map_delete_elem(&b_array, &key);
	inner = bpf_map_lookup_elem(&c_outer, &key);
	if (inner)
		bpf_map_update_elem(inner, &key, &value, 0);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
__u32 _version SEC("version") = 0x60100;
