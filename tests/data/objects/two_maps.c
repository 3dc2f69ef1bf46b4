/* One call instruction that two maps reach. The compiler may neither copy the call nor choose the map later. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAP(name, kind)                            \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_##kind); \
		__uint(max_entries, 8);            \
		__type(key, __u32);                \
		__type(value, __u64);              \
	} name SEC(".maps")

MAP(one_array, ARRAY);
MAP(other_array, ARRAY);
MAP(one_hash, HASH);

#define UPDATE(first, second, condition)                              \
	({                                                            \
		long result;                                          \
		__u32 key = 1;                                        \
		__u64 value = 2;                                      \
		asm volatile("r1 = %[a] ll\n"                         \
			     "if %[c] != 0 goto +2\n"                 \
			     "r1 = %[b] ll\n"                         \
			     "r2 = %[key]\n"                          \
			     "r3 = %[value]\n"                        \
			     "r4 = 0\n"                               \
			     "call 2\n"                               \
			     "%[result] = r0\n"                       \
			     : [result] "=r"(result)                  \
			     : [a] "i"(&first), [b] "i"(&second),     \
			       [c] "r"(condition), [key] "r"(&key),   \
			       [value] "r"(&value)                    \
			     : "r0", "r1", "r2", "r3", "r4", "r5",    \
			       "memory");                             \
		result;                                               \
	})

/* Same operations behind both maps: a direct call would be equivalent, the kernel does not see it. */
SEC("xdp")
int same_type(struct xdp_md *ctx)
{
	__u64 condition = ctx->rx_queue_index;

	return UPDATE(one_array, other_array, condition) < 0 ? XDP_ABORTED : XDP_PASS;
}

/* Two operations: the dispatch is needed. */
SEC("xdp")
int two_types(struct xdp_md *ctx)
{
	__u64 condition = ctx->rx_queue_index;

	return UPDATE(one_array, one_hash, condition) < 0 ? XDP_ABORTED : XDP_PASS;
}

/* One map on both paths: nothing is lost. */
SEC("xdp")
int same_map(struct xdp_md *ctx)
{
	__u64 condition = ctx->rx_queue_index;

	return UPDATE(one_hash, one_hash, condition) < 0 ? XDP_ABORTED : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
