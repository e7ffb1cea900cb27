"""When a zygote that cannot start, or that dies, is started again."""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from warren.executor.fork_server import frames
from warren.executor.fork_server.confinement import Confinement
from warren.executor.handlers.hooks import JobCode
from warren.executor.processes import supervisor
from warren.executor.processes.supervisor import GOOD_LIFE_SECONDS, ForkServerSupervisor

NO_ROOM = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


class Loop:
    """An event loop whose time passes only when the next timer is due."""

    def __init__(self) -> None:
        self.now = 0.0
        self.restarts: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[..., None], *given: Any) -> None:
        if not given:  # those with arguments watch imports
            self.restarts.append((seconds, call))

    def run_next(self) -> float:
        """Let the next restart happen; return after how many seconds."""
        [(seconds, call)] = self.restarts
        self.restarts.clear()
        self.now += seconds
        call()
        return seconds


class Link:
    """A zygote that is ready, or dies, when the test says so."""

    pid, started_at, started_ticks = 1, 0.0, 2**62

    def __init__(self, faults: Iterator[BaseException | None]) -> None:
        if fault := next(faults):
            raise fault

    def listen(self, take: Callable[[Any], None], on_death: Callable[[], None]) -> None:
        self.take, self.die = take, on_death

    def wait(self, _seconds: float) -> bool:
        return True

    def receive(self) -> Any:
        return frames.HandlersLoaded(last=True)

    def kill_jobs(self) -> None: ...

    def close(self) -> int:
        return 1


class Case:
    """A supervisor, its loop, and the zygotes that it started; `faults` stop some from starting."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *faults: BaseException | None) -> None:
        self.loop, self.links = Loop(), list[Link]()
        coming = iter([None, *faults, *[None] * 10])

        def start(*_given: Any) -> Link:
            self.links.append(Link(coming))
            return self.links[-1]

        monkeypatch.setattr(supervisor, "ZygoteLink", start)
        self.supervisor = ForkServerSupervisor(
            loop=cast("asyncio.AbstractEventLoop", self.loop),
            code=JobCode(sources=("handlers.py",)),
            confinement=Confinement(),
            on_ready=lambda: None,
            on_forked=lambda _frame: None,
            on_exited=lambda _frame: None,
            on_died=lambda _survivors: None,
        )
        self.supervisor.open(lambda: False)

    def die_after(self, seconds: float, *, is_ready: bool = True) -> None:
        """Let the last zygote die so long after it was ready, or without ever being."""
        if is_ready and not self.supervisor.is_ready:
            self.links[-1].take(frames.HandlersLoaded(last=True))
        self.loop.now += seconds
        self.links[-1].die()


@pytest.mark.parametrize(
    ("fault", "why"), [(NO_ROOM, str(NO_ROOM)), (MemoryError(), "out of memory")]
)
def test_a_zygote_that_cannot_start_is_tried_with_growing_pauses_and_a_line_each(
    monkeypatch: pytest.MonkeyPatch, fault: BaseException, why: str
) -> None:
    case = Case(monkeypatch, *[fault] * 4)

    with capture_logs() as logs:
        case.die_after(1)
        pauses = [case.loop.run_next() for _ in range(5)]

    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6]
    failed = [line for line in logs if line["event"] == "zygote_start_failed"]
    assert [(line["why"], line["again_in"]) for line in failed] == [
        (why, pause) for pause in pauses[1:]
    ]
    assert not any("exc_info" in line for line in logs)
    assert len(case.links) == 2


def test_the_pauses_grow_to_half_a_minute_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(monkeypatch, *[NO_ROOM] * 12)

    case.die_after(1)
    pauses = [case.loop.run_next() for _ in range(12)]

    assert pauses[-3:] == [30.0, 30.0, 30.0]
    assert case.supervisor.fault(5) == str(NO_ROOM)


def test_the_pause_starts_short_again_after_a_zygote_has_lived_for_some_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case(monkeypatch, *[NO_ROOM] * 4)
    case.die_after(1)
    for _ in range(5):
        case.loop.run_next()

    case.die_after(GOOD_LIFE_SECONDS - 1)
    soon = case.loop.run_next()
    case.die_after(GOOD_LIFE_SECONDS + 1)
    late = case.loop.run_next()

    assert (soon, late) == (3.2, 0.1)


def test_an_import_that_takes_long_and_fails_is_no_life(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(monkeypatch)
    case.die_after(1)
    case.loop.run_next()

    case.die_after(GOOD_LIFE_SECONDS + 1, is_ready=False)

    assert case.loop.run_next() == 0.2
