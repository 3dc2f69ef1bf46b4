"""What a release's own source says of the values in its calls: what comes back, what may be handed over."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Returned:
    """What one `return` of an operation's C gives: the numbers from `low` to `high`, None where the text has no rule.

    `function`, `file` and `line` are where it stands: the operation, or a function that it returns the value of.
    """

    text: str
    low: int | None
    high: int | None
    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Checked:
    """`struct bpf_func_proto` of a helper: what the verifier demands of its arguments (ARG_PTR_TO_MAP_KEY, …)."""

    arguments: tuple[str, ...]
    file: str
    line: int
