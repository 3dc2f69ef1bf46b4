"""Instructions on numbers: arithmetic, byte swaps, conditions. All are such as a verifier lets through."""

from hypothesis import strategies as st

from gen.words import signed

BINARY = ("+=", "-=", "*=", "|=", "&=", "^=", "/=", "%=")
SHIFTS = ("<<=", ">>=", "s>>=")
CONDITIONS = ("==", "!=", ">", "<", ">=", "<=", "s>", "s<", "s>=", "s<=", "&")


@st.composite
def arithmetic(draw: st.DrawFn, dst: int, src: int) -> list[str]:
    """One instruction that changes r`dst`, perhaps by r`src`; both hold numbers."""
    wide = draw(st.booleans())
    letter = "r" if wide else "w"
    match draw(st.sampled_from(("immediate", "register", "shift", "move", "negate", "swap"))):
        case "immediate":
            operation = draw(st.sampled_from(BINARY))
            number = draw(signed(32))
            if operation in ("/=", "%=") and number == 0:
                number = 3  # refused: division by zero
            return [f"{letter}{dst} {operation} {number}"]
        case "register":
            return [f"{letter}{dst} {draw(st.sampled_from(BINARY))} {letter}{src}"]
        case "shift":
            number = draw(st.integers(0, 63 if wide else 31))
            return [f"{letter}{dst} {draw(st.sampled_from(SHIFTS))} {number}"]
        case "move":
            return [f"{letter}{dst} = {letter}{src}"]
        case "negate":
            return [f"{letter}{dst} = -{letter}{dst}"]
        case _:
            return [f"r{dst} = {draw(st.sampled_from(('be', 'le')))}{draw(st.sampled_from((16, 32, 64)))} r{dst}"]


@st.composite
def condition(draw: st.DrawFn, register: int) -> str:
    """What stands between "if" and "goto": a register against a number."""
    letter = draw(st.sampled_from(("r", "w")))
    return f"{letter}{register} {draw(st.sampled_from(CONDITIONS))} {draw(signed(32))}"
