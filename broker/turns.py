"""Whose turn it is among runs of different priorities.

Schedulers order claims by it, executors their lanes.
"""

from collections.abc import Sequence

from warren.broker.messages import HIGH, LOW, NORMAL

#: The classes of priority, highest first.
CLASSES = (HIGH, NORMAL, LOW)
#: A waiting class is served at least once in this many turns, so that nothing starves.
ONCE_IN = 20


class Turns:
    """Gives turns to the highest class that waits, and now and then to a lower one.

    `sharers` is how many give such turns side by side: of 20 turns that all of them give together,
    one gives its share.
    """

    def __init__(self) -> None:
        self._passed = [0] * len(CLASSES)
        self.sharers = 1

    def first(self, waiting: Sequence[object]) -> int | None:
        """Return the class whose turn it is; `waiting` says of each whether something waits."""
        present = [rank for rank in CLASSES if waiting[rank]]
        # The lowest first: a class is passed once more while another one catches up.
        most = max(1, ONCE_IN // self.sharers) - 1
        late = [rank for rank in reversed(present) if self._passed[rank] >= most]
        return next(iter(late or present), None)

    def next(self, waiting: Sequence[object]) -> int | None:
        """Return the class whose turn it is, which is served now."""
        served = self.first(waiting)
        if served is not None:
            self._serve(served, waiting)
        return served

    def shared(self, waiting: Sequence[Sequence[int]], most: int) -> list[int]:
        """Return up to `most` of the ids that wait in each class, in turn; none is served yet."""
        left = [list(reversed(ids)) for ids in waiting]
        before = self._passed[:]
        chosen: list[int] = []
        while len(chosen) < most and (rank := self.next(left)) is not None:
            chosen.append(left[rank].pop())
        self._passed = before
        return chosen

    def serve(self, waiting: Sequence[Sequence[int]], served: Sequence[int]) -> None:
        """Record which of the ids that waited in each class were served, in this order."""
        left = [set(ids) for ids in waiting]
        for run_id in served:
            for rank in CLASSES:
                if run_id in left[rank]:
                    left[rank].discard(run_id)
                    self._serve(rank, left)

    def _serve(self, served: int, waiting: Sequence[object]) -> None:
        self._passed[served] = 0
        for rank in CLASSES:
            if rank != served and waiting[rank]:
                self._passed[rank] += 1
