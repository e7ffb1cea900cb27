"""The threads of roles: made one by one, started, stopped and waited for together."""

import time
from collections.abc import Callable, Collection, Sequence

from warren.scheduler.rounds.loop import LONGEST_SECONDS, NAP_SECONDS, Loop, WakeUp
from warren.scheduler.rounds.pending_work import PendingWork, WakeCondition


class RoleLoops:
    """A thread for each role that is added.

    Args:
        now_ms: the clock whose time is passed to rounds.
        work: knows whether there is work for resting roles.

    """

    def __init__(self, now_ms: Callable[[], int], work: PendingWork) -> None:
        self._now_ms = now_ms
        self._work = work
        self._loops: list[Loop] = []

    @property
    def failing(self) -> list[str]:
        """The roles whose last round failed."""
        return [loop.name for loop in self._loops if loop.failing]

    def all_advance(self, names: Collection[str], within_seconds: float) -> bool:
        """Whether the last rounds of these roles succeeded, and not long ago."""
        since = time.monotonic() - within_seconds
        loops = [loop for loop in self._loops if loop.name in names]
        return len(loops) == len(names) and all(
            not loop.failing and loop.succeeded_at >= since for loop in loops
        )

    def add(
        self,
        name: str,
        run_round: Callable[[int], float],
        *,
        longest_seconds: float = LONGEST_SECONDS,
        awake: WakeUp | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> Loop:
        """Make the thread of a role.

        Args:
            name: for the thread and the log.
            run_round: one round, called with the time; returns the seconds until the next one.
            longest_seconds: the longest wait between two rounds.
            awake: when set, asks for a round now; None = the loop makes its own.
            on_stop: ends a wait within a round.

        """
        loop = Loop(
            name,
            lambda: run_round(self._now_ms()),
            longest_seconds=longest_seconds,
            awake=awake,
            on_stop=on_stop,
        )
        self._loops.append(loop)
        return loop

    def add_resting(
        self,
        name: str,
        run_round: Callable[[int], float],
        wants: WakeCondition,
        *,
        longest_seconds: float = LONGEST_SECONDS,
    ) -> Loop:
        """Make the thread of a role that rests while there is no work for it."""
        role = self._work.resting(run_round, wants, longest_seconds=longest_seconds)
        return self.add_waiting(name, role, role.awake)

    def add_waiting(self, name: str, run_round: Callable[[int], float], awake: WakeUp) -> Loop:
        """Make the thread of a role that other roles wake when they have work for it."""
        return self.add(name, run_round, longest_seconds=NAP_SECONDS, awake=awake)

    def start(self) -> None:
        """Begin."""
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """Ask for no further round."""
        for loop in self._loops:
            loop.stop()

    def join(self, seconds: float) -> Sequence[str]:
        """Wait for the rounds under way; return the roles that are still busy after `seconds`."""
        give_up_at = time.monotonic() + seconds
        return [
            loop.name
            for loop in self._loops
            if not loop.join(max(0.0, give_up_at - time.monotonic()))
        ]
