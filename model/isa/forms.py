"""Every instruction form: which values each field may hold, how the kernel prints it, who makes it.

One row a form. `model.isa.codec` derives validity from the rows, `model.isa.text` and `model.isa.parse`
the text in both directions. Sources: RFC 9669 (sections in `model.isa.opcodes`); check_insn_fields and
check_and_resolve_insns (kernel/bpf/verifier.c, 7.3), check_atomic, check_reg_arg; text from
print_bpf_insn (kernel/bpf/disasm.c, 5.10 to 7.3). "Unused fields SHALL be cleared to zero" (section 3.1)
is taken literally, also where the kernel does not look: the offset of EXIT, the second
slot's immediate of a callback address in an object.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from model.isa.opcodes import (
    FRAME_POINTER,
    HIGHEST_HIDDEN,
    STACK_ARGUMENTS,
    WIDE,
    Alu,
    AluOffset,
    Atomic,
    Call,
    Class,
    Imm64,
    Jmp,
    Mode,
    Size,
    Source,
    arithmetic,
    load_store,
)

Values = range | frozenset[int]
"""What a field may hold; containment is the check."""

ZERO = range(1)
READ = range(FRAME_POINTER + 1)
WRITE = range(FRAME_POINTER)
READ_HIDDEN = range(HIGHEST_HIDDEN + 1)
WRITE_HIDDEN = frozenset(READ_HIDDEN) - {FRAME_POINTER}
OFF = range(-(1 << 15), 1 << 15)
IMM = range(-(1 << 31), 1 << 31)


def just(*values: int) -> frozenset[int]:
    return frozenset(map(int, values))


class Group(Enum):
    """Conformance groups (RFC 9669, section 2.4), and KERNEL for what Linux has beyond the RFC."""

    BASE32 = "base32"
    BASE64 = "base64"
    ATOMIC32 = "atomic32"
    ATOMIC64 = "atomic64"
    DIVMUL32 = "divmul32"
    DIVMUL64 = "divmul64"
    PACKET = "packet"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class Form:
    """One row. `name` is in the RFC's notation, `{code, source, class}` or `{mode, size, class}`.

    `text` is what disasm.c prints after the opcode, with `{dst}` `{src}` (register numbers), `{off}`
    (signed, with sign), `{imm}` (signed), `{uimm}` (the same 32 bits in hex), `{id}` (the same, unsigned),
    `{high}` (the second slot's, unsigned) and `{wide}` (64 bits in hex) for the fields; `also` are
    spellings of older kernels, and of older bpftool on newer kernels.
    A field that holds `READ` or `WRITE` is a register, read or written.
    `high` is the second slot's immediate of a wide form, None for one slot. `loaded` says that only
    the kernel's own rewrites make it: it can be in a dump, never in an object. `hidden` says that
    rewrites use their scratch register in it (r11, from 7.3 on r12).
    """

    name: str
    opcode: int
    text: str
    group: Group
    dst: Values = ZERO
    src: Values = ZERO
    off: Values = ZERO
    imm: Values = ZERO
    high: Values | None = None
    loaded: bool = False
    hidden: bool = False
    also: tuple[str, ...] = ()


ALU_TEXT = {
    Alu.ADD: "+=",
    Alu.SUB: "-=",
    Alu.MUL: "*=",
    Alu.DIV: "/=",
    Alu.OR: "|=",
    Alu.AND: "&=",
    Alu.LSH: "<<=",
    Alu.RSH: ">>=",
    Alu.MOD: "%=",
    Alu.XOR: "^=",
    Alu.MOV: "=",
    Alu.ARSH: "s>>=",
}
JMP_TEXT = {
    Jmp.JEQ: "==",
    Jmp.JGT: ">",
    Jmp.JGE: ">=",
    Jmp.JSET: "&",
    Jmp.JNE: "!=",
    Jmp.JSGT: "s>",
    Jmp.JSGE: "s>=",
    Jmp.JLT: "<",
    Jmp.JLE: "<=",
    Jmp.JSLT: "s<",
    Jmp.JSLE: "s<=",
}
SIZE_BITS = {Size.W: 32, Size.H: 16, Size.B: 8, Size.DW: 64}


def _binary(klass: Class) -> Iterator[Form]:
    """Two-operand arithmetic (RFC 9669, section 4.1)."""
    letter = "w" if klass is Class.ALU else "r"
    base = Group.BASE32 if klass is Class.ALU else Group.BASE64
    divmul = Group.DIVMUL32 if klass is Class.ALU else Group.DIVMUL64
    for code, sign in ALU_TEXT.items():
        group = divmul if code in (Alu.MUL, Alu.DIV, Alu.MOD) else base
        kinds = [(code.name, sign, ZERO)]
        if code in (Alu.DIV, Alu.MOD):
            kinds.append(("S" + code.name, "s" + sign, range(AluOffset.SIGNED, AluOffset.SIGNED + 1)))
        for name, text, off in kinds:
            yield Form(
                f"{{{name}, K, {klass.name}}}",
                arithmetic(klass, code, Source.K),
                f"{letter}{{dst}} {text} {{imm}}",
                group,
                dst=WRITE,
                off=off,
                imm=IMM,
                hidden=True,
            )
            yield Form(
                f"{{{name}, X, {klass.name}}}",
                arithmetic(klass, code, Source.X),
                f"{letter}{{dst}} {text} {letter}{{src}}",
                group,
                dst=WRITE,
                src=READ,
                off=off,
                hidden=True,
            )
    yield Form(
        f"{{NEG, K, {klass.name}}}",
        arithmetic(klass, Alu.NEG, Source.K),
        f"{letter}{{dst}} = -{letter}{{dst}}",
        base,
        dst=WRITE,
        hidden=True,
    )
    for width in (AluOffset.MOVSX8, AluOffset.MOVSX16, AluOffset.MOVSX32)[: 2 if klass is Class.ALU else 3]:
        yield Form(
            f"{{MOVSX{width.value}, X, {klass.name}}}",
            arithmetic(klass, Alu.MOV, Source.X),
            f"{letter}{{dst}} = (s{width.value}){letter}{{src}}",
            base,
            dst=WRITE,
            src=READ,
            off=just(width),
        )


def _mov_special() -> Iterator[Form]:
    """MOV beyond the RFC: check_alu_fields (7.3), BPF_ZEXT_REG and BPF_MOV64_PERCPU_REG (include/linux/filter.h)."""
    mov64 = arithmetic(Class.ALU64, Alu.MOV, Source.X)
    for imm, spaces in ((1, "0, 1"), (1 << 16, "1, 0")):
        yield Form(
            f"{{ADDR_SPACE_CAST {spaces}, X, ALU64}}",
            mov64,
            f"r{{dst}} = addr_space_cast(r{{src}}, {spaces})",
            Group.KERNEL,
            dst=WRITE,
            src=READ,
            off=just(AluOffset.ADDR_SPACE_CAST),
            imm=just(imm),
        )
    yield Form(
        "{ADDR_PERCPU, X, ALU64}",
        mov64,
        "r{dst} = &(void __percpu *)(r{src})",
        Group.KERNEL,
        dst=WRITE,
        src=READ,
        off=just(AluOffset.ADDR_PERCPU),
        loaded=True,
        hidden=True,
    )
    yield Form(
        "{ZEXT, X, ALU}",
        arithmetic(Class.ALU, Alu.MOV, Source.X),
        "w{dst} = w{src}",
        Group.KERNEL,
        dst=WRITE,
        src=READ,
        imm=just(1),
        loaded=True,
        hidden=True,
    )


def _swaps() -> Iterator[Form]:
    """Byte swaps (RFC 9669, section 4.2)."""
    for text, klass, source in (
        ("le", Class.ALU, Source.K),
        ("be", Class.ALU, Source.X),
        ("bswap", Class.ALU64, Source.K),
    ):
        for width in (16, 32, 64):
            yield Form(
                f"{{END, {text.upper()}, {klass.name}}} {width}",
                arithmetic(klass, Alu.END, source),
                f"r{{dst}} = {text}{width} r{{dst}}",
                Group.BASE64 if width == 64 else Group.BASE32,
                dst=WRITE,
                imm=just(width),
                also=("BUG_alu64_d7",) if text == "bswap" else (),
            )


def _conditional(klass: Class) -> Iterator[Form]:
    """Compare and jump (RFC 9669, section 4.3)."""
    letter = "w" if klass is Class.JMP32 else "r"
    group = Group.BASE32 if klass is Class.JMP32 else Group.BASE64
    for code, sign in JMP_TEXT.items():
        yield Form(
            f"{{{code.name}, K, {klass.name}}}",
            arithmetic(klass, code, Source.K),
            f"if {letter}{{dst}} {sign} {{uimm}} goto pc{{off}}",
            group,
            dst=READ,
            off=OFF,
            imm=IMM,
            hidden=True,
        )
        yield Form(
            f"{{{code.name}, X, {klass.name}}}",
            arithmetic(klass, code, Source.X),
            f"if {letter}{{dst}} {sign} {letter}{{src}} goto pc{{off}}",
            group,
            dst=READ,
            src=READ,
            off=OFF,
            hidden=True,
        )


def _transfers() -> Iterator[Form]:
    """Unconditional jumps, calls, exit (RFC 9669, section 4.3), and the kernel's own.

    EXIT is base32 here although section 4.3 reads base64 for class JMP: a base32 program must be able to end.
    """
    jump = {source: arithmetic(Class.JMP, Jmp.JA, source) for source in Source}
    call = arithmetic(Class.JMP, Jmp.CALL, Source.K)
    yield Form("{JA, K, JMP}", jump[Source.K], "goto pc{off}", Group.BASE32, off=OFF)
    yield Form(
        "{JA, X, JMP}", jump[Source.X], "gotox r{dst}", Group.KERNEL, dst=READ, also=("if r{dst} jmp r0 goto pc+0",)
    )
    yield Form(
        "{JA, K, JMP32}",
        arithmetic(Class.JMP32, Jmp.JA, Source.K),
        "gotol pc{imm}",
        Group.BASE32,
        imm=IMM,
        also=("if w0 jmp {uimm} goto pc+0",),
    )
    yield Form("{CALL, K, JMP} 0", call, "call {name}#{imm}", Group.BASE32, src=just(Call.HELPER), imm=IMM)
    yield Form("{CALL, K, JMP} 1", call, "call pc{imm}", Group.BASE32, src=just(Call.SUBPROGRAM), imm=IMM)
    yield Form(  # a dump holds the distance in the offset, a subprogram's number in the immediate
        "{CALL, K, JMP} 1 dumped",
        call,
        "call pc{off}",
        Group.BASE32,
        src=just(Call.SUBPROGRAM),
        off=OFF,
        imm=IMM,
        loaded=True,
    )
    yield Form(  # the offset indexes the load's array of BTF objects
        "{CALL, K, JMP} 2",
        call,
        "call {name}#{imm}",
        Group.BASE32,
        src=just(Call.KFUNC),
        off=range(1 << 15),
        imm=IMM,
    )
    yield Form("{EXIT, K, JMP}", arithmetic(Class.JMP, Jmp.EXIT, Source.K), "exit", Group.BASE32)
    may_goto = arithmetic(Class.JMP, Jmp.JCOND, Source.K)
    yield Form("{JCOND, K, JMP}", may_goto, "may_goto pc{off}", Group.KERNEL, off=OFF)
    for name, code, src in (("CALL_ARGS", Jmp.CALL_ARGS, just(Call.SUBPROGRAM)), ("TAIL_CALL", Jmp.TAIL_CALL, ZERO)):
        yield Form(  # disasm.c has no operator for these codes: printf's text of a null string
            f"{{{name}, K, JMP}}",
            arithmetic(Class.JMP, code, Source.K),
            "if r0 (null) {uimm} goto pc{off}",
            Group.KERNEL,
            src=src,
            off=OFF if name == "CALL_ARGS" else ZERO,
            imm=IMM,
            loaded=True,
        )


def _memory(size: Size) -> Iterator[Form]:
    """Regular and sign-extending loads and stores (RFC 9669, sections 5.1, 5.2), and their guarded twins."""
    group = Group.BASE64 if size is Size.DW else Group.BASE32
    bits = SIZE_BITS[size]
    load = f"r{{dst}} = *({{}}{bits} *)(r{{src}} {{off}})".replace("{}", "u")
    signed = load.replace("(u", "(s", 1)
    stx = f"*(u{bits} *)(r{{dst}} {{off}}) = r{{src}}"
    st = f"*(u{bits} *)(r{{dst}} {{off}}) = {{imm}}"
    ldx_row = Form("", 0, load, group, dst=WRITE, src=READ, off=OFF, hidden=True)
    stx_row = Form("", 0, stx, group, dst=READ, src=READ, off=OFF, hidden=True)
    st_row = Form("", 0, st, group, dst=READ, off=OFF, imm=IMM, hidden=True)

    def row(like: Form, mode: Mode, name: str, klass: Class, text: str = "") -> Form:
        opcode = load_store(klass, mode, size)
        form = replace(like, name=f"{{{name}, {size.name}, {klass.name}}}", opcode=opcode)
        return replace(form, text=text, group=Group.KERNEL, loaded=True) if text else form

    yield row(ldx_row, Mode.MEM, "MEM", Class.LDX)
    yield row(stx_row, Mode.MEM, "MEM", Class.STX)
    yield row(st_row, Mode.MEM, "MEM", Class.ST)
    if size is not Size.DW:
        yield replace(
            row(ldx_row, Mode.MEMSX, "MEMSX", Class.LDX),
            text=signed,
            also=(f"BUG_ldx_{load_store(Class.LDX, Mode.MEMSX, size):02x}",),
        )
    for mode in (Mode.PROBE_MEM, Mode.PROBE_MEMSX, Mode.PROBE_MEM32, Mode.PROBE_MEM32SX):
        if size is Size.DW and mode in (Mode.PROBE_MEMSX, Mode.PROBE_MEM32SX):
            continue
        name = {1: "PROBE_MEM", 2: "PROBE_MEMSX", 5: "PROBE_MEM32", 6: "PROBE_MEM32SX"}[mode]
        yield row(ldx_row, mode, name, Class.LDX, f"BUG_ldx_{load_store(Class.LDX, mode, size):02x}")
    code = load_store(Class.STX, Mode.PROBE_MEM32, size)
    yield row(stx_row, Mode.PROBE_MEM32, "PROBE_MEM32", Class.STX, f"BUG_{code:02x}")
    code = load_store(Class.ST, Mode.PROBE_MEM32, size)
    yield row(st_row, Mode.PROBE_MEM32, "PROBE_MEM32", Class.ST, f"BUG_st_{code:02x}")


def _stack_arguments() -> Iterator[Form]:
    """Arguments past the fifth: is_stack_arg_ldx, is_stack_arg_st, is_stack_arg_stx (include/linux/filter.h, 7.3)."""
    register = just(STACK_ARGUMENTS)
    above, below = range(8, OFF.stop, 8), range(OFF.start, 0, 8)
    ldx, st, stx = (load_store(klass, Mode.MEM, Size.DW) for klass in (Class.LDX, Class.ST, Class.STX))
    group = Group.KERNEL
    yield Form(
        "{MEM, DW, LDX} argument",
        ldx,
        "r{dst} = *(u64 *)(r{src} {off})",
        group,
        dst=WRITE,
        src=register,
        off=above,
    )
    yield Form(
        "{MEM, DW, STX} argument",
        stx,
        "*(u64 *)(r{dst} {off}) = r{src}",
        group,
        dst=register,
        src=READ,
        off=below,
    )
    yield Form(
        "{MEM, DW, ST} argument",
        st,
        "*(u64 *)(r{dst} {off}) = {imm}",
        group,
        dst=register,
        off=below,
        imm=IMM,
    )


def _atomics(size: Size) -> Iterator[Form]:
    """Atomic operations (RFC 9669, section 5.3), load-acquire and store-release (6.15 and later; any size)."""
    bits = SIZE_BITS[size]
    wide = "64" if size is Size.DW else ""
    group = {Size.W: Group.ATOMIC32, Size.DW: Group.ATOMIC64}.get(size, Group.KERNEL)
    place = f"(u{bits} *)(r{{dst}} {{off}})"
    rows: list[tuple[str, int, str, Values, Values, Group]] = []
    if size in (Size.W, Size.DW):
        for op, sign in ((Atomic.ADD, "+="), (Atomic.OR, "|="), (Atomic.AND, "&="), (Atomic.XOR, "^=")):
            word = op.name.lower()
            fetch = f"r{{src}} = atomic{wide}_fetch_{word}({place}, r{{src}})"
            rows.append((op.name, op, f"lock *{place} {sign} r{{src}}", READ, READ, group))
            rows.append((f"FETCH {op.name}", op | Atomic.FETCH, fetch, READ, WRITE, group))
        exchange = f"r{{src}} = atomic{wide}_xchg({place}, r{{src}})"
        rows.append(("XCHG", Atomic.XCHG, exchange, READ, WRITE, group))
        compare = f"r0 = atomic{wide}_cmpxchg({place}, r0, r{{src}})"
        rows.append(("CMPXCHG", Atomic.CMPXCHG, compare, READ, READ, group))
    acquire = f"r{{dst}} = load_acquire((u{bits} *)(r{{src}} {{off}}))"
    rows.append(("LOAD_ACQ", Atomic.LOAD_ACQ, acquire, WRITE, READ, Group.KERNEL))
    rows.append(("STORE_REL", Atomic.STORE_REL, f"store_release({place}, r{{src}})", READ, READ, Group.KERNEL))
    for name, imm, text, dst, src, member in rows:
        opcode = load_store(Class.STX, Mode.ATOMIC, size)
        plain = Form(
            f"{{ATOMIC, {size.name}, STX}} {name}",
            opcode,
            text,
            member,
            dst=dst,
            src=src,
            off=OFF,
            imm=just(imm),
            also=(f"BUG_{opcode:02x}",) if imm != Atomic.ADD else (),
        )
        yield plain
        opcode = load_store(Class.STX, Mode.PROBE_ATOMIC, size)
        yield replace(
            plain,
            name=f"{{PROBE_ATOMIC, {size.name}, STX}} {name}",
            opcode=opcode,
            text=f"probe {text}",
            group=Group.KERNEL,
            loaded=True,
            also=(f"BUG_{opcode:02x}",),
        )


def _loads() -> Iterator[Form]:
    """64-bit immediates (RFC 9669, section 5.4; bpftool's text of them), legacy packet loads (5.5), the barrier."""
    rows: tuple[tuple[Imm64, str, Values, Values, bool], ...] = (
        (Imm64.INTEGER, "r{dst} = {wide}", IMM, IMM, False),
        (Imm64.MAP_FD, "r{dst} = map[id:{id}]", IMM, ZERO, False),
        (Imm64.MAP_VALUE, "r{dst} = map[id:{id}][0]+{high}", IMM, IMM, False),
        (Imm64.BTF_ID, "r{dst} = {wide}", IMM, IMM, False),
        (Imm64.FUNC, "r{dst} = subprog[{imm}]", IMM, ZERO, False),
        (Imm64.FUNC, "r{dst} = subprog[{imm}]", IMM, IMM, True),  # a dump has the subprogram's number there
        (Imm64.MAP_IDX, "r{dst} = {wide}", IMM, ZERO, False),
        (Imm64.MAP_IDX_VALUE, "r{dst} = map[idx:{id}]+{high}", IMM, IMM, False),
    )
    for kind, text, imm, high, loaded in rows:
        yield Form(
            f"{{IMM, DW, LD}} {kind.value}{' dumped' if loaded else ''}",
            WIDE,
            text,
            Group.BASE64,
            dst=WRITE,
            src=just(kind),
            imm=imm,
            high=high,
            loaded=loaded,
        )
    for size in (Size.W, Size.H, Size.B):
        word = f"r0 = *(u{SIZE_BITS[size]} *)"
        absolute, indirect = (load_store(Class.LD, mode, size) for mode in (Mode.ABS, Mode.IND))
        yield Form(f"{{ABS, {size.name}, LD}}", absolute, word + "skb[{imm}]", Group.PACKET, imm=IMM)
        yield Form(f"{{IND, {size.name}, LD}}", indirect, word + "skb[r{src} + {imm}]", Group.PACKET, src=READ, imm=IMM)
    barrier = load_store(Class.ST, Mode.NOSPEC, Size.W)
    text = f"BUG_st_{barrier:02x}"  # up to 6.12
    yield Form("{NOSPEC, W, ST}", barrier, "nospec", Group.KERNEL, loaded=True, also=(text,))


def _rows() -> Iterator[Form]:
    for klass in (Class.ALU, Class.ALU64):
        yield from _binary(klass)
    yield from _mov_special()
    yield from _swaps()
    for klass in (Class.JMP, Class.JMP32):
        yield from _conditional(klass)
    yield from _transfers()
    for size in Size:
        yield from _memory(size)
        yield from _atomics(size)
    yield from _stack_arguments()
    yield from _loads()


FORMS = tuple(_rows())
"""Every form once, in the RFC's order of sections. Names are unique."""


def _hidden(form: Form) -> Form:
    if not form.hidden:
        return form
    dst: Values = WRITE_HIDDEN if form.dst is WRITE else READ_HIDDEN if form.dst is READ else form.dst
    src: Values = READ_HIDDEN if form.src is READ else form.src
    return replace(form, dst=dst, src=src)


def _by_opcode(forms: list[Form]) -> tuple[tuple[Form, ...], ...]:
    table: list[list[Form]] = [[] for _ in range(256)]
    for form in forms:
        table[form.opcode].append(form)
    return tuple(tuple(row) for row in table)


OBJECT_FORMS = _by_opcode([form for form in FORMS if not form.loaded])
"""Index: opcode byte. What may be handed to the kernel."""

LOADED_FORMS = _by_opcode([_hidden(form) for form in FORMS])
"""Index: opcode byte. What a dump may hold: everything, with the hidden registers where rewrites use them."""
