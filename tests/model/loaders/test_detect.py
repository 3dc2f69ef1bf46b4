"""Any file: what it holds decides, and nothing but a regular file is read."""

import os
import socket
from pathlib import Path

import pytest

from model.errors import InputError
from model.loaders import detect
from model.program import Form, Object, SymbolRef

DUMPS = Path(__file__).parents[2] / "data" / "dumps"
HELPER_IDS = {"map_lookup_elem": 1, "for_each_map_elem": 164}


def load(data: bytes) -> Object:
    return detect.load_bytes(data, "input", maps={}, helper_ids=HELPER_IDS)


def test_dump_with_maps_from_a_file() -> None:
    loaded = detect.load_file(str(DUMPS / "walk.txt"), maps=str(DUMPS / "maps.json"), helper_ids=HELPER_IDS)
    assert loaded.programs[0].form is Form.XLATED
    assert [one.type for one in loaded.maps] == ["array", "hash", "array", "array", "lru_hash"]


def test_dump_without_maps() -> None:
    loaded = detect.load_file(str(DUMPS / "walk.opcodes.json"), helper_ids=HELPER_IDS)
    assert loaded.programs[0].name == "walk"
    assert {one.type for one in loaded.maps} == {None}


@pytest.mark.parametrize(
    "data",
    [
        b" 142: (95) exit\n",
        b"; if (rules_map) {\n 142: (95) exit\n",
        b"\r\n\r\n 0: (95) exit\r\n",
        b"\x1b[1m0: (95) exit\x1b[0m\n",
        b"\xef\xbb\xbf0: (95) exit\n",
        b'[{"disasm":"(95) exit"}]',
        b'\n\n {"insns": [{"disasm": "(95) exit"}]}',
    ],
)
def test_dumps_are_told_by_what_they_hold(data: bytes) -> None:
    (program,) = load(data).programs
    assert program.form is Form.XLATED


def test_assembly() -> None:
    (program,) = load(b"r0 = 0\nexit\n").programs
    assert program.form is Form.OBJECT
    assert [insn.opcode for insn in program.insns] == [0xB7, 0x95]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "empty file"),
        (b" \n\n", "empty file"),
        (b"\x7fELF", ""),
        (b"\x7fELF" + bytes(60), ""),
        (b"\xff\xfe0\x00:\x00", "UTF-8"),
        (b"exit\n\xc3\x28\n", "UTF-8"),
        (b'digraph "DOT graph for eBPF program" {\n', "`visual`"),
        (b"int walk(struct xdp_md * ctx):\nbpf_prog_0123456789abcdef_walk:\n   0:\tnopl\t(%rax)\n", "JITed"),
        (b"[", "an instruction or a program"),
        (b"{", "key"),
    ],
)
def test_refusals(data: bytes, part: str) -> None:
    with pytest.raises(InputError) as caught:
        load(data)
    assert caught.value.file == "input"
    assert part in caught.value.expected


def test_place_of_a_fault_in_the_encoding() -> None:
    with pytest.raises(InputError) as caught:
        load(b"exit\n\xc3\x28\n")
    assert caught.value.place == "byte 5"


def refused(path: str) -> str:
    with pytest.raises(InputError) as caught:
        detect.load_file(path, helper_ids=HELPER_IDS)
    return caught.value.expected


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)  # nobody writes: reading it would wait for ever
    assert refused(str(tmp_path)) == "expected a regular file, found a directory"
    assert refused(str(fifo)) == "expected a regular file, found a FIFO"
    assert refused("/dev/zero") == "expected a regular file, found a character device"
    assert refused(str(tmp_path / "none")) == "expected a file that can be read: No such file or directory"
    assert refused("a\0b") == "expected a file name without a zero byte"
    assert refused("") == "expected a file that can be read: No such file or directory"


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("s")
        assert refused("s").startswith("expected a file that can be read")


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every file")
    secret = tmp_path / "secret"
    secret.write_bytes(b"exit\n")
    secret.chmod(0)
    assert refused(str(secret)) == "expected a file that can be read: Permission denied"


def test_size_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "MAX_BYTES", 100)
    path = tmp_path / "long"
    path.write_bytes(b"exit\n" * 20)
    assert detect.read_bytes(str(path)) == b"exit\n" * 20
    path.write_bytes(b"exit\n" * 20 + b"\n")
    assert refused(str(path)) == "expected at most 100 bytes"


def test_a_fault_in_the_maps_names_their_file(tmp_path: Path) -> None:
    path = tmp_path / "maps"
    path.write_text("35: hash  name x\n")
    with pytest.raises(InputError) as caught:
        detect.load_file(str(DUMPS / "walk.txt"), maps=str(path), helper_ids=HELPER_IDS)
    assert caught.value.file == str(path)


def test_c_source_is_told_from_assembly(tmp_path: Path) -> None:
    path = tmp_path / "prog.c"
    path.write_text("#include <linux/bpf.h>\nint prog(void *ctx)\n{\n\treturn 0;\n}\n")
    with pytest.raises(InputError, match="found C source: compile it with `clang -target bpf"):
        detect.load_file(str(path), helper_ids={})


def test_what_rewrite_prints_is_a_dump_with_names(tmp_path: Path) -> None:
    path = tmp_path / "after.txt"
    path.write_text("   0: (18) r1 = map[cells]\n   2: (85) call bpf_for_each_array_elem#?\n   3: (95) exit\n")
    program = detect.load_file(str(path), helper_ids={}).programs[0]
    assert [found.name for found in program.maps] == ["cells"]
    assert program.refs[2] == SymbolRef("bpf_for_each_array_elem")
