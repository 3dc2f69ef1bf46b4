/* A static function in a section of programs: called, so no program of its own (libbpf 1.x refuses it); section `?tc`. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define noinline __attribute__((noinline))

SEC("tc") static noinline int helper_here(struct __sk_buff *skb)
{
	return skb->len > 64;
}

SEC("tc")
int calls_neighbour(struct __sk_buff *skb)
{
	return helper_here(skb) + 1;
}

SEC("?tc")
int on_request(struct __sk_buff *skb)
{
	return 0;
}

char _license[] SEC("license") = "GPL";
