"""Numbers of a width, those at the edges of the narrower types more often than others."""

from functools import cache

from hypothesis import strategies as st

EDGES = (0, 1, 2, 7, 8, 31, 32, 63, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 1 << 16, (1 << 31) - 1, 1 << 31)
WIDE = ((1 << 32) - 1, 1 << 32, (1 << 32) + 1, (1 << 63) - 1, 1 << 63)


@cache
def words(width: int) -> st.SearchStrategy[int]:
    """Unsigned, `width` bits; 0 is the simplest."""
    most = (1 << width) - 1
    edges = sorted({edge & most for edge in (*EDGES, *WIDE, *(-edge for edge in EDGES))})
    return st.one_of(st.sampled_from(edges), st.sampled_from(edges), st.integers(0, most))


@cache
def signed(width: int) -> st.SearchStrategy[int]:
    """Signed, `width` bits."""
    return words(width).map(lambda word: word - (1 << width) if word >> (width - 1) else word)
