"""Roles that rest while one look for all of them finds nothing to do."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.moved_clock import AdvancedClock
from warren.scheduler.pending_work import PendingWork, RestingRole
from warren.scheduler.rounds import NAP_SECONDS, WakeUp
from warren.sql.dialects.sqlite import SQLite
from warren.sql.engine import SeenIds
from warren.sql.pending import Pending

NOW_MS = 1_000_000
QUIET = Pending(False, None, None, NOW_MS, *[False] * (len(Pending._fields) - 5), next_id=1)
KILL = QUIET._replace(has_kills=True)


@dataclass
class Watched:
    """A role that wants kills, and what it did; `found` is what the next look finds."""

    found: Pending = QUIET
    rounds: int = 0
    rests: int = 0
    heard: list[Pending] = field(default_factory=list)
    rest_seconds: float = 30.0
    has_own_rest: bool = True
    longest_seconds: float = 0.5
    wait_seconds: float = 0.5
    error: Exception | None = None
    clock: AdvancedClock = field(default_factory=AdvancedClock)

    def __post_init__(self) -> None:
        database: Any = SimpleNamespace(
            dialect=SQLite(), select_one=lambda *_: self.found, seen_ids=SeenIds()
        )
        self.work = PendingWork(
            database,
            since_ms=lambda now_ms: now_ms,
            on_look=lambda found, _began_at, _now_ms: self.heard.append(found),
            clock=self.clock,
        )
        self.awake = WakeUp(self.clock)
        self.role: RestingRole = self.work.resting(
            self._round,
            lambda pending, _now_ms: pending.has_kills,
            longest_seconds=self.longest_seconds,
            awake=self.awake,
            rest_seconds=self.rest_seconds,
            **({"rest": self._rest} if self.has_own_rest else {}),
        )

    def look(self, found: Pending) -> None:
        self.found = found
        self.work.run_round(NOW_MS)

    def did_look(self) -> bool:
        """Whether the role's next round is a real one."""
        before = self.rounds
        self.role(NOW_MS)
        return self.rounds > before

    def settle(self) -> None:
        """Have a quiet look, and the first round after it."""
        self.look(QUIET)
        self.role(NOW_MS)

    def _round(self, _now_ms: int) -> float:
        if self.error is not None:
            raise self.error
        self.rounds += 1
        return self.wait_seconds

    def _rest(self) -> float:
        self.rests += 1
        return 0.5


def test_without_a_look_a_role_looks_for_itself() -> None:
    assert Watched().did_look()


def test_a_role_without_work_rests() -> None:
    watched = Watched()
    watched.settle()

    assert not watched.did_look()
    assert watched.rests == 1


def test_a_resting_role_sleeps_until_it_is_woken() -> None:
    watched = Watched(has_own_rest=False)
    watched.settle()

    assert watched.role(NOW_MS) == NAP_SECONDS


def test_a_role_with_work_sleeps_no_longer_than_it_may() -> None:
    watched = Watched(wait_seconds=60.0, longest_seconds=1.0)
    watched.look(KILL)

    assert watched.role(NOW_MS) == 1.0


def test_a_role_is_woken_when_its_work_appears_and_not_again_while_it_lasts() -> None:
    watched = Watched()
    watched.settle()

    watched.look(KILL)
    assert watched.awake.is_set()
    assert watched.did_look()
    watched.awake.clear()
    watched.look(KILL)

    assert not watched.awake.is_set()
    assert watched.did_look()


def test_a_role_sees_once_that_its_work_is_gone() -> None:
    watched = Watched()
    watched.settle()
    watched.look(KILL)
    assert watched.did_look()

    watched.look(QUIET)

    assert watched.did_look()
    assert not watched.did_look()


def test_a_role_sees_once_that_work_is_gone_which_it_was_too_busy_to_see() -> None:
    watched = Watched()
    watched.settle()

    watched.look(KILL)
    watched.look(QUIET)

    assert watched.did_look()
    assert not watched.did_look()


def test_a_role_that_was_woken_since_the_look_looks_for_itself() -> None:
    watched = Watched()
    watched.settle()

    watched.awake.set()

    assert watched.did_look()
    watched.look(QUIET)
    assert not watched.did_look()


def test_an_old_look_is_not_believed() -> None:
    watched = Watched()
    watched.settle()
    watched.clock.advance(2.5)

    assert watched.did_look()


def test_a_role_looks_for_itself_after_a_rest() -> None:
    watched = Watched(rest_seconds=0.0)
    watched.settle()

    assert watched.did_look()


def test_others_are_told_of_each_look() -> None:
    watched = Watched()

    watched.look(KILL)
    watched.look(QUIET)

    assert watched.heard == [KILL, QUIET]


def test_a_role_that_failed_tries_again_before_it_rests() -> None:
    watched = Watched()
    watched.settle()
    watched.look(KILL)
    watched.error = OSError("away")
    with pytest.raises(OSError, match="away"):
        watched.role(NOW_MS)
    watched.look(QUIET)
    with pytest.raises(OSError, match="away"):
        watched.role(NOW_MS)
    watched.error = None

    assert watched.did_look()
    assert not watched.did_look()
