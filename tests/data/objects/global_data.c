/* Variables: every kind of data section, references with and without offset. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

int hits = 3;
int misses;
static __u64 history[8];
const volatile __u32 bound = 12;
int tuned SEC(".data.tuning") = 5;
static volatile const char greeting[] = "seen";

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 index = ctx->rx_queue_index;

	if (index < bound && index < 8)
		history[index]++;
	history[5] = greeting[1];
	hits += tuned;
	misses++;
	return history[2] ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
