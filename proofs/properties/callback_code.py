"""The C of a walk as data, and what an induction asks of it: its loop, its index, its counters, its cursor."""

from dataclasses import dataclass
from functools import cached_property

from model.errors import Unsupported
from model.kernel.c_body import (
    Body,
    Call,
    Declare,
    Each,
    Integer,
    Leave,
    Local,
    Loop,
    Step,
    Unreadable,
    nodes_of,
    steps_of,
)
from model.kernel.release import CType
from model.semantics.c_walk import Split, assigned, change, split
from model.semantics.call import REGISTER

NEXT_KEY = "rhashtable_next_key"
"""Its body is in lib/rhashtable.c: known by what it is asked, and any word as its answer."""


@dataclass(frozen=True)
class Code:
    """The walk `function` among `bodies`, which has what it calls; `layout` is the release's for their members."""

    function: str
    bodies: tuple[Body, ...]
    layout: tuple[tuple[str, int], ...]

    @cached_property
    def body(self) -> Body:
        return next(body for body in self.bodies if body.function == self.function)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        steps = self.body.steps
        if steps is None:
            raise Unsupported(f"no body was read for {self.function}")
        for step in steps_of(steps):
            if isinstance(step, Unreadable):
                raise Unsupported(f"{self.body.file}:{step.line}: {step.text}")
        return steps

    def too_narrow(self, result: CType, *, endless: bool) -> str:
        """What becomes of a count of callbacks that its type or `result` does not hold; "" where both hold it.

        `endless`: there may be any number of callbacks, not only fewer than 2^32.
        """
        counter = self.counter
        narrowest = counter if counter is not None and counter.signed else result
        more = ": a callback that deletes and inserts may be followed by any number" if endless else ""
        if narrowest.signed and narrowest.bits < REGISTER:
            bits = narrowest.bits
            return f"the count of {bits} bits (signed) is negative from 2^{bits - 1} callbacks on{more}"
        if endless and counter is not None and counter.bits < REGISTER:
            return f"the count of {counter.bits} bits is 0 again after 2^{counter.bits} callbacks{more}"
        return ""

    @cached_property
    def whole(self) -> Split:
        return split(self.steps, self.function)

    @cached_property
    def outer(self) -> Loop:
        loop = self.whole.loop
        if not isinstance(loop, Loop):
            raise Unsupported(f"{self.function} walks along one list")
        return loop

    @cached_property
    def inner(self) -> Split | None:
        """The walk along a list in the loop's body, and what is around it."""
        if not any(isinstance(step, Each) for step in self.outer.body):
            return None
        return split(self.outer.body, self.function)

    @cached_property
    def index(self) -> tuple[str, int] | None:
        """The local that the loop's last expression changes, and by how much."""
        names = assigned(self.outer.following)
        if not names:
            return None
        name = next(iter(names))
        if len(names) > 1 or name in assigned(self.outer.body + self.outer.before):
            raise Unsupported(f"{self.function}: a loop with more than one index, or one that its body changes")
        by = change(name, self.outer.following)
        if by is None:
            raise Unsupported(f"{self.function}: a loop whose index does not move by the same amount each time")
        return name, by

    @cached_property
    def counters(self) -> tuple[tuple[str, int], ...]:
        """The locals that each turn changes by the same amount, and by how much."""
        inner = self.inner
        body = self.outer.body if inner is None else inner.loop.body
        around = assigned(() if inner is None else inner.before + inner.after)
        found = []
        for name in sorted(assigned(body) - around):
            by = change(name, body)
            if by is not None:
                found.append((name, by))
        return tuple(found)

    @cached_property
    def counter(self) -> CType | None:
        """The type of the counter that is returned behind the loop; None where something else is."""
        last = [step.value for step in self.whole.after if isinstance(step, Leave)]
        names = {name for name, _ in self.counters if [Local(name)] == last}
        kinds = [step.type for step in self.steps if isinstance(step, Declare) and step.name in names]
        return CType("", kinds[0].bits, kinds[0].signed) if kinds and isinstance(kinds[0], Integer) else None

    @cached_property
    def cursor(self) -> str | None:
        """The local with the key that the next element is asked for by."""
        calls = [one for one in nodes_of(self.steps) if isinstance(one, Call) and one.function == NEXT_KEY]
        names = {
            one.arguments[1].name for one in calls if len(one.arguments) == 2 and isinstance(one.arguments[1], Local)
        }
        return names.pop() if len(names) == 1 else None
