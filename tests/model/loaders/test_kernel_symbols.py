"""Symbol listings, written by hand in the format of /proc/kallsyms and System.map."""

import pytest

from model.errors import InputError
from model.loaders.kernel_symbols import Symbols, parse_symbols

TEXT = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000010 t __pfx_one
ffffffff81000020 t one
ffffffff81000040 t twin
ffffffff81000060 t twin
ffffffffc0000000 t two	[module]
"""


def test_names_and_ends() -> None:
    found = parse_symbols(TEXT, "map")
    assert found.names(0xFFFFFFFF81000000) == ("_text", "_stext")
    assert found.places("twin") == (0xFFFFFFFF81000040, 0xFFFFFFFF81000060)
    assert found.places("two") == (0xFFFFFFFFC0000000,)
    assert found.places("__pfx_one") == ()
    assert found.names(0) == ()
    assert found.end(0xFFFFFFFF81000020, 1 << 16) == 0xFFFFFFFF81000040
    assert found.end(0xFFFFFFFF81000060, 1 << 16) == 0xFFFFFFFF81010060  # the limit
    assert found.end(0xFFFFFFFFC0000000, 256) == 0xFFFFFFFFC0000100
    assert found.around(0xFFFFFFFF81000044) == (0xFFFFFFFF81000040, "twin")
    assert found.around(5) is None


def test_a_known_size_is_taken() -> None:
    found = Symbols([(16, "one"), (32, "two")], {16: 7})
    assert (found.end(16, 100), found.end(32, 100)) == (23, 132)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected symbols, found none"),
        ("0000000000000000 T _text\n0000000000000000 t one\n", "kernel.kptr_restrict"),
        ("ffffffff81000000 T _text\nnonsense\n", "line 2: expected 'address type name'"),
        ("zzzz T one", "line 1"),
        ("12 T a b", "line 1"),
        ("12345678123456781 T a", "line 1"),
        ("\x7fELF\x02\x00", "line 1"),
        ("ffffffffffffffff B The real System.map is in the linux-image-<version>-dbg package", "line 1"),
    ],
)
def test_other_text(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_symbols(text, "map")
