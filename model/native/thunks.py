"""What kernel symbols say of a branch's target: an indirect branch in disguise, a return, or a function."""

import re

from model.native.code import NAMES
from model.native.flow import INDIRECT, RETURNS

_REGISTER = re.compile(r"_(r[a-z0-9]{1,2})\Z")


def thunk(names: tuple[str, ...]) -> str:
    """The thunk's name, "" where none of `names` is one (arch/x86/lib/retpoline.S; its alias for early code apart)."""
    found = [name for name in names if name.startswith(INDIRECT) and not name.endswith("_array")]
    return next((name for name in found if not name.startswith("__pi_")), found[0] if found else "")


def thunk_register(name: str) -> int | None:
    """The number of the register that a thunk jumps through."""
    fit = _REGISTER.search(name)
    return NAMES.index(fit[1]) if fit and fit[1] in NAMES else None


def is_return(names: tuple[str, ...]) -> bool:
    return any(name in RETURNS for name in names)
