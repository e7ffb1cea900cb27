"""Whose turn it is among runs of different priorities.

Schedulers order claims by it, executors their lanes.
"""

from collections.abc import Sequence

from warren.broker.messages.values import HIGH, LOW, NORMAL

#: The classes of priority, highest first.
CLASSES = (HIGH, NORMAL, LOW)
#: A class that waits is served at least once in so many turns, so that nothing starves.
ONCE_IN = 20


class Turns:
    """Gives turns to the highest class that waits, and now and then to a lower one."""

    def __init__(self) -> None:
        self._passed = [0] * len(CLASSES)

    def first(self, waiting: Sequence[object]) -> int | None:
        """Return the class whose turn it is; `waiting` says of each whether something waits."""
        present = [rank for rank in CLASSES if waiting[rank]]
        # The lowest first: a class is passed once more while another one catches up.
        late = [rank for rank in reversed(present) if self._passed[rank] >= ONCE_IN - 1]
        return next(iter(late or present), None)

    def next(self, waiting: Sequence[object]) -> int | None:
        """Return the class whose turn it is, which is served now."""
        served = self.first(waiting)
        if served is not None:
            for rank in CLASSES:
                is_passed = waiting[rank] and rank != served
                self._passed[rank] = self._passed[rank] + 1 if is_passed else 0
        return served

    def shared(self, waiting: Sequence[Sequence[int]], most: int) -> list[int]:
        """Return up to `most` of the ids that wait in each class, in turn."""
        left = [list(reversed(ids)) for ids in waiting]
        chosen: list[int] = []
        while len(chosen) < most and (rank := self.next(left)) is not None:
            chosen.append(left[rank].pop())
        return chosen
