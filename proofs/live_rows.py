"""The verdict on a change of another pass: the CallRewrite claim on its row, where there is one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from model.errors import Unsupported
from model.isa.insn import Insn
from model.kernel.abi import Abi
from model.kernel.release import Release
from model.rewrite.other_alu import ROWS
from model.rewrite.other_passes import Row
from proofs.obligation import NoRule, Verdict
from proofs.outcome import worst
from proofs.properties.rewrite_cases import Case, rewrite_obligations
from proofs.solver import Solver

CLAIMED = frozenset(row.name for row in ROWS) - {"speculation mask", "cast between address spaces"}
"""Rows on numbers alone; the other two speak of what a verifier knows, and of an arena."""


@dataclass(slots=True)
class RowClaims:
    """Called with a row, the instruction before and those after; each shape of instruction is decided once."""

    release: Release
    abi: Abi
    solver: Solver
    _known: dict[tuple[Insn, tuple[Insn, ...]], Verdict] = field(default_factory=dict)

    def __call__(self, row: Row, insn: Insn, after: Sequence[Insn]) -> Verdict | None:
        if row.name not in CLAIMED:
            return None
        key = named(insn, after)
        if key not in self._known:
            try:
                obligations = rewrite_obligations(self.release, self.abi, Case("as-it-stands", key[0], row, key[1]))
                self._known[key] = worst(result.verdict for result in self.solver.decide_all(obligations))
            except Unsupported as hole:
                self._known[key] = NoRule(str(hole))
        return self._known[key]


def named(insn: Insn, after: Sequence[Insn]) -> tuple[Insn, tuple[Insn, ...]]:
    """Both with r1 for the destination and r2 for a source that is another register: any register is as good."""
    names = {insn.dst: 1} | ({} if insn.src == insn.dst or not insn.opcode & 8 else {insn.src: 2})
    used = {one.dst for one in after} | {one.src for one in after}
    if not used <= {*names, 0, 11} or insn.dst == 10:
        return insn, tuple(after)
    return _renamed(insn, names), tuple(_renamed(one, names) for one in after)


def _renamed(insn: Insn, names: dict[int, int]) -> Insn:
    """Fields that an instruction does not use are 0, as r0 is: they stay where r0 is none of the names."""
    operation, kind = insn.opcode & 0xF0, insn.opcode & 7
    uses_dst = not (kind in (5, 6) and operation == 0)
    uses_src = bool(insn.opcode & 8)
    return replace(
        insn,
        dst=names.get(insn.dst, insn.dst) if uses_dst else insn.dst,
        src=names.get(insn.src, insn.src) if uses_src else insn.src,
    )
