"""The house's rules, read from the imports: who may know whom, and where the solver and the generator may be named."""

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("model", "gen", "proofs")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for room in ROOMS
    for path in sorted((ROOT / room).rglob("*.py"))
}
STAGES = {  # what a room of the model may import, besides errors and itself
    "model.isa": set(),
    "model.bits": set(),
    "model.world": {"model.bits"},
    "model.memory": {"model.world", "model.bits"},
    "model.program": {"model.isa"},
    "model.kernel": set(),
    "model.native": set(),
    "model.semantics": {"model.isa", "model.bits", "model.memory", "model.world", "model.kernel"},
    "model.loaders": {"model.isa", "model.program", "model.kernel"},
    "model.facts": {"model.isa", "model.program", "model.kernel"},
    "model.rewrite": {"model.isa", "model.program", "model.kernel", "model.facts"},
    "model.maps": {"model.bits", "model.memory", "model.world", "model.kernel"},
}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def stage(module: str) -> str:
    name = ".".join(module.split(".")[:2])
    return "model.facts" if name.startswith("model.facts") else name


@pytest.mark.parametrize("module", sorted(MODULES))
def test_arrows(module: str) -> None:
    names = set(imported(MODULES[module]))
    roots = {name.split(".")[0] for name in names}
    assert "tests" not in roots
    if module.startswith("model"):
        assert not roots & {"gen", "proofs", "z3", "hypothesis"}
        allowed = STAGES.get(stage(module))
        if allowed is not None:
            used = {stage(name) for name in names if name.startswith("model.")}
            assert used <= allowed | {stage(module), "model.errors"}
    if module.startswith("gen"):
        assert not roots & {"proofs", "z3"}
    if module.startswith("proofs"):
        assert "hypothesis" not in roots
        if not module.startswith(("proofs.commands", "proofs.cli")):
            assert "gen" not in roots
        # smtlib: z3's terms as files, and files back to z3
        if module not in ("proofs.symbolic", "proofs.solver", "proofs.smtlib"):
            assert "z3" not in roots


def test_no_import_cycle() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module, path in MODULES.items():
        for name in imported(path):
            if name in MODULES and name != module and not module.startswith(f"{name}."):
                graph.add_edge(module, name)
    cycles = [sorted(component) for component in nx.strongly_connected_components(graph) if len(component) > 1]
    assert cycles == []


WORD_ROOMS = sorted(m for m in MODULES if m.startswith(("model.semantics.", "model.maps.")))
# Names of parameters and locals that hold words or truth values of any representation.
WORD_CALLS = {"eq", "ult", "ule", "slt", "sle", "conj", "disj", "negate", "true"}


@pytest.mark.parametrize("module", WORD_ROOMS)
def test_no_python_truth_of_a_word(module: str) -> None:
    """A solver term is silently truthy: no `if`, `and`, `or`, `not`, `while` on the result of a comparison of words."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    truths: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_truth(node.value, truths):
            truths |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        tests: list[ast.expr] = []
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            tests = [node.test]
        elif isinstance(node, ast.BoolOp):
            tests = node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            tests = [node.operand]
        for test in tests:
            assert not _is_truth(test, truths), f"{module}:{test.lineno}: Python truth of a word"


def _is_truth(expression: ast.expr, truths: set[str]) -> bool:
    if isinstance(expression, ast.Name):
        return expression.id in truths
    return (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Attribute)
        and expression.func.attr in WORD_CALLS
    )


TABLES = {"model.isa.forms"}  # rooms that are one table


def test_no_utils() -> None:
    assert not [path for path in ROOT.rglob("utils.py") if ".venv" not in path.parts]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_modules_stay_one_room(module: str) -> None:
    lines = MODULES[module].read_text(encoding="utf-8").count("\n")
    assert lines <= 330 or module in TABLES, f"{module} has {lines} lines"
