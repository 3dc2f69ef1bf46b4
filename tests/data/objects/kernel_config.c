/* Variables of .kconfig, and a kernel symbol's address, that decide which map reaches a call. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

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

extern int LINUX_KERNEL_VERSION __kconfig;
extern _Bool CONFIG_NO_SUCH_THING __kconfig __weak;
extern int no_such_variable __ksym __weak;

#define KEPT(map) asm volatile("" : "+r"(map))

SEC("tc")
int version(struct __sk_buff *skb)
{
	__u32 key = 0;
	__u64 value = 1;
	void *map = &one_hash;

	if (LINUX_KERNEL_VERSION > 0x50000)
		map = &one_array;
	KEPT(map);
	return bpf_map_update_elem(map, &key, &value, 0);
}

SEC("tc")
int option(struct __sk_buff *skb)
{
	__u32 key = 0;
	__u64 value = 1;
	void *map = &one_hash;

	if (CONFIG_NO_SUCH_THING)
		map = &one_array;
	KEPT(map);
	return bpf_map_update_elem(map, &key, &value, 0);
}

SEC("tc")
int symbol(struct __sk_buff *skb)
{
	__u32 key = 0;
	__u64 value = 1;
	void *map = &one_hash;

	if (&no_such_variable)
		map = &one_array;
	KEPT(map);
	return bpf_map_update_elem(map, &key, &value, 0);
}

char _license[] SEC("license") = "GPL";
