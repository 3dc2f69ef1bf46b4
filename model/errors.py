"""Two failures that are not verdicts: bad input, and a hole in the model."""


class ModelError(Exception):
    """Root of the two; a broken claim is a verdict (`proofs.verdict`), never an exception."""


class InputError(ModelError):
    """Input that is not what its format says: one line naming file, place and what was expected.

    `file` is the path as the user gave it; `place` a section, byte offset, line or JSON path;
    `expected` says what the format wants there and, where it helps, what was found.
    """

    def __init__(self, file: str, place: str, expected: str) -> None:
        super().__init__(file, place, expected)
        self.file = file
        self.place = place
        self.expected = expected

    def __str__(self) -> str:
        parts = [part for part in (self.file, self.place, self.expected) if part]
        return ": ".join(parts).replace("\n", " ")


class Unsupported(ModelError):
    """A construct that is legal in the kernel but that the model has no rule for; says which."""
