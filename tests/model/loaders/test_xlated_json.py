"""JSON dumps: shapes that bpftool prints, and refusals with the path."""

import json
from typing import Any

import pytest

from model.errors import InputError
from model.isa.insn import Insn
from model.loaders import xlated
from model.loaders.json_stream import JsonStream
from model.program import Line


def insn(text: str, raw: str = "", **more: Any) -> dict[str, Any]:
    """An instruction's object; `raw` are its bytes in hex, in a little-endian machine's order."""
    entry: dict[str, Any] = {**more, "disasm": text}
    if raw:
        data = [f"0x{byte:02x}" for byte in bytes.fromhex(raw)]
        registers = int(data[1], 16)
        entry["opcodes"] = {
            "code": data[0],
            "src_reg": hex(registers >> 4),
            "dst_reg": hex(registers & 15),
            "off": data[2:4],
            "imm": data[4:],
        }
    return entry


EXIT = insn("(95) exit", "95 00 00 00 00 00 00 00")


def test_wide_load_has_12_bytes() -> None:
    text = json.dumps([insn("(18) r1 = 0xabcdef0123456789", "18 01 0000 89674523 00000000 01efcdab"), EXIT])
    (program,) = xlated.load_json(text, "dump.json").programs
    assert program.insns == (Insn(0x18, 1, 0, 0, 0x23456789), Insn(0, imm=-0x543210FF), Insn(0x95))


def test_keys_of_functions_and_lines() -> None:
    first = insn("(b7) r0 = 0", proto="int walk(struct xdp_md * ctx)", src="r = 0;", file="w.c", line_num=4, line_col=2)
    second = insn("(95) exit", proto="int rest(void)", src="}")
    (program,) = xlated.load_json(json.dumps([first, second], indent=8), "dump.json").programs
    assert [(sub.name, sub.start, sub.end) for sub in program.subprograms] == [("walk", 0, 1), ("rest", 1, 2)]
    assert program.lines == {0: Line("w.c", 4, 2, "r = 0;"), 1: Line("", 0, 0, "}")}


def test_programs_with_headers() -> None:
    known = {"id": 3, "type": "xdp", "name": "one", "tag": "0123456789abcdef", "gpl_compatible": True}
    text = json.dumps([{**known, "insns": [EXIT]}, {"id": 4, "type": 77, "insns": [EXIT, EXIT]}])
    loaded = xlated.load_json(text, "dump.json")
    assert [(p.name, p.type, len(p.insns)) for p in loaded.programs] == [("one", "xdp", 1), ("program#2", "type 77", 2)]


def test_one_program_object() -> None:
    loaded = xlated.load_json(json.dumps({"name": "one", "insns": [EXIT]}), "dump.json")
    assert [program.name for program in loaded.programs] == ["one"]


def test_a_program_larger_than_what_is_read_at_once() -> None:
    text = json.dumps([{"name": "big", "insns": [EXIT] * 5000}, {"name": "small", "insns": [EXIT]}])
    assert [len(program.insns) for program in xlated.load_json(text, "dump.json").programs] == [5000, 1]


def test_big_endian_bytes() -> None:
    """As on s390x: registers by name, offset and immediate with the high byte first."""
    entry = {
        "disasm": "(7b) *(u64 *)(r10 -8) = r1",
        "opcodes": {"code": "0x7b", "src_reg": "0x1", "dst_reg": "0xa", "off": ["0xff", "0xf8"], "imm": ["0x00"] * 4},
    }
    loaded = xlated.load_json(json.dumps([EXIT, entry, EXIT]), "dump.json")
    assert loaded.byteorder == "big"
    assert loaded.programs[0].insns[1] == Insn(0x7B, 10, 1, -8)


