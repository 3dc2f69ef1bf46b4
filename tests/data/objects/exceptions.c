/* A program with an exception callback, one whose other map reaches no call, and a map that a callback's frame holds. */
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

extern void bpf_throw(__u64 cookie) __ksym;

#define KEPT(map) asm volatile("" : "+r"(map))

static __attribute__((noinline)) int count(void *map)
{
	__u32 key = 1;
	__u64 value = 1;

	return bpf_map_update_elem(map, &key, &value, 0);
}

__attribute__((noinline)) int caught(__u64 cookie)
{
	__u32 key = 0;

	bpf_map_update_elem(&one_hash, &key, &cookie, 0);
	return count(&one_hash);
}

SEC("tc") __attribute__((btf_decl_tag("exception_callback:caught")))
int thrower(struct __sk_buff *skb)
{
	if (skb->len > 100)
		bpf_throw(7);
	return count(&one_array);
}

SEC("tc")
int thrown_away(struct __sk_buff *skb)
{
	__u32 key = 0;
	__u64 value = 1;
	void *map = &one_array;

	if (skb->len > 100) {
		map = &one_hash;
		KEPT(map);
		bpf_throw(7);
	}
	KEPT(map);
	return bpf_map_update_elem(map, &key, &value, 0);
}

struct context {
	void *map;
};

static int each(__u32 index, void *data)
{
	struct context *context = data;
	__u64 value = 1;

	return bpf_map_update_elem(context->map, &index, &value, 0) != 0;
}

SEC("tc")
int kept_in_the_frame(struct __sk_buff *skb)
{
	struct context context = { &one_array };

	return bpf_loop(4, each, &context, 0);
}

char _license[] SEC("license") = "GPL";
