"""Exception callbacks: which subprogram a program's tag names, where it is put, and what is refused."""

import pytest
from elf_writer import CODE, GLOBAL, LOCAL, Writer, btf, btf_type

from model.errors import InputError
from model.loaders.elf import load
from model.program import Program

INT, PROTO, FUNC, TAG = 1, 13, 12, 17
TEXT = b"int\0main\0caught\0exception_callback:caught\0exception_callback:other\0exception_callback:\0some:caught\0"
NAMES = {name: TEXT.index(name.encode() + b"\0") + 1 for name in ("int", "main", "caught", "some:caught")}
NAMES |= {
    f"exception_callback:{name}": TEXT.index(f"exception_callback:{name}\0".encode()) + 1
    for name in ("caught", "other", "")
}
ALL_BITS = 0xFFFFFFFF  # component -1: the function itself


def tag(name: str, target: int = 3, component: int = ALL_BITS) -> bytes:
    return btf_type(NAMES[name], TAG, 0, target, component)


def object_with(*tags: bytes, linkage: int = 1, binding: int = GLOBAL) -> bytes:
    """`main` in section tc, which leaves at once, and the function `caught` of two slots in .text; types 3 and 4."""
    writer = Writer()
    text = writer.add(".text", bytes.fromhex("b700000000000000 9500000000000000"), flags=CODE)
    section = writer.add("tc", bytes.fromhex("9500000000000000"), flags=CODE)
    writer.symbol("caught", text, 0, 16, binding=binding)
    writer.symbol("main", section, 0, 8)
    types = btf_type(NAMES["int"], INT, 0, 4, 32) + btf_type(0, PROTO, 0, 1)
    types += btf_type(NAMES["main"], FUNC, linkage, 2) + btf_type(NAMES["caught"], FUNC, 1, 2)
    writer.add(".BTF", btf(types + b"".join(tags), TEXT))
    return writer.bytes()


def program(data: bytes) -> Program:
    (found,) = load(data, "x.o").programs
    return found


def test_the_callback_comes_behind_and_is_an_entry() -> None:
    found = program(object_with(tag("exception_callback:caught")))
    assert [(row.name, row.start, row.end) for row in found.subprograms] == [("main", 0, 1), ("caught", 1, 3)]
    assert found.entries == (1,)


@pytest.mark.parametrize(
    "tags",
    [
        (),
        (tag("some:caught"),),
        (tag("exception_callback:caught", component=0),),  # of a parameter
        (tag("exception_callback:caught", target=4),),  # of a function that is no program
    ],
)
def test_other_tags_say_nothing(tags: tuple[bytes, ...]) -> None:
    found = program(object_with(*tags))
    assert (len(found.insns), found.entries) == (1, ())


ONE = tag("exception_callback:caught")
REFUSED = {
    "expected it on a program, found it on INT": object_with(tag("exception_callback:caught", target=1)),
    "expected it on a program, found it on FUNC": object_with(ONE, linkage=0),
    "program main: expected one exception callback, found several": object_with(ONE, ONE),
    "program main: expected 'other' to be a global subprogram": object_with(tag("exception_callback:other")),
    "program main: expected '' to be a global subprogram": object_with(tag("exception_callback:")),
    "program main: expected 'caught' to be a global subprogram": object_with(ONE, binding=LOCAL),
    "type id 99 outside of 0 to 5": object_with(tag("exception_callback:caught", target=99)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_libbpf_refuses(message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(REFUSED[message], "x.o")
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.o: section .BTF")
