"""The control-flow graph of a program, down to the kernel functions that it reaches.

Nodes are tuples whose first element is the kind: ("block", start) instructions of one basic block;
("return", start) where the subprogram that starts there is left; ("site", slot) a helper call that
dispatches through `map->ops`; ("helper", name), ("operation", name), ("kfunc", name) kernel functions;
("unknown", slot) a call whose target the input does not tell; ("outside", index) a jump out of a fragment.
Edges have a `kind` (`Edge`); those in INDIRECT are indirect branches of the machine.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import networkx as nx

from model.errors import Unsupported
from model.isa.insn import Insn
from model.program import Program

Node = tuple[str, int | str]


class Edge(StrEnum):
    FALL = "fall"
    JUMP = "jump"  # taken, conditional or not
    CALL = "call"  # of a subprogram
    RETURN = "return"
    HELPER = "helper"  # direct call of a helper
    DIRECT = "direct"  # direct call of a map operation, or of what an inlined lookup calls
    SITE = "site"  # direct call of a helper that dispatches
    DISPATCH = "dispatch"  # through map->ops: indirect
    CALLBACK = "callback"  # a helper or operation calls back into the program: indirect
    TAIL_CALL = "tail call"  # indirect, unless the JIT patches it to a jump
    OPAQUE = "opaque"  # a call whose target the input does not tell


INDIRECT = frozenset({Edge.DISPATCH, Edge.CALLBACK, Edge.TAIL_CALL})


@dataclass(frozen=True, slots=True)
class Target:
    """What one call of a kernel function reaches.

    `node` is the function; `edge` how the program reaches it; `dispatches` the operations behind a
    dispatching helper; `callbacks` whether the function calls the callbacks that the site hands over.
    """

    node: Node
    edge: Edge
    dispatches: tuple[str, ...] = ()
    callbacks: bool = False


def _is_jump(insn: Insn) -> bool:
    return insn.opcode & 7 in (5, 6) and insn.opcode & 0xF0 not in (0x80, 0x90, 0xF0)


def _jump_target(slot: int, insn: Insn) -> int:
    return slot + 1 + (insn.imm if insn.opcode == 0x06 else insn.off)


def _ends_block(insn: Insn) -> bool:
    """Jumps, exit, and calls of subprograms (the caller's block goes on behind the return)."""
    kind = insn.opcode & 7
    if kind not in (5, 6):
        return False
    return insn.opcode & 0xF0 not in (0x80, 0xF0) or insn.src == 1


def _leaders(program: Program) -> list[int]:
    insns = program.insns
    starts = {subprogram.start for subprogram in program.subprograms} | {0}
    size = len(insns)
    for slot, insn in enumerate(insns):
        if insn.opcode & 7 in (5, 6) and _ends_block(insn):
            starts.add(slot + 1)
            if _is_jump(insn):
                starts.add(_jump_target(slot, insn))
        elif insn.opcode == 0x18 and insn.src == 4:
            starts.add(slot + 1 + insn.imm)
    return sorted(start for start in starts if 0 <= start < size)


def build(
    program: Program, targets: Mapping[int, Target], callbacks: Mapping[int, tuple[int, ...]]
) -> "nx.DiGraph[Node]":
    """The graph of `program`. `targets` says what each call of a kernel function (by slot) reaches,
    `callbacks` which subprogram starts a call hands over as callbacks.

    Linear in the program's length.
    """
    graph: nx.DiGraph[Node] = nx.DiGraph(roots=[("block", start) for start in (0, *program.entries)])
    leaders = _leaders(program)
    owner = _owners(program, leaders)
    for position, start in enumerate(leaders):
        end = leaders[position + 1] if position + 1 < len(leaders) else len(program.insns)
        graph.add_node(("block", start), end=end, subprogram=owner[start])
        _block_edges(graph, program, start, end, owner[start])
    for slot, target in targets.items():
        _kernel_edges(graph, leaders, slot, target, callbacks.get(slot, ()))
    return graph


def _owners(program: Program, leaders: list[int]) -> dict[int, int]:
    """Block start -> start of the subprogram that it lies in."""
    owner: dict[int, int] = {}
    starts = [subprogram.start for subprogram in program.subprograms] or [0]
    position = 0
    for leader in leaders:
        while position + 1 < len(starts) and starts[position + 1] <= leader:
            position += 1
        owner[leader] = starts[position]
    return owner


def _block_edges(graph: "nx.DiGraph[Node]", program: Program, start: int, end: int, subprogram: int) -> None:
    node: Node = ("block", start)
    slot = end - 1
    insn = program.insns[slot]
    size = len(program.insns)

    def to(target: int, kind: Edge) -> None:
        inside = 0 <= target < size
        graph.add_edge(node, ("block" if inside else "outside", target), kind=kind)

    kind = insn.opcode & 7
    operation = insn.opcode & 0xF0
    if kind in (5, 6) and operation == 0x90:
        graph.add_edge(node, ("return", subprogram), kind=Edge.RETURN)
    elif kind in (5, 6) and operation == 0x80 and insn.src == 1:
        callee = slot + 1 + insn.imm
        to(callee, Edge.CALL)
        if end < size:
            graph.add_edge(("return", callee), ("block", end), kind=Edge.RETURN)
    elif _is_jump(insn) and kind in (5, 6):
        to(_jump_target(slot, insn), Edge.JUMP)
        if operation != 0x00:
            to(end, Edge.FALL)
    else:
        to(end, Edge.FALL)


def _kernel_edges(
    graph: "nx.DiGraph[Node]", leaders: list[int], slot: int, target: Target, callbacks: Iterable[int]
) -> None:
    block: Node = ("block", leaders[bisect_right(leaders, slot) - 1])
    graph.add_edge(block, target.node, kind=target.edge)
    callers = [target.node]
    for operation in target.dispatches:
        graph.add_edge(target.node, ("operation", operation), kind=Edge.DISPATCH)
    if target.dispatches:
        callers = [("operation", operation) for operation in target.dispatches]
    if target.callbacks:
        for callback in callbacks:
            entry: Node = ("block", callback)
            if entry not in graph:
                entry = ("outside", callback)
            for caller in callers:
                graph.add_edge(caller, entry, kind=Edge.CALLBACK)
                graph.add_edge(("return", callback), caller, kind=Edge.RETURN)


def edges(graph: "nx.DiGraph[Node]") -> Iterator[tuple[Node, Node, Edge]]:
    """Every edge with its kind."""
    yield from graph.edges(data="kind")


def reachable(graph: "nx.DiGraph[Node]") -> set[Node]:
    """The nodes that the program's entries reach, themselves included."""
    roots: list[Node] = graph.graph["roots"]
    return {node for layer in nx.bfs_layers(graph, roots) for node in layer}


def recursive(program: Program) -> str | None:
    """The name of a subprogram that calls itself, directly or through others; None where there is none."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    starts = [subprogram.start for subprogram in program.subprograms] or [0]
    position = 0
    for slot, insn in enumerate(program.insns):
        while position + 1 < len(starts) and starts[position + 1] <= slot:
            position += 1
        if insn.opcode == 0x85 and insn.src == 1:
            graph.add_edge(starts[position], slot + 1 + insn.imm)
    names = {subprogram.start: subprogram.name for subprogram in program.subprograms}
    for component in nx.strongly_connected_components(graph):
        first = min(component)
        if len(component) > 1 or graph.has_edge(first, first):
            return names.get(first, f"subprogram at {first}")
    return None


def refuse_recursion(program: Program) -> None:
    """Raises `Unsupported` as the kernel refuses it (check_max_stack_depth: the call chain has no end)."""
    name = recursive(program)
    if name is not None:
        raise Unsupported(f"{name} calls itself: the verifier refuses recursion")
