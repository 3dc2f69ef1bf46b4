/* Names that the kernel supplies: configuration, variables, functions; strong and weak. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

extern int CONFIG_HZ __kconfig;
extern unsigned int LINUX_KERNEL_VERSION __kconfig;
extern const void __bpf_call_base __ksym;
extern int missing_variable __ksym __weak;
extern __u64 bpf_get_no_such_thing(__u32 number) __ksym __weak;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

SEC("tc")
int ask_kernel(struct __sk_buff *skb)
{
	__u64 result = CONFIG_HZ + LINUX_KERNEL_VERSION;

	bpf_rcu_read_lock();
	result += (__u64)&__bpf_call_base;
	bpf_rcu_read_unlock();
	if (&missing_variable)
		result++;
	if (bpf_get_no_such_thing)
		result += bpf_get_no_such_thing(1);
	return result > 5;
}

char _license[] SEC("license") = "GPL";
