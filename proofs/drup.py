"""Checks proofs that clauses contradict each other, in the DRUP format: a line for each clause that is added.

A clause may be added where assuming all of its literals false leads to a conflict by unit propagation alone (RUP,
"reverse unit propagation"): then it follows from those before it. A proof holds when propagation with nothing assumed
ends in a conflict. Lines "d …", that a clause is not needed any more, are read and not heeded: nothing follows from
having fewer clauses that does not follow from all.
"""

import re
from collections.abc import Iterable, Sequence

from proofs.gates import Literal

MOST_STEPS = 100_000_000  # watched clauses looked at: a minute or two
LINE = re.compile(r"(d )?((?:-?[1-9]\d{0,8} )*)0")
ASSUMED = -1


class BadProof(Exception):
    """Says which line does not hold, and why. Nothing follows from the proof."""


def check(clauses: Iterable[Sequence[Literal]], proof: Sequence[str]) -> list[int]:
    """The lines of `proof` that its end rests on, by index: they alone are a proof too. Raises `BadProof`."""
    known = _Known()
    conflict: int | None = None
    for clause in clauses:
        conflict = known.add(clause)
        if conflict is not None:
            return []
    first, rests = len(known.clauses), {}
    lines: list[int] = []
    for index, line in enumerate(proof):
        found = LINE.fullmatch(line)
        if found is None:
            raise BadProof(f"line {index + 1}: expected numbers of literals and a 0")
        if found[1]:
            continue
        clause = [int(literal) for literal in found[2].split()]
        rests[len(known.clauses)] = known.follows(clause, index + 1)
        lines.append(index)
        conflict = known.add(clause)
        if conflict is not None:
            break
    if conflict is None:
        raise BadProof(f"line {len(proof)}: the proof ends, and no contradiction is reached")
    needed: set[int] = set()
    open_ = known.behind(conflict)
    while open_:
        key = open_.pop()
        if key >= first and key not in needed:
            needed.add(key)
            open_ |= rests[key]
    return [lines[key - first] for key in sorted(needed)]


class _Known:
    """Clauses, and the literals that follow from them with what is assumed by unit propagation.

    A clause of two literals or more is watched at its first two: only when one of these becomes false can it be unit.
    """

    def __init__(self) -> None:
        self.clauses: list[list[Literal]] = []
        self.watching: dict[Literal, list[int]] = {}
        self.why: dict[Literal, int] = {}  # each true literal, with the clause that made it true, or ASSUMED
        self.trail: list[Literal] = []  # the true literals in their order
        self.done = 0  # how many of the trail were propagated
        self.steps = 0

    def add(self, clause: Sequence[Literal]) -> int | None:
        """With nothing assumed. A clause that is false then, if there is one: all of them contradict each other."""
        key = len(self.clauses)
        ordered = sorted(dict.fromkeys(clause), key=lambda literal: -literal in self.why)
        self.clauses.append(ordered)
        if not ordered or -ordered[0] in self.why:
            return key
        if len(ordered) > 1:
            for literal in ordered[:2]:
                self.watching.setdefault(literal, []).append(key)
        if (len(ordered) == 1 or -ordered[1] in self.why) and ordered[0] not in self.why:
            self._set(ordered[0], key)
        return self._propagate()

    def follows(self, clause: Sequence[Literal], line: int) -> set[int]:
        """The clauses that `clause` follows from. Raises `BadProof` where propagation does not show it."""
        size = len(self.trail)
        conflict: int | None = None
        rests: set[int] | None = None
        for literal in clause:
            if literal in self.why:  # true already, or the clause has a literal and its negation
                rests = self._cone([literal]) - {ASSUMED}
                break
            if -literal not in self.why:
                self._set(-literal, ASSUMED)
        if rests is None:
            conflict = self._propagate()
            if conflict is None:
                raise BadProof(f"line {line}: the clause does not follow by unit propagation")
            rests = self.behind(conflict)
        for literal in self.trail[size:]:
            del self.why[literal]
        del self.trail[size:]
        self.done = size
        return rests

    def behind(self, conflict: int) -> set[int]:
        """`conflict`, and the clauses that made its literals false."""
        return {conflict} | self._cone([-literal for literal in self.clauses[conflict]]) - {ASSUMED}

    def _cone(self, literals: list[Literal]) -> set[int]:
        keys: set[int] = set()
        seen = set(literals)
        while literals:
            key = self.why[literals.pop()]
            if key != ASSUMED and key not in keys:
                keys.add(key)
                more = {-literal for literal in self.clauses[key] if literal not in self.why} - seen
                seen |= more
                literals += more
        return keys

    def _set(self, literal: Literal, why: int) -> None:
        self.why[literal] = why
        self.trail.append(literal)

    def _propagate(self) -> int | None:
        """Makes true what clauses ask for whose other literals are false; a clause with none left, if there is one."""
        while self.done < len(self.trail):
            false = -self.trail[self.done]
            self.done += 1
            keys = self.watching.get(false, [])
            self.steps += len(keys)
            if self.steps > MOST_STEPS:
                raise BadProof(f"more than {MOST_STEPS} steps")
            kept: list[int] = []
            for place, key in enumerate(keys):
                if self._moved(key, false):
                    continue
                kept.append(key)
                other = self.clauses[key][0]
                if -other in self.why:
                    self.watching[false] = kept + keys[place + 1 :]
                    return key
                if other not in self.why:
                    self._set(other, key)
            self.watching[false] = kept
        return None

    def _moved(self, key: int, false: Literal) -> bool:
        """Whether a clause that is watched at `false` can be watched at another literal instead."""
        clause, why = self.clauses[key], self.why
        if clause[0] == false:
            clause[0], clause[1] = clause[1], false
        if clause[0] in why:
            return False
        for index in range(2, len(clause)):
            if -clause[index] not in why:
                clause[1], clause[index] = clause[index], false
                self.watching.setdefault(clause[1], []).append(key)
                return True
        return False
