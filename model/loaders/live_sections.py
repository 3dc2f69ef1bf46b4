"""What a section's name says of a program: libbpf's table (1.x; Documentation/bpf/libbpf/program_types.rst).

Types and attach types go by the names of enum bpf_prog_type and enum bpf_attach_type; the running kernel's BTF has the
numbers.
"""

from dataclasses import dataclass

from model.errors import Unsupported

SLEEPABLE, FRAGS = 1 << 4, 1 << 5
"""BPF_F_SLEEPABLE, BPF_F_XDP_HAS_FRAGS."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section `name`, or one that begins with it and a slash.

    `btf` says of which name in the kernel's BTF the id is wanted: "" (none), or a prefix and what follows the slash in
    the section's name. `typedef` tells that it is a typedef and no function.
    """

    name: str
    type: str
    attach: str = ""
    flags: int = 0
    btf: str | None = None
    typedef: bool = False


def _rows(text: str) -> list[Section]:
    return [Section(name, type, attach) for name, type, attach in (row.split(":") for row in text.split())]


def _tracing(name: str, type: str, attach: str, prefix: str = "", typedef: bool = False) -> list[Section]:
    """A section and, with `.s` behind its name, its sleepable kin."""
    return [
        Section(f"{name}{suffix}", type, attach, flags, prefix, typedef)
        for suffix, flags in (("", 0), (".s", SLEEPABLE))
    ]


