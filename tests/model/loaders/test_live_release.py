"""The running kernel as a release: facts that hold of every kernel from 6.4 on (d7ba4cc900bf: results are `long`)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from model.kernel.release import CType
from model.loaders.kernel_memory import KernelMemory, NotMapped
from model.loaders.live import why_not
from model.loaders.live_release import Running, running

pytestmark = pytest.mark.live
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def found() -> Running:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (6, 4):
        pytest.skip(f"kernel {os.uname().release} is older than the facts here")
    return running()


@pytest.mark.parametrize(
    ("map_type", "slot", "function", "result"),
    [
        ("hash", "map_lookup_elem", "htab_map_lookup_elem", CType("void *", 64, False, True)),
        ("hash", "map_update_elem", "htab_map_update_elem", CType("long", 64, True)),
        ("percpu_hash", "map_lookup_percpu_elem", "htab_percpu_map_lookup_percpu_elem", None),
        ("lru_hash", "map_delete_elem", "htab_lru_map_delete_elem", CType("long", 64, True)),
        ("array", "map_for_each_callback", "bpf_for_each_array_elem", CType("long", 64, True)),
        ("queue", "map_pop_elem", "queue_map_pop_elem", CType("long", 64, True)),
        ("stack", "map_pop_elem", "stack_map_pop_elem", CType("long", 64, True)),
        ("lpm_trie", "map_update_elem", "trie_update_elem", CType("long", 64, True)),
        ("hash_of_maps", "map_lookup_elem", "htab_of_map_lookup_elem", None),
    ],
)
def test_operations(found: Running, map_type: str, slot: str, function: str, result: CType | None) -> None:
    operation = found.release.operation(map_type, slot)
    assert operation is not None
    assert operation.name == function
    assert result is None or operation.prototype.result == result


def test_widths_of_parameters(found: Running) -> None:
    cpu = found.release.functions["htab_percpu_map_lookup_percpu_elem"].prototype.params[2]
    assert (cpu.bits, cpu.signed) == (32, False)
    assert [kind.bits for kind in found.release.slots["map_update_elem"].params] == [64, 64, 64, 64]


def test_numbers(found: Running) -> None:
    """include/uapi/linux/bpf.h: these never change."""
    types, helpers = found.release.map_types, found.release.helper_ids
    assert [types[name].number for name in ("hash", "array", "queue", "bloom_filter")] == [1, 2, 22, 30]
    assert [helpers[name] for name in ("map_lookup_elem", "redirect_map", "for_each_map_elem")] == [1, 51, 164]
    assert found.release.layout["struct htab_elem.key"] == 48


def test_what_is_not_known_is_a_hole(found: Running) -> None:
    """A map of type struct_ops cannot be created without a value of some kernel structure."""
    assert "the running kernel does not show its operations" in found.release.type_hole("struct_ops")
    assert found.release.version.count(".") == 2
    assert found.near.name in found.release.origin


def test_nothing_stays_open() -> None:
    """Maps and programs live by their descriptors alone: nothing is pinned or attached."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)

    def descriptors() -> list[str]:
        links = (Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd"))
        return sorted(os.readlink(link) for link in links if link.is_symlink())

    before = descriptors()
    running()
    with pytest.raises(NotMapped), KernelMemory() as memory:
        memory.read(8, 8)
    assert [link for link in descriptors() if "bpf" in link] == [link for link in before if "bpf" in link]
    assert len(descriptors()) == len(before)


def test_without_permission() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become nobody")
    # All is imported before: an interpreter in root's home is closed to nobody.
    code = (
        "import os, proofs.commands.check, proofs.commands.running; from proofs.cli import main, product_version\n"
        "product_version(); os.setgroups([]); os.setuid(65534); "
        "raise SystemExit(main(['check', '--kernel', 'running']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("bpf-devirt: --kernel: running: expected the right to load programs (root): ")
