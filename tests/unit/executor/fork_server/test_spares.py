"""Spares that keep dying are replaced later each time, and are told of."""

import os
import socket

from warren.executor.fork_server.forking import BACKOFF_SECONDS, Child, Spares


class Zygote:
    """Forks spares that end at once, until one gets an order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []
        self.now = 1_000.0
        self._last = 0
        self._links: list[socket.socket] = []
        self.spares = Spares(
            self._start,
            reap=lambda _process: -9,
            on_failing=lambda *facts: self.told.append(facts),
            clock=lambda: self.now,
        )
        self.spares.keep(1)

    def _start(self, link: socket.socket) -> Child:
        self._last += 1
        self._links.append(socket.socket(fileno=os.dup(link.fileno())))
        return Child(pid=self._last, pidfd=self._last)

    def wait(self) -> float:
        """Wait until a spare is due, and fork it; return how long that took."""
        seconds = self.spares.due_in()
        assert seconds is not None
        self.now += seconds
        self.spares.fork_some()
        return seconds

    def kill(self) -> None:
        self._links.pop().close()
        self.spares.take_exit(self._last)


def test_spares_that_keep_dying_follow_later_each_time_and_are_told_of() -> None:
    zygote = Zygote()
    waits = []

    for _ in range(12):
        waits.append(round(zygote.wait(), 6))
        zygote.kill()

    assert waits[:5] == [0, 0.1, 0.2, 0.4, 0.8]
    assert waits[-1] == BACKOFF_SECONDS[1]
    assert zygote.told[0] == ("ended with exit code -9", 0.8)
    assert len(zygote.told) == 12 - 3


def test_a_lone_death_of_a_spare_is_not_told() -> None:
    zygote = Zygote()

    for _ in range(10):
        zygote.wait()
        zygote.kill()
        zygote.wait()
        assert zygote.spares.give(b"order", []) is not None

    assert zygote.told == []
