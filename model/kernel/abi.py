"""The 64-bit C ABIs that have a BPF JIT: who extends values narrower than a register, and how.

Rows only. Where an ABI says nothing of the upper bits, a callee may be compiled to anything that is right for
every value of them, and so may a caller for a result's. The evidence in each row was produced by Debian clang
19.1.7 (`--target=… -O2 -S`) from functions of these shapes: a callee `long f(int x) { return x; }` (does it
widen its argument?), `int r(long x) { return x; }` (does it extend its result?), a caller
`long c(long x) { return g(x); }` of `int g(long)` (does it widen what it got?), a caller
`void a(long x) { take(x); }` of `void take(int)` (does it extend what it hands over?), each also for `unsigned`.
For _Bool and for integers of 8, 16 and 32 bits the attributes that clang gives parameters and results (signext,
zeroext) were compared too; where an ABI's column is BY_TYPE or SIGN, a callee uses the whole register unseen, so one
that is not extended as demanded can be an index far outside of an array.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from model.errors import Unsupported
from model.kernel.release import CType


class Extension(Enum):
    """Who answers for the bits of a 64-bit register above a narrower integer in it."""

    NOBODY = "nobody"  # the upper bits are unspecified
    BY_TYPE = "by type"  # sign-extended where the C type is signed, zero-extended where it is not
    SIGN = "sign"  # widened by its type to 32 bits, then sign-extended: a 32-bit unsigned value too


class Upper(Enum):
    """What the upper bits are."""

    ANY = "any"
    ZERO = "zero"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Jit:
    """What an architecture's JIT adds to an ordinary helper call (source 0), direct or not.

    `extends_arguments` and `extends_result` say whether it changes the upper bits of r1-r5 before, and of the
    result after the call; `source` where this was read, with the release.
    """

    extends_arguments: bool
    extends_result: bool
    source: str


@dataclass(frozen=True, slots=True)
class Abi:
    """One C ABI. `argument` binds callers, `result` callees; both are about integers narrower than 64 bits.

    `relied_below`: arguments of fewer bits a compiler takes for extended although the document does not say so.
    """

    name: str
    argument: Extension
    result: Extension
    document: str
    evidence: str
    jit: Jit
    relied_below: int = 0

    def rules(self, arguments: Iterable[CType], results: Iterable[CType]) -> "Abi":
        """What a claim on these types depends on: no names or sources, and no rule where no type is narrow.

        So claims that two ABIs cannot tell apart are one claim. Raises Unsupported for an argument that the document
        and a compiler do not see alike.
        """
        arguments = tuple(arguments)
        if any(0 < kind.bits < self.relied_below for kind in arguments):
            raise Unsupported(
                f"{self.name}: an argument of fewer than {self.relied_below} bits: clang takes it for extended, "
                "the document does not say so"
            )
        argument, result = (
            rule if any(0 < kind.bits < 64 for kind in kinds) else Extension.NOBODY
            for rule, kinds in ((self.argument, arguments), (self.result, results))
        )
        return Abi("", argument, result, "", "", replace(self.jit, source=""))


def upper_bits(rule: Extension, kind: CType) -> Upper:
    """What `rule` makes of the bits above an integer of type `kind`. ValueError for one that has none above it.

    SIGN on fewer than 32 bits is the same as BY_TYPE: an unsigned 8- or 16-bit value has bit 31 clear.
    """
    if not 0 < kind.bits < 64:
        raise ValueError(f"{kind.c} has {kind.bits} bits: nothing is above it")
    if rule is Extension.NOBODY:
        return Upper.ANY
    if kind.signed or (rule is Extension.SIGN and kind.bits == 32):
        return Upper.SIGN
    return Upper.ZERO


# In every JIT read, helper calls and calls of map operations take one path: r1-r5 sit in the argument registers
# as they are, and r0 is, or is moved from, the whole 64-bit result register. Argument extension is for kfunc
# calls only (BPF_PSEUDO_KFUNC_CALL), and the verifier takes r0 after a helper for a 64-bit definition (no explicit
# zero extension behind it). Some JITs put code of their own in place of other helpers (get_smp_processor_id and
# get_current_task in 7.3 on arm64, loongarch64, ppc64le, riscv64, s390x), never of one on a map.
_ROWS = (
    Abi(
        "x86_64",
        Extension.NOBODY,
        Extension.NOBODY,
        "System V AMD64 psABI, 3.2.3 Parameter Passing (only _Bool is extended, to 8 bits)",
        "f: movslq %edi,%rax, movl %edi,%eax; r: movq %rdi,%rax, upper half as it was; c: cltq, movl %eax,%eax; "
        "a: a bare jump; integers of 8 and 16 bits: beyond the document, clang extends them to 32 bits as a caller and "
        "takes them for extended as a callee (movl %edi,%eax of an unsigned char); above 32 bits is anything",
        Jit(
            False,
            False,
            "x86/net/bpf_jit_comp.c do_jit, BPF_JMP | BPF_CALL: emit_call only, r0 is rax "
            "(7.3:2647, 6.12:2176, 6.1:1537, 5.10:1251)",
        ),
        relied_below=32,
    ),
    Abi(
        "arm64",
        Extension.NOBODY,
        Extension.NOBODY,
        "AAPCS64, 6.8.2 Parameter passing rules (unused bits have unspecified values), 6.9 Result return",
        "f: sxtw x0,w0, mov w0,w0; r: ret, upper half as it was; c: sxtw, mov w0,w0; a: a bare branch",
        Jit(
            False,
            False,
            "arm64/net/bpf_jit_comp.c build_insn, BPF_JMP | BPF_CALL: 64-bit A64_MOV(1, r0, x0) "
            "(7.3:1732, 6.12:1436, 6.1:1140, 5.10:771)",
        ),
    ),
    Abi(
        "riscv64",
        Extension.SIGN,
        Extension.SIGN,
        "RISC-V psABI, integer calling convention: scalars narrower than XLEN are widened according to the sign of "
        "their type up to 32 bits, then sign-extended to XLEN bits; results are returned as a first argument is passed",
        "f: nothing for int, slli+srli by 32 for unsigned (which comes sign-extended); r: sext.w for int and unsigned; "
        "c: nothing for int, slli+srli for unsigned; a: sext.w for int and unsigned; unsigned short: slli+srli by 48",
        Jit(
            False,
            False,
            "riscv/net/bpf_jit_comp64.c bpf_jit_emit_insn, BPF_JMP | BPF_CALL: sign_extend for kfuncs only; "
            "emit_mv(r0, a0) after (7.3:1838 and 1873, 6.12:1610 and 1632; no kfuncs in 6.1:1026, 5.10:844)",
        ),
    ),
    Abi(
        "s390x",
        Extension.BY_TYPE,
        Extension.BY_TYPE,
        "ELF Application Binary Interface s390x Supplement, parameter passing; return values",
        "f: nothing; r: lgfr for int, llgfr for unsigned; c: nothing; a: lgfr, llgfr; the full register of an unsigned "
        "parameter is used as an index (sllg %r1,%r3,3)",
        Jit(
            False,
            False,
            "s390/net/bpf_jit_comp.c bpf_jit_insn, BPF_JMP | BPF_CALL: sign_zero_extend of arguments for kfuncs only; "
            "64-bit lgr of r2 into r0 (7.3:1875 and 1902, 6.12:1808 and 1826; no kfuncs in 6.1:1323, 5.10:1292)",
        ),
    ),
    Abi(
        "ppc64le",
        Extension.BY_TYPE,
        Extension.BY_TYPE,
        "64-Bit ELF V2 ABI Specification, 2.2.3.2 Parameter Passing in Registers, 2.2.5 Return Values",
        "f: nothing; r: extsw for int, clrldi 32 for unsigned; c: nothing; a: extsw, clrldi; the full register of an "
        "unsigned parameter is used as an index (sldi 4,4,3)",
        Jit(
            False,
            False,
            "powerpc/net/bpf_jit_comp64.c bpf_jit_build_body, BPF_JMP | BPF_CALL: prepare_for_kfunc_call for kfuncs; "
            "64-bit mr of r3 into r0 (7.3:1810, 6.12:1190, 6.1:1001, 5.10:853)",
        ),
    ),
    Abi(
        "loongarch64",
        Extension.SIGN,
        Extension.SIGN,
        "Procedure Call Standard for the LoongArch Architecture: 32-bit unsigned integers are sign-extended too",
        "f: nothing for int, bstrpick.d 31,0 for unsigned (which comes sign-extended); r: addi.w 0 for both; "
        "c: nothing for int, bstrpick.d for unsigned; a: addi.w 0 for both; unsigned short: bstrpick.d 15,0",
        Jit(
            False,
            False,
            "loongarch/net/bpf_jit.c build_insn, BPF_JMP | BPF_CALL: emit_abi_ext of arguments for kfuncs only; "
            "move_reg(r0, a0) after (7.3:1176 and 1202, 6.12:896 and 916; no kfuncs in 6.1:780; no JIT in 5.10)",
        ),
    ),
    Abi(
        "mips64",
        Extension.SIGN,
        Extension.SIGN,
        "MIPSpro N32 ABI Handbook, chapter 2 (calling convention, also for n64): 32-bit values are kept sign-extended "
        "in 64-bit registers, unsigned ones too",
        "f: move for int, dext 0,32 for unsigned (which comes sign-extended); r: sll 0 for int and unsigned; "
        "c: sll 0 for int (not needed, harmless), dext for unsigned; a: sll 0 for both; unsigned short: andi",
        Jit(
            False,
            False,
            "mips/net/bpf_jit_comp64.c emit_call: jalr between register saves, r0 is v0 (7.3:438, 6.12:438, "
            "6.1:435; no kfuncs); 5.10 has ebpf_jit.c build_one_insn instead, the same (1308)",
        ),
    ),
    Abi(
        "sparc64",
        Extension.BY_TYPE,
        Extension.BY_TYPE,
        "SPARC Compliance Definition 2.4, chapter 3P (known at second hand; the compiler's output was looked at)",
        "f: nothing; r: sra 0 for int, srl 0 for unsigned; c: nothing; a: sra 0, srl 0; the full register of an "
        "unsigned parameter is used as an index (sllx %o1,3,%o1)",
        Jit(
            False,
            False,
            "sparc/net/bpf_jit_comp_64.c build_insn, BPF_JMP | BPF_CALL: emit_reg_move(O0, r0), a 64-bit or "
            "(7.3:1223, 6.12:1223, 6.1:1223, 5.10:1223; no kfuncs)",
        ),
    ),
)

ABIS: Mapping[str, Abi] = {row.name: row for row in _ROWS}
