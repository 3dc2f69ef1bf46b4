/* One section a map, "maps/NAME", with records of 20 and of 280 bytes (gobpf). No BTF. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct short_record {
	__u32 type, key_size, value_size, max_entries, flags;
};

struct long_record {
	__u32 type, key_size, value_size, max_entries, flags, pinning;
	char space[256];
};

struct short_record SEC("maps/small") small = { BPF_MAP_TYPE_ARRAY, 4, 4, 2 };
struct long_record SEC("maps/large") large = { BPF_MAP_TYPE_PERCPU_HASH, 8, 16, 100, 0, 1, "global" };

SEC("kprobe/sys_open")
int on_open(void *ctx)
{
	__u64 key = 1, *found = bpf_map_lookup_elem(&large, &key);
	__u32 index = 0, value = 5;

	if (found)
		(*found)++;
	return bpf_map_update_elem(&small, &index, &value, 0);
}

char _license[] SEC("license") = "GPL";
