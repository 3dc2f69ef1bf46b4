/* CO-RE relocations that decide which map reaches a call: what they ask of the kernel differs from row to row. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} one_array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} one_hash SEC(".maps");

struct task_struct___old {
	long state;
} __attribute__((preserve_access_index));

enum bpf_map_type___near { BPF_MAP_TYPE_HASH___near = 1 };

#define KEPT(map) asm volatile("" : "+r"(map))

SEC("tc")
int field_exists(struct __sk_buff *skb)
{
	__u32 key = 0;
	__u64 value = 1;
	void *map = &one_hash;

	if (bpf_core_field_exists(((struct task_struct___old *)0)->state))
		map = &one_array;
	KEPT(map);
	return bpf_map_update_elem(map, &key, &value, 0);
}

SEC("tc")
int enum_value(struct __sk_buff *skb)
{
	__u32 key = 0;
	__u64 value = 1;
	void *map = &one_hash;

	if (bpf_core_enum_value(enum bpf_map_type___near, BPF_MAP_TYPE_HASH___near) + 1 > 2)
		map = &one_array;
	KEPT(map);
	return bpf_map_update_elem(map, &key, &value, 0);
}

SEC("tc")
int two_calls(struct __sk_buff *skb)
{
	__u32 key = 0;
	__u64 value = 1;

	if (bpf_core_field_exists(((struct task_struct___old *)0)->state))
		return bpf_map_update_elem(&one_array, &key, &value, 0);
	return bpf_map_delete_elem(&one_hash, &key);
}

char _license[] SEC("license") = "GPL";
