"""Functions that a helper has for some types of programs, besides the one of its own name.

`struct bpf_func_proto` with `get_func_proto` of each type (kernel/bpf, kernel/trace/bpf_trace.c, net/core/filter.c and
others of 5.10, 6.1, 6.12 and 7.3): which type has which is not said here, the verifier asks the program's own.
"""

from collections.abc import Mapping

_ROWS = """
check_mtu: bpf_skb_check_mtu bpf_xdp_check_mtu
fib_lookup: bpf_skb_fib_lookup bpf_xdp_fib_lookup
get_attach_cookie: bpf_get_attach_cookie_kprobe_multi bpf_get_attach_cookie_pe bpf_get_attach_cookie_trace
    bpf_get_attach_cookie_tracing bpf_get_attach_cookie_uprobe_multi
get_cgroup_classid: bpf_get_cgroup_classid_curr
get_func_ip: bpf_get_func_ip_kprobe bpf_get_func_ip_kprobe_multi bpf_get_func_ip_tracing bpf_get_func_ip_uprobe_multi
get_netns_cookie: bpf_get_netns_cookie_sk_msg bpf_get_netns_cookie_sock bpf_get_netns_cookie_sock_addr
    bpf_get_netns_cookie_sock_ops bpf_get_netns_cookie_sockopt
get_prandom_u32: bpf_user_rnd_u32
get_smp_processor_id: bpf_get_raw_cpu_id
get_socket_cookie: bpf_get_socket_cookie_sock bpf_get_socket_cookie_sock_addr bpf_get_socket_cookie_sock_ops
    bpf_get_socket_ptr_cookie
get_stack: bpf_get_stack_pe bpf_get_stack_raw_tp bpf_get_stack_sleepable bpf_get_stack_tp
get_stackid: bpf_get_stackid_pe bpf_get_stackid_raw_tp bpf_get_stackid_tp
get_task_stack: bpf_get_task_stack_sleepable
getsockopt: bpf_sk_getsockopt bpf_sock_addr_getsockopt bpf_sock_ops_getsockopt bpf_unlocked_sk_getsockopt
load_hdr_opt: bpf_sock_ops_load_hdr_opt
lwt_push_encap: bpf_lwt_in_push_encap bpf_lwt_xmit_push_encap
perf_event_output: bpf_event_output_data bpf_perf_event_output_raw_tp bpf_perf_event_output_tp bpf_skb_event_output
    bpf_xdp_event_output
probe_read: bpf_probe_read_compat
probe_read_str: bpf_probe_read_compat_str
redirect: bpf_xdp_redirect
redirect_map: bpf_xdp_redirect_map
reserve_hdr_opt: bpf_sock_ops_reserve_hdr_opt
setsockopt: bpf_sk_setsockopt bpf_sk_setsockopt_nodelay bpf_sock_addr_setsockopt bpf_sock_ops_setsockopt
    bpf_unlocked_sk_setsockopt
sk_assign: bpf_sk_lookup_assign
sk_lookup_tcp: bpf_sock_addr_sk_lookup_tcp bpf_tc_sk_lookup_tcp bpf_xdp_sk_lookup_tcp
sk_lookup_udp: bpf_sock_addr_sk_lookup_udp bpf_tc_sk_lookup_udp bpf_xdp_sk_lookup_udp
sk_select_reuseport: sk_select_reuseport
sk_storage_delete: bpf_sk_storage_delete_tracing
sk_storage_get: bpf_sk_storage_get_tracing
skb_adjust_room: sk_skb_adjust_room
skb_change_head: sk_skb_change_head
skb_change_tail: sk_skb_change_tail
skb_load_bytes: bpf_flow_dissector_load_bytes sk_reuseport_load_bytes
skb_load_bytes_relative: sk_reuseport_load_bytes_relative
skb_output: bpf_skb_event_output
skb_pull_data: sk_skb_pull_data
skc_lookup_tcp: bpf_sock_addr_skc_lookup_tcp bpf_tc_skc_lookup_tcp bpf_xdp_skc_lookup_tcp
store_hdr_opt: bpf_sock_ops_store_hdr_opt
task_storage_delete: bpf_task_storage_delete_recur
task_storage_get: bpf_task_storage_get_recur
xdp_output: bpf_xdp_event_output
"""


def _read(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for row in text.replace("\n    ", " ").split("\n"):
        if row:
            helper, names = row.split(":")
            found[helper] = frozenset(names.split())
    return found


FUNCTIONS: Mapping[str, frozenset[str]] = _read(_ROWS)


def functions(helper: str) -> frozenset[str]:
    """Every function that a call of the helper may be of."""
    return FUNCTIONS.get(helper, frozenset()) | {f"bpf_{helper}"}
