"""Basic blocks of a program: where control can enter, where it goes, and which function a block is of."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from model.errors import InputError, Unsupported
from model.isa.insn import Insn
from model.program import Program

CALL, EXIT, LD_IMM64, JA, JA32, JCOND_OPCODE = 0x85, 0x95, 0x18, 0x05, 0x06, 0xE5
INDIRECT = {0x0D: "indirect jump (gotox)", 0x8D: "indirect call (callx)"}
PSEUDO_CALL, PSEUDO_FUNC = 1, 4


class End(Enum):
    """How a block ends."""

    FALL = "fall"
    GOTO = "goto"
    BRANCH = "branch"
    CALL = "call"
    EXIT = "exit"


@dataclass(frozen=True, slots=True)
class Block:
    """Slots `start` to `stop` (exclusive). `targets` are block numbers, -1 outside of the listing.

    BRANCH: (taken, not taken); CALL: (callee, continuation); GOTO and FALL: (next,); EXIT: ().
    `function` is the slot at which the function that the block is part of starts.
    """

    start: int
    stop: int
    end: End
    targets: tuple[int, ...]
    function: int


@dataclass(frozen=True, slots=True)
class Graph:
    """`at` maps a slot that starts a block to the block's number; `addressed` are the callbacks' slots."""

    blocks: tuple[Block, ...]
    at: dict[int, int]
    addressed: tuple[int, ...]


def jump_target(insn: Insn, slot: int) -> int | None:
    """Slot that a jump (classes JMP and JMP32; no call, no exit) goes to, None for any other instruction."""
    opcode = insn.opcode
    if opcode & 0x07 not in (5, 6) or opcode in (CALL, EXIT):
        return None
    if opcode in INDIRECT:
        raise Unsupported(f"instruction {slot}: {INDIRECT[opcode]}: its targets are not followed")
    return slot + 1 + (insn.imm if opcode == JA32 else insn.off)


def build(program: Program, leaders: Iterable[int] = ()) -> Graph:
    """Blocks of the program, with `leaders` starting blocks of their own.

    Raises InputError where a jump or call leaves a program that is no fragment, or lands inside a
    64-bit load, and Unsupported on an indirect jump.
    """
    marks, functions, addressed = _mark(program, leaders)
    starts = [slot for slot, mark in enumerate(marks[:-1]) if mark]
    at = {slot: number for number, slot in enumerate(starts)}
    starts.append(len(program.insns))
    entries = sorted(functions)
    blocks = []
    for number in range(len(starts) - 1):
        start, stop = starts[number], starts[number + 1]
        end, targets = _end(program.insns, stop, at)
        blocks.append(Block(start, stop, end, targets, entries[bisect_right(entries, start) - 1]))
    return Graph(tuple(blocks), at, addressed)


def _mark(program: Program, leaders: Iterable[int]) -> tuple[bytearray, set[int], tuple[int, ...]]:
    """A byte a slot, 1 where a block starts; function starts; callback addresses."""
    insns, count = program.insns, len(program.insns)
    marks = bytearray(count + 1)
    inside = bytearray(count + 1)
    functions = {0} | {sub.start for sub in program.subprograms if 0 <= sub.start < count}
    addressed: dict[int, None] = {}
    jumps: list[tuple[int, int]] = []
    for slot, insn in enumerate(insns):
        opcode = insn.opcode
        if opcode == LD_IMM64 and not inside[slot]:
            inside[slot + 1] = 1
            if insn.src == PSEUDO_FUNC:
                target = slot + 1 + insn.imm
                jumps.append((slot, target))
                addressed[target] = None
        elif opcode & 0x07 in (5, 6):
            marks[slot + 1] = opcode != CALL or insn.src == PSEUDO_CALL or marks[slot + 1]
            if opcode != CALL and opcode != EXIT:
                jumps.append((slot, jump_target(insn, slot) or 0))
            elif opcode == CALL and insn.src == PSEUDO_CALL:
                jumps.append((slot, slot + 1 + insn.imm))
                functions.add(slot + 1 + insn.imm)
    for slot, target in jumps:
        _check(program, slot, target, inside)
        if 0 <= target < count:
            marks[target] = 1
    functions |= set(addressed)
    functions = {slot for slot in functions if 0 <= slot < count}
    for slot in (*functions, *leaders):
        marks[slot] = 1
    return marks, functions, tuple(slot for slot in addressed if 0 <= slot < count)


def _check(program: Program, slot: int, target: int, inside: bytearray) -> None:
    count = len(program.insns)
    if 0 <= target < count:
        if inside[target]:
            raise InputError(
                program.name, f"instruction {slot}", f"a target that is no second half of a load: {target}"
            )
    elif not program.fragment:
        raise InputError(program.name, f"instruction {slot}", f"a target in 0 to {count - 1}, found {target}")


def _end(insns: tuple[Insn, ...], stop: int, at: dict[int, int]) -> tuple[End, tuple[int, ...]]:
    slot = stop - 1
    insn = insns[slot]
    opcode = insn.opcode
    following = at.get(stop, -1)
    if opcode & 0x07 not in (5, 6):
        return End.FALL, (following,)
    if opcode == EXIT:
        return End.EXIT, ()
    if opcode == CALL:
        if insn.src != PSEUDO_CALL:
            return End.FALL, (following,)
        return End.CALL, (at.get(slot + 1 + insn.imm, -1), following)
    target = at.get(jump_target(insn, slot) or 0, -1)
    if opcode in (JA, JA32):
        return End.GOTO, (target,)
    return End.BRANCH, (target, following)


def reverse_postorder(successors: Sequence[Sequence[int]]) -> list[int]:
    """Number of each node in reverse postorder from node 0; what 0 does not reach comes behind, by lowest number.

    `successors` lists the nodes that follow each node; negative ones are ignored.
    """
    seen = bytearray(len(successors))
    result = [0] * len(successors)
    numbered = 0
    for root in range(len(successors)):
        if seen[root]:
            continue
        seen[root] = 1
        order: list[int] = []
        stack: list[tuple[int, int]] = [(root, 0)]
        while stack:
            node, index = stack.pop()
            targets = successors[node]
            while index < len(targets):
                target = targets[index]
                index += 1
                if target >= 0 and not seen[target]:
                    seen[target] = 1
                    stack.append((node, index))
                    node, index, targets = target, 0, successors[target]
            order.append(node)
        for node in reversed(order):
            result[node] = numbered
            numbered += 1
    return result
