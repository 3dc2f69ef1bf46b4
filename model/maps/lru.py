"""Which element an LRU hash gives up: the lists of kernel/bpf/bpf_lru_list.c, as one CPU alone sees them.

Only the common lists (without BPF_F_NO_COMMON_LRU), and only while all updates come from one CPU: then the kernel's
choice is determinate, and followed here. With more CPUs it depends on which of them holds the free elements (and a
last resort takes them from another CPU's list); that is not defined here.

The reference mark of an element is a byte in its memory (`struct bpf_lru_node.ref`), which inlined lookups set, so it
is read from there and must be an int: in a symbolic run `concrete` raises `Unsupported`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from model.errors import Unsupported
from model.maps.allocation import applies

FREE_TARGET = 128
"""LOCAL_FREE_TARGET, also the most elements that are looked at in one go."""


def concrete(word: object) -> int:
    """`word` as the int that it is. Raises `Unsupported` for a word of a symbolic run."""
    if not isinstance(word, int):
        raise Unsupported("which element an LRU hash gives up is followed on ints only")
    return word


@dataclass(frozen=True, slots=True)
class Rules:
    """What differs by release. `target` is how many elements a CPU takes at a time; `first_taken_first` tells which of
    them it uses first (no key is lost or kept by that, but memory is used again in another order).
    """

    target: int
    first_taken_first: bool


def rules(max_entries: int, cpus: int, release: str) -> Rules:
    """bpf_common_lru_populate: 128, from 6.12 on (d4adf1c9ee77) scaled to the map; and the local list of free elements,
    a stack up to 6.12, filled through a second one since (read in 7.3, and seen in a running 6.18.44).
    """
    scaled = min(max(max_entries // cpus // 2, 1), FREE_TARGET)
    target = scaled if applies("6.12", "", release) else FREE_TARGET
    return Rules(target, applies("6.18", "", release))


@dataclass(frozen=True, slots=True)
class Lru:
    """Numbers of elements, the head of each list first.

    `free`, `inactive` and `active` are the common lists, `local` this CPU's free elements, `pending` those that it
    took from them and that are in the table. `rotation` is the element at which the next look through the inactive
    list begins (None: its head, from which the walk goes to the tail).
    """

    free: tuple[int, ...]
    inactive: tuple[int, ...] = ()
    active: tuple[int, ...] = ()
    local: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()
    rotation: int | None = None


class Lists:
    """The lists of `lru`, to be changed; `lru()` gives them back.

    `marked` and `clear` read and clear an element's mark, `drop` takes it out of the table.
    """

    def __init__(
        self,
        lru: Lru,
        rules: Rules,
        marked: Callable[[int], bool],
        clear: Callable[[int], None],
        drop: Callable[[int], None],
    ) -> None:
        self.free, self.inactive, self.active = list(lru.free), list(lru.inactive), list(lru.active)
        self.local, self.pending, self.rotation = list(lru.local), list(lru.pending), lru.rotation
        self.rules, self.marked, self.clear, self.drop = rules, marked, clear, drop

    def lru(self) -> Lru:
        common = tuple(self.free), tuple(self.inactive), tuple(self.active)
        return Lru(*common, tuple(self.local), tuple(self.pending), self.rotation)

    def pop(self) -> int:
        """bpf_common_lru_pop_free: an element for a new key, whose mark is cleared.

        Elements of the table may have to go for it: as many as `Rules.target` at a time, those marked are spared once.
        """
        if not self.local:
            self._refill()
        number = self.local.pop(0)
        self.clear(number)
        self.pending.insert(0, number)
        return number

    def push(self, number: int) -> None:
        """bpf_common_lru_push_free: an element that is out of the table is free again."""
        self.clear(number)
        if number in self.pending:
            self.pending.remove(number)
            self.local.insert(0, number)
            return
        self._leave(number)
        self.free.insert(0, number)

    def _leave(self, number: int) -> None:
        """Out of the inactive or active list; the place of the rotation moves on to what was in front of it."""
        if number in self.active:
            self.active.remove(number)
            return
        at = self.inactive.index(number)
        if self.rotation == number:
            self.rotation = self.inactive[at - 1] if at else None
        del self.inactive[at]

    def _move(self, number: int, to: list[int]) -> None:
        """__bpf_lru_node_move: to the head of a list, without its mark."""
        self.clear(number)
        self._leave(number)
        to.insert(0, number)

    def _refill(self) -> None:
        """bpf_lru_list_pop_free_to_local."""
        for number in reversed(self.pending):
            (self.active if self.marked(number) else self.inactive).insert(0, number)
            self.clear(number)
        self.pending.clear()
        if len(self.inactive) < len(self.active):
            self._rotate_active()
        self._rotate_inactive()
        taken = self.free[: self.rules.target]
        del self.free[: self.rules.target]
        if len(taken) < self.rules.target:
            self._shrink(self.rules.target - len(taken), taken)
        self.local[:0] = taken if self.rules.first_taken_first else taken[::-1]

    def _rotate_active(self) -> None:
        """From the tail: marked ones to the head of the active list, the others to that of the inactive list."""
        for number in self.active[: -FREE_TARGET - 1 : -1]:
            self._move(number, self.active if self.marked(number) else self.inactive)

    def _before(self, number: int | None) -> int | None:
        """What is nearer to the head of the inactive list; the list is a circle through its head, None."""
        at = len(self.inactive) if number is None else self.inactive.index(number)
        return self.inactive[at - 1] if at else None

    def _rotate_inactive(self) -> None:
        """From `rotation` towards the head and round once: marked ones become active, the others stay."""
        if not self.inactive:
            return
        at = 0 if self.rotation is None else self.inactive.index(self.rotation) + 1
        last = self.inactive[at % len(self.inactive)]
        here = self._before(None) if self.rotation is None else self.rotation
        following: int | None = None
        for _ in range(FREE_TARGET):
            here = self._before(None) if here is None else here
            if here is None:
                break
            following = self._before(here)
            if self.marked(here):
                self._move(here, self.active)
            if here == last:
                break
            here = following
        self.rotation = following

    def _shrink(self, wanted: int, taken: list[int]) -> None:
        """__bpf_lru_list_shrink: unmarked ones from the tail of the inactive list, `wanted` at most; if there are none,
        one from its tail, or from the active list's, marked or not.
        """
        gone = 0
        for number in self.inactive[: -FREE_TARGET - 1 : -1]:
            if self.marked(number):
                self._move(number, self.active)
            else:
                self._give_up(number, taken)
                gone += 1
                if gone == wanted:
                    break
        if not gone and (self.inactive or self.active):
            self._give_up((self.inactive or self.active)[-1], taken)

    def _give_up(self, number: int, taken: list[int]) -> None:
        self.drop(number)
        self._leave(number)
        taken.append(number)