SECTIONS: tuple[Section, ...] = (
    *_rows("""
        socket:SOCKET_FILTER: sk_reuseport:SK_REUSEPORT:SK_REUSEPORT_SELECT
        sk_reuseport/migrate:SK_REUSEPORT:SK_REUSEPORT_SELECT_OR_MIGRATE
        kprobe:KPROBE: kretprobe:KPROBE: uprobe:KPROBE: uretprobe:KPROBE: ksyscall:KPROBE: kretsyscall:KPROBE:
        usdt:KPROBE: kprobe.multi:KPROBE:TRACE_KPROBE_MULTI kretprobe.multi:KPROBE:TRACE_KPROBE_MULTI
        kprobe.session:KPROBE:TRACE_KPROBE_SESSION uprobe.multi:KPROBE:TRACE_UPROBE_MULTI
        uretprobe.multi:KPROBE:TRACE_UPROBE_MULTI uprobe.session:KPROBE:TRACE_UPROBE_SESSION
        tc:SCHED_CLS: tc/ingress:SCHED_CLS:TCX_INGRESS tc/egress:SCHED_CLS:TCX_EGRESS
        tcx/ingress:SCHED_CLS:TCX_INGRESS tcx/egress:SCHED_CLS:TCX_EGRESS tcx:SCHED_CLS:
        netkit/primary:SCHED_CLS:NETKIT_PRIMARY netkit/peer:SCHED_CLS:NETKIT_PEER
        classifier:SCHED_CLS: action:SCHED_ACT:
        tracepoint:TRACEPOINT: tp:TRACEPOINT: raw_tracepoint:RAW_TRACEPOINT: raw_tp:RAW_TRACEPOINT:
        raw_tracepoint.w:RAW_TRACEPOINT_WRITABLE: raw_tp.w:RAW_TRACEPOINT_WRITABLE:
        xdp:XDP:XDP xdp/devmap:XDP:XDP_DEVMAP xdp/cpumap:XDP:XDP_CPUMAP xdp_devmap:XDP:XDP_DEVMAP
        xdp_cpumap:XDP:XDP_CPUMAP perf_event:PERF_EVENT:
        lwt_in:LWT_IN: lwt_out:LWT_OUT: lwt_xmit:LWT_XMIT: lwt_seg6local:LWT_SEG6LOCAL:
        sockops:SOCK_OPS:CGROUP_SOCK_OPS sk_skb:SK_SKB: sk_skb/stream_parser:SK_SKB:SK_SKB_STREAM_PARSER
        sk_skb/stream_verdict:SK_SKB:SK_SKB_STREAM_VERDICT sk_skb/verdict:SK_SKB:SK_SKB_VERDICT
        sk_msg:SK_MSG:SK_MSG_VERDICT lirc_mode2:LIRC_MODE2:LIRC_MODE2 flow_dissector:FLOW_DISSECTOR:FLOW_DISSECTOR
        cgroup/skb:CGROUP_SKB: cgroup_skb:CGROUP_SKB: cgroup_skb/ingress:CGROUP_SKB:CGROUP_INET_INGRESS
        cgroup_skb/egress:CGROUP_SKB:CGROUP_INET_EGRESS cgroup/dev:CGROUP_DEVICE:CGROUP_DEVICE
        cgroup/sock_create:CGROUP_SOCK:CGROUP_INET_SOCK_CREATE cgroup/sock:CGROUP_SOCK:CGROUP_INET_SOCK_CREATE
        cgroup/sock_release:CGROUP_SOCK:CGROUP_INET_SOCK_RELEASE cgroup/sysctl:CGROUP_SYSCTL:CGROUP_SYSCTL
        cgroup/post_bind4:CGROUP_SOCK:CGROUP_INET4_POST_BIND cgroup/post_bind6:CGROUP_SOCK:CGROUP_INET6_POST_BIND
        cgroup/getsockopt:CGROUP_SOCKOPT:CGROUP_GETSOCKOPT cgroup/setsockopt:CGROUP_SOCKOPT:CGROUP_SETSOCKOPT
        sk_lookup:SK_LOOKUP:SK_LOOKUP netfilter:NETFILTER:NETFILTER struct_ops:STRUCT_OPS:
        cgroup/bind4:CGROUP_SOCK_ADDR:CGROUP_INET4_BIND cgroup/bind6:CGROUP_SOCK_ADDR:CGROUP_INET6_BIND
        freplace:EXT: struct_ops.s:STRUCT_OPS:
    """),
    *(
        Section(f"cgroup/{call}{end}", "CGROUP_SOCK_ADDR", f"CGROUP_{family}_{attach}")
        for call, attach in (
            *(("connect", "CONNECT"), ("getpeername", "GETPEERNAME"), ("getsockname", "GETSOCKNAME")),
            *(("sendmsg", "SENDMSG"), ("recvmsg", "RECVMSG")),
        )
        for end, family in (
            ("4", "UDP4" if "msg" in call else "INET4"),
            ("6", "UDP6" if "msg" in call else "INET6"),
            ("_unix", "UNIX"),
        )
    ),
    *(
        Section(f"{name}.s", "KPROBE", attach, SLEEPABLE)
        for name, attach in (
            *(("uprobe", ""), ("uretprobe", ""), ("usdt", ""), ("uprobe.session", "TRACE_UPROBE_SESSION")),
            *(("uprobe.multi", "TRACE_UPROBE_MULTI"), ("uretprobe.multi", "TRACE_UPROBE_MULTI")),
        )
    ),
    *(
        Section(f"xdp.frags{end}", "XDP", attach, FRAGS)
        for end, attach in (("", "XDP"), ("/devmap", "XDP_DEVMAP"), ("/cpumap", "XDP_CPUMAP"))
    ),
    Section("syscall", "SYSCALL", flags=SLEEPABLE),
    *_tracing("fentry", "TRACING", "TRACE_FENTRY"),
    *_tracing("fexit", "TRACING", "TRACE_FEXIT"),
    *_tracing("fmod_ret", "TRACING", "MODIFY_RETURN"),
    *_tracing("lsm", "LSM", "LSM_MAC", "bpf_lsm_"),
    *_tracing("iter", "TRACING", "TRACE_ITER", "bpf_iter_"),
    Section("lsm_cgroup", "LSM", "LSM_CGROUP", btf="bpf_lsm_"),
    Section("tp_btf", "TRACING", "TRACE_RAW_TP", btf="btf_trace_", typedef=True),
)
_BY_NAME = {section.name: section for section in SECTIONS}
PLAIN = Section("", "SCHED_CLS")
"""A program in no section, as in assembly text."""


def section_of(name: str) -> tuple[Section, str]:
    """The row for a section, and what follows the slash behind the row's name.

    Raises `Unsupported` where libbpf would not know a type, and for what needs more than a program and its maps.
    """
    text = name.removeprefix("?")
    if not text:
        return PLAIN, ""
    head = text
    while head not in _BY_NAME:
        head, slash, _ = head.rpartition("/")
        if not slash:
            raise Unsupported(f"the name of section {name} tells no type of program (--type gives one)")
    found = _BY_NAME[head]
    if found.type == "STRUCT_OPS":
        raise Unsupported(f"section {name}: a program of a struct_ops map, whose kernel type the object does not tell")
    if found.type == "EXT":
        raise Unsupported(f"section {name}: it replaces a function of another program, which must be loaded")
    return found, text[len(head) + 1 :]
