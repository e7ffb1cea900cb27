"""Looks for pending work twice a second, for all roles; a role without work rests.

    one statement ─> look ──> a role whose work appeared is woken
                         └──> a role without work sleeps on

A look is only a hint: a woken role checks for itself. So does every role after a rest, and all of
them soon after looks stop.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from warren.scheduler.rounds import LONGEST_SECONDS, NAP_SECONDS, WakeUp
from warren.sql.engine import Database
from warren.sql.ids import has_gone_back
from warren.sql.pending import Pending, look

#: Seconds between two looks, and how old one may be to count.
POLL_SECONDS = 0.5
STALE_SECONDS = 2.0
#: How often a resting role checks for itself: it may remember what no statement shows.
REST_SECONDS = 30.0

#: Whether a role has something to do, by what is pending and the database's clock.
WakeCondition = Callable[[Pending, int], bool]


@dataclass(frozen=True, slots=True)
class WorkSnapshot:
    """What was pending at an instant of the monotonic clock."""

    began_at: float
    pending: Pending


class PendingWork:
    """The role that looks for pending work.

    Args:
        since_ms: returns from when on the dispatcher looks for due runs.
        on_look: called after each look with the pending work, when it began, and the database's
            clock then.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        database: Database,
        *,
        since_ms: Callable[[int], int],
        on_look: Callable[[Pending, float, int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._since_ms = since_ms
        self._on_look = on_look
        self.clock = clock
        self._roles: list[RestingRole] = []
        self.latest: WorkSnapshot | None = None

    def run_round(self, now_ms: int) -> float:
        """Look, and wake the roles for which work has appeared.

        The look also shows whether the counter of run ids has gone back.
        """
        began_at = self.clock()
        seen_id = self._database.seen_ids.highest
        pending = look(self._database, since_ms=self._since_ms(now_ms), now_ms=now_ms)
        self.latest = WorkSnapshot(began_at, pending)
        has_gone_back(self._database, pending.next_id, seen_id)
        self._on_look(pending, began_at, now_ms)
        for role in self._roles:
            role.hear(pending, now_ms)
        return POLL_SECONDS

    def may_have_pauses(self) -> bool:
        """Whether there may be pauses, or planned runs left over from one."""
        latest = self.latest
        if latest is None or self.clock() - latest.began_at > STALE_SECONDS:
            return True
        return latest.pending.has_pauses

    def resting(
        self,
        run_round: Callable[[int], float],
        wants: WakeCondition,
        *,
        longest_seconds: float = LONGEST_SECONDS,
        awake: WakeUp,
        rest: Callable[[], float] = lambda: NAP_SECONDS,
        rest_seconds: float = REST_SECONDS,
    ) -> "RestingRole":
        """Return a role that skips its rounds while it has no work.

        `longest_seconds` is its longest wait while it has some. `awake` asks it for a round; `rest`
        is called instead of one.
        """
        role = RestingRole(
            self,
            run_round,
            wants,
            longest_seconds=longest_seconds,
            awake=awake,
            rest=rest,
            rest_seconds=rest_seconds,
        )
        self._roles.append(role)
        return role


class RestingRole:
    """A role's rounds: `run_round` while it has something to do, else `rest`."""

    def __init__(
        self,
        work: PendingWork,
        run_round: Callable[[int], float],
        wants: WakeCondition,
        *,
        longest_seconds: float,
        awake: WakeUp,
        rest: Callable[[], float],
        rest_seconds: float,
    ) -> None:
        self.awake = awake
        self._longest = longest_seconds
        self._work = work
        self._run_round = run_round
        self._wants = wants
        self._rest = rest
        self._rest_seconds = rest_seconds
        self._had_work = True
        #: Another round is needed: work was seen since the last one began, or that one failed.
        self._owes_round = True
        self._worked_at = float("-inf")

    def __call__(self, now_ms: int) -> float:
        """Do a round; return the seconds until the next."""
        if not self._must_look(now_ms):
            return self._rest()
        self._worked_at = self._work.clock()
        # One more round when the work is gone: some roles have to notice that.
        self._owes_round = self._has_work(now_ms)
        try:
            return min(self._run_round(now_ms), self._longest)
        except Exception:
            self._owes_round = True
            raise

    def hear(self, pending: Pending, now_ms: int) -> None:
        """Wake the role when work appears; while there is work, the role paces itself."""
        had_work, self._had_work = self._had_work, self._wants(pending, now_ms)
        if self._had_work:
            self._owes_round = True
        if self._had_work and not had_work:
            self.awake.set()

    def _must_look(self, now_ms: int) -> bool:
        latest, now = self._work.latest, self._work.clock()
        if latest is None or now - latest.began_at > STALE_SECONDS:
            return True
        if latest.began_at <= self.awake.asked_at or now - self._worked_at > self._rest_seconds:
            return True
        return self._owes_round or self._has_work(now_ms)

    def _has_work(self, now_ms: int) -> bool:
        latest = self._work.latest
        return latest is not None and self._wants(latest.pending, now_ms)


#: A role is woken this long before its work is due, and waits for the exact time itself.
NEAR_MS = 1_000


def planner(begin_ms: int) -> WakeCondition:
    """Return whether a tick is about to be planned, which happens `begin_ms` before it."""

    def is_tick_near(work: Pending, now_ms: int) -> bool:
        return work.next_tick is not None and work.next_tick <= now_ms + begin_ms + NEAR_MS

    return is_tick_near


def dispatcher(work: Pending, now_ms: int) -> bool:
    """Whether a run is due soon, or the start or end of a pause has to be noted."""
    is_due = work.next_due is not None and work.next_due <= now_ms + NEAR_MS
    return is_due or work.has_pauses


def rescuer(work: Pending, _now_ms: int) -> bool:
    """Whether any run is ROUTED."""
    return work.has_routed


def settlers(work: Pending, _now_ms: int) -> bool:
    """Whether any run is with an executor, for reaper and reconciler."""
    return work.has_in_flight


def killer(work: Pending, _now_ms: int) -> bool:
    """Whether a kill is requested."""
    return work.has_kills


def backfills(work: Pending, _now_ms: int) -> bool:
    """Whether a backfill has due times to plan, or runs that it waits for."""
    return work.has_backfills


def flow_keeper(work: Pending, _now_ms: int) -> bool:
    """Whether a flow has a node that is not over."""
    return work.has_open_flows


def drainer(work: Pending, _now_ms: int) -> bool:
    """Whether a drain is requested."""
    return work.has_drains


def alarm_rate_limiter(work: Pending, _now_ms: int) -> bool:
    """Whether there are alarms to decide about."""
    return work.has_new_alarms


def mailer(work: Pending, _now_ms: int) -> bool:
    """Whether an e-mail waits to be sent."""
    return work.has_mails


def webhooks(work: Pending, _now_ms: int) -> bool:
    """Whether an alarm's webhook waits to be called."""
    return work.has_webhooks


def run_webhooks(work: Pending, _now_ms: int) -> bool:
    """Whether a webhook call about the end of a run waits to be sent."""
    return work.has_run_ends
