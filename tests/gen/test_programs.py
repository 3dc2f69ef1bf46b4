"""Generated programs: read by the loader, run without a fault on the machine, let through by the running kernel."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, find, given, seed, settings

from gen.judges import reason, sites
from gen.maps import ROWS
from gen.oracles import Kernel, Left, differences, linked, on_machine, program, rewritten
from gen.programs import EVERY, Generated, programs
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders.live import Refused, why_not

RELEASE, X86 = load_release("6.12"), ABIS["x86_64"]
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ACCEPTED = 0.95
"""Of the programs, at least, that the running kernel lets through."""


@MANY
@given(programs())
def test_a_program_runs_to_its_end_and_means_the_same_after_the_rewrite(made: Generated) -> None:
    done = rewritten(program(made, RELEASE), RELEASE, X86)
    before = on_machine(done.before, made, RELEASE, X86)
    assert before.trouble == ""
    assert differences(before, on_machine(linked(done, RELEASE), made, RELEASE, X86)) == []


def test_every_map_type_helper_and_kind_comes_up() -> None:
    seen: set[tuple[str, str, str]] = set()

    @seed(1)
    @settings(max_examples=1500, database=None, deadline=None, phases=[Phase.generate])
    @given(programs())
    def collect(made: Generated) -> None:
        seen.update(sites(rewritten(program(made, RELEASE), RELEASE, X86)))

    collect()
    pairs = {(kind, helper) for kind, row in ROWS.items() for helper in row.calls}
    assert pairs <= {(types, helper) for types, helper, _ in seen}
    assert {kind for *_, kind in seen} >= {"direct", "inlined", "stays", "may stay"}
    assert any("+" in types for types, *_ in seen)  # two types meet


def test_a_program_shrinks_to_what_a_person_reads() -> None:
    def deletes(made: Generated) -> bool:
        return "call map_delete_elem" in made.text

    found = find(programs(), deletes, settings=settings(max_examples=2000, database=None))
    assert found.text.count("call ") == 1
    assert len(found.text.splitlines()) <= 22
    assert found.inputs == (0, 0)


def test_only_the_calls_that_are_asked_for() -> None:
    @settings(max_examples=30, database=None, deadline=None)
    @given(programs(calls={"queue": ("map_pop_elem",)}))
    def look(made: Generated) -> None:
        called = {line.split()[1] for line in made.text.splitlines() if line.startswith("call map_")}
        assert called <= {"map_pop_elem"}
        assert {map_.type for map_ in made.maps} == {"queue"}

    look()
    assert set(EVERY) == set(ROWS)


def test_what_differs_is_told_in_hex_and_signed() -> None:
    one = Left(bytes(8) + (0xFFFFFFFFFFFFFFEF).to_bytes(8, "little"), {"m": {b"\1": b"\2\3"}})
    other = Left(bytes(8) + (0xFFFFFFEF).to_bytes(8, "little"), {"m": {}})
    assert differences(one, other) == [
        "io +8: 0xffffffffffffffef (-17) | 0x00000000ffffffef (4294967279)",
        "m[01]: 0203 | nothing",
    ]
    assert differences(one, Left(b"", trouble="fault")) == ["an end | fault"]
    assert differences(one, one) == []


@pytest.mark.live
def test_the_running_kernel_lets_them_through_and_does_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    why = why_not()
    if why is not None:
        pytest.skip(why)
    refused: Counter[str] = Counter()
    release = load_release("6.18")
    count = 0

    @settings(max_examples=150, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(programs())
    def load(made: Generated) -> None:
        nonlocal count
        count += 1
        done = rewritten(program(made, release), release, X86)
        try:
            real, _ = kernel.left(done.before, made)
        except Refused as error:
            refused[reason(error)] += 1
            return
        model = on_machine(done.before, made, release, X86, cpus=kernel.cpus, cpu=kernel.cpu)
        assert differences(model, real) == []

    with Kernel({name: row.number for name, row in release.map_types.items()}) as kernel:
        load()
    with capsys.disabled():
        print(f"\n{count - sum(refused.values())} of {count} programs accepted; refused: {dict(refused)}")
    assert sum(refused.values()) <= (1 - ACCEPTED) * count