def test_big_endian_bytes_in_text() -> None:
    """The register byte's halves change places, too."""
    text = "0: (7b) *(u64 *)(r10 -8) = r1\n 7b a1 ff f8 00 00 00 00\n1: (95) exit\n 95 00 00 00 00 00 00 00\n"
    loaded = xlated.load_text(text, "dump.txt")
    assert loaded.byteorder == "big"
    assert loaded.programs[0].insns[0] == Insn(0x7B, 10, 1, -8)


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("[]", "", "at least one instruction"),
        ("[1]", "line 1, column 2", "an object"),
        ("", "line 1, column 1", "starts with"),
        ("[{}]", "[0]", '"disasm"'),
        ('[{"disasm": 5}]', "[0]", '"disasm"'),
        ('[{"disasm": "(95) exit"}, {"insns": []}]', "[1]", '"disasm"'),
        ('[{"insns": [{"pc": "0x0", "operation": "push"}]}]', "[0].insns[0]", "JITed"),
        ('{"error": "can\'t find program"}', "", 'bpftool reported an error, no program: "can\'t find program"'),
        ('{"insns": [], "insns": []}', "", "once"),
        ('[{"disasm": "(95) exit"}', "line 1, column 25", "','"),
        ('[{"disasm": "(95) exit"}] x', "line 1, column 27", "end of the file"),
        ('[\n{"disasm": (95)}]', "line 2, column 12", "Expecting value"),
        ('[{"disasm": "(95) exit", "line_num": NaN}]', "line 1, column 2", "NaN"),
        ('[{"disasm": "(95) exit", "line_num": 4294967296}]', "[0].line_num", "32 bits"),
        ('[{"disasm": "(95) exit", "line_num": true}]', "[0].line_num", "32 bits"),
        ('[{"disasm": "(95) exit", "src": []}]', "[0].src", "a string"),
        ('[{"disasm": "(95) exit", "opcodes": []}]', "[0].opcodes", "an object"),
        ('[{"disasm": "(95) exit", "opcodes": {"code": "0x195"}}]', "[0].opcodes.code", "1 byte"),
        ('[{"disasm": "(95) exit", "line_num": 1' + "0" * 5000 + "}]", "line 1, column 2", "digits"),
        ("[" * 200000, "line 1, column 2", "an object"),
        ('[{"a": ' + "[" * 60000, "line 1, column 2", "nested less deeply"),
        ('[{"disasm": "' + "x" * 70000 + '"}]', "line 1, column 13", "65536 characters"),
    ],
)
def test_refusals_name_the_path(text: str, place: str, part: str) -> None:
    with pytest.raises(InputError) as caught:
        xlated.load_json(text, "dump.json")
    assert (caught.value.file, caught.value.place) == ("dump.json", place)
    assert part in caught.value.expected


@pytest.mark.parametrize("field", ["off", "imm", "src_reg", "dst_reg", "code"])
def test_every_key_of_the_bytes_is_needed(field: str) -> None:
    entry = insn("(95) exit", "95 00 00 00 00 00 00 00")
    del entry["opcodes"][field]
    with pytest.raises(InputError) as caught:
        xlated.load_json(json.dumps([entry]), "dump.json")
    assert caught.value.place == f"[0].opcodes.{field}"


@pytest.mark.parametrize(
    "raw", ["b7 00 00 00 02 00 00 00", "b7 10 00 00 01 00 00 00", "b7 01 00 00 01 00 00 00", "bf 00 00 00 01 00 00 00"]
)
def test_text_and_bytes_must_agree(raw: str) -> None:
    with pytest.raises(InputError) as caught:
        xlated.load_json(json.dumps([insn("(b7) r0 = 1", raw), EXIT]), "dump.json")
    assert caught.value.place == "[0]"
    assert "agree" in caught.value.expected


def test_a_number_at_the_edge_of_a_window_is_read_whole() -> None:
    stream = JsonStream(" " * 3 + "[" + "1" * 3000 + ", 7]", "x")
    assert [stream.small() for _ in stream.array("")] == [int("1" * 3000), 7]
