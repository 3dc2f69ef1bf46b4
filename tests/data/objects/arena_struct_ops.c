/* An arena with a variable in it, and a table of operations that the kernel calls. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define arena_space __attribute__((address_space(1)))

struct {
	__uint(type, 33); /* BPF_MAP_TYPE_ARENA */
	__uint(map_flags, 1024);
	__uint(max_entries, 10);
} arena SEC(".maps");

int arena_space counter SEC(".addr_space.1");
int arena_space last SEC(".addr_space.1");

struct tcp_congestion_ops {
	void *init;
	char name[16];
};

SEC("struct_ops/start")
void start(void *sk)
{
	last = 3;
}

SEC("syscall")
int count(void *ctx)
{
	return ++counter;
}

SEC(".struct_ops")
struct tcp_congestion_ops slow = { .init = (void *)start, .name = "slow" };

char _license[] SEC("license") = "GPL";
