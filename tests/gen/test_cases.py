"""Cases as files: what is written is read back; what is not a case is one line."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gen.campaign import Failure, Tally
from gen.cases import read, written
from gen.corpus import Corpus
from gen.maps import Entry
from gen.programs import Generated, programs
from model.errors import InputError
from proofs.cli import main


@settings(max_examples=40, deadline=None)
@given(programs(), st.lists(st.text(max_size=40), max_size=3))
def test_written_and_read(made: Generated, notes: list[str]) -> None:
    found = read(written(made, tuple(notes)), "x")
    assert (found.entries, found.inputs) == (made.entries, made.inputs)
    assert found.text.endswith(made.text)


def test_the_form_is_as_documented() -> None:
    text = "; input 7 0x0000000000000010\n; entry m0 0a00 ff\n; entry q - 01\nr0 = 0\nexit\n"
    assert read(text, "x") == Generated(text, (), (Entry("m0", b"\n\0", b"\xff"), Entry("q", b"", b"\1")), (7, 16))
    assert read("r0 = 0\n", "x").inputs == (0, 0)


@pytest.mark.parametrize(
    "line",
    [
        "; input x",
        "; input 1 2 3",
        "; input 0x10000000000000000",
        "; input 99999999999999999999",
        "; entry m0",
        "; entry m0 0 00",
        "; entry m0 00 zz",
        "; entry m0 00 00 00",
    ],
)
def test_another_form_is_refused(line: str) -> None:
    with pytest.raises(InputError, match=r"^case\.asm: (line 2|input): expected '; input NUMBER"):
        read(f"\n{line}\nexit\n", "case.asm")


def test_a_number_may_begin_with_zeros() -> None:
    assert read("; input 007 0x0a\nexit\n", "x").inputs == (7, 10)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("m0 00 0100000000000000", "expected a key of 4 bytes and a value of 8, found 1 and 8"),
        ("m0 - 0100000000000000", "expected a key of 4 bytes and a value of 8, found 0 and 8"),
        ("m0 00000000 01", "expected a key of 4 bytes and a value of 8, found 4 and 1"),
        ("m1 00000000 01", "expected one of the maps io, m0"),
    ],
)
def test_an_entry_has_its_maps_sizes(
    entry: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "case.asm"
    file.write_text(f"; entry {entry}\n.map io array 4 64 1\n.map m0 hash 4 8 4\nr0 = 0\nexit\n", encoding="utf-8")
    assert main(["replay", str(file), "--judge", "model"]) == 2
    assert capsys.readouterr().err == f"bpf-devirt: {file}: entry {entry[:2]}: {expected}\n"


@pytest.mark.parametrize("io", ["array 4 8 1", "array 8 64 1", "hash 4 64 1", "array 4 64 0", ""])
def test_the_map_io_takes_the_input(io: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "case.asm"
    file.write_text(
        f"; input 1\n.map {'io' if io else 'other'} {io or 'array 4 64 1'}\nr0 = 0\nexit\n", encoding="utf-8"
    )
    assert main(["replay", str(file), "--judge", "model"]) == 2
    assert capsys.readouterr().err == f"bpf-devirt: {file}: expected a map 'io': .map io array 4 64 1\n"


def case(text: str) -> Generated:
    return Generated(text, (), (), (0, 0))


def test_a_corpus_keeps_what_was_found_once(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "out")
    assert corpus.where() is None
    site = ("hash", "map_update_elem", "direct")
    found = Tally(new={site: case("exit\n")})
    found.fail(Failure("model", "a\nb", case("r0 = 1\nexit\n"), (site,)))
    found.fail(Failure("model", "a", case("exit\n"), (site,)))
    found.fail(Failure("model", "a", case("r0 = 2\nexit\n"), (site,)))
    corpus.keep(found, ("seed 1",))
    corpus.keep(found, ("seed 2",))
    corpus.go_on(5, 3)
    assert corpus.where() == (5, 3)
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.asm"))
    assert names == ["out/failures/model-map_update_elem.asm", "out/interesting/hash-map_update_elem-direct.asm"]
    ((name, again),) = corpus.failures()
    assert name == "model-map_update_elem"
    assert again.text.endswith("exit\n")
    assert "; seed 1" in again.text
    assert list(tmp_path.rglob("*.part")) == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"seed": -1, "next": 0}', '{"seed": 1}', '{"seed": true, "next": "x"}']
)
def test_a_damaged_campaign_is_one_line(tmp_path: Path, text: str) -> None:
    corpus = Corpus(tmp_path)
    (tmp_path / "campaign.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r'expected \{"seed": NUMBER, "next": NUMBER\}'):
        corpus.where()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be made"):
        Corpus(tmp_path / "file")
