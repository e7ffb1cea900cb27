"""When a scheduler's roles make their rounds: their threads, what wakes them, and when they rest.

A round returns the seconds until the next is due. Pending work is looked for twice a second, for
all roles:

    one statement ─> look ──> a role whose work appeared is woken
                         └──> a role without work sleeps on

A look is only a hint: a woken role checks for itself. So does every role after a rest, and all of
them soon after looks stop. A round whose batch fails bisects it, so that one item that cannot be
handled does not block the others.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import structlog

from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable
from warren.sql.ids import has_gone_back
from warren.sql.pending import Pending, look

#: No role with something to do sleeps longer than this, so wake-ups may be lost without harm.
LONGEST_SECONDS = 0.5
#: How long a role with nothing to do sleeps unless something wakes it.
NAP_SECONDS = 5.0
#: How long a role waits after a failed round, at first and at most.
BACKOFF_SECONDS = (0.1, 2.0)
#: How often a role that fails again and again says so: a database may be away for an hour.
TELL_SECONDS = 60.0

#: How many executors such a line names.
NAMED = 20

#: The roles that others wake.
Woken = Literal[
    "backfills", "confirmations", "dispatcher", "log places", "mailer", "registrar", "webhooks"
]
#: Why the dispatcher is woken: to look for runs that are due further back than it usually looks, or
#: because a run has released a limit.
OLD_RUNS, ROOM_IN_LIMITS = "old runs", "room in limits"

log = structlog.get_logger()


class WakeUp(threading.Event):
    """Asks a role for a round, and remembers when it last did, by `clock`, and why."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._reasons: set[str] = set()
        self.asked_at = float("-inf")

    def set(self, reason: str = "") -> None:
        """Ask for a round now; a reason is kept until the role takes it."""
        self.asked_at = self._clock()
        if reason:
            self._reasons.add(reason)
        super().set()

    def has(self, reason: str) -> bool:
        return reason in self._reasons

    def take(self, reason: str) -> bool:
        """Return whether the role was asked for this reason since the last call."""
        if reason not in self._reasons:
            return False
        self._reasons.discard(reason)
        return True


class WakeUps:
    """Wakes the roles of one scheduler, by their names; `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_role: dict[str, WakeUp] = {}

    def of(self, role: str) -> WakeUp:
        """Return what wakes a role."""
        return self._by_role.get(role) or self._by_role.setdefault(role, WakeUp(self._clock))

    def wake(self, role: Woken, reason: str = "") -> None:
        """Ask a role for a round now."""
        self.of(role).set(reason)


class MinuteNotes:
    """Executors of which a role logs one line a minute, however often they are noted.

    `clock` is monotonic seconds. For one thread.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._noted: dict[str, str] = {}
        self._told_at = float("-inf")

    def note(self, app: str, address: str, error: Exception) -> None:
        self._noted[f"{app}/{address}"] = str(error)

    def due(self) -> dict[str, object] | None:
        """Return the facts of a line if one is due: the executors, how many, an error of one."""
        now = self._clock()
        if not self._noted or now - self._told_at < TELL_SECONDS:
            return None
        names = sorted(self._noted)
        facts = {
            "executors": names[:NAMED],
            "count": len(names),
            "error": self._noted[names[0]],
        }
        self._told_at = now
        self._noted.clear()
        return facts


class Role:
    """The rounds of one role; after a failed one it waits and tries again.

    Args:
        name: for the log.
        run_round: one round; returns the seconds until the next one is wanted.
        longest_seconds: the longest wait between two rounds.

    """

    def __init__(
        self,
        name: str,
        run_round: Callable[[], float],
        *,
        longest_seconds: float = LONGEST_SECONDS,
    ) -> None:
        self.name = name
        self.failing = False
        #: When the last round succeeded and when the next is due, by `time.monotonic`.
        self.succeeded_at = float("-inf")
        self.due_at = float("-inf")
        self._run_round = run_round
        self._longest = longest_seconds
        #: When a failure was logged, how many were not since then, and whether no recovery was.
        self._told_at = float("-inf")
        self._untold = 0
        self._is_told = False
        self._backoff = BACKOFF_SECONDS[0]

    def take_turn(self, *, is_woken: bool) -> None:
        """Make a round if it is due or, unless the last one failed, if the role was woken."""
        if time.monotonic() < self.due_at and (self.failing or not is_woken):
            return
        try:
            wait_seconds = min(self._run_round(), self._longest)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next round may succeed
            self._tell(error)
            self.failing = True
            wait_seconds, self._backoff = self._backoff, min(self._backoff * 2, BACKOFF_SECONDS[1])
            self.due_at = time.monotonic() + wait_seconds
            return
        if self._is_told:
            self._is_told = False
            log.info("role_recovered", role=self.name)
        self.failing = False
        self._backoff = BACKOFF_SECONDS[0]
        self.succeeded_at = time.monotonic()
        self.due_at = self.succeeded_at + wait_seconds

    def _tell(self, error: Exception) -> None:
        """Log a failed round, once a minute; with its stack trace if it is the first."""
        now = time.monotonic()
        if now - self._told_at < TELL_SECONDS:
            self._untold += 1
            return
        log.warning(
            "role_failed",
            role=self.name,
            error=str(error),
            untold=self._untold,
            exc_info=not self.failing,
        )
        self._told_at, self._untold, self._is_told = now, 0, True


class Loop:
    """The thread of a role, or of several that may wait for each other, until it is stopped.

    Args:
        roles: take turns.
        name: the thread's; by default that of its role.
        awake: when set, asks for a round now; None = the loop makes its own.
        on_stop: ends a wait within a round.

    """

    def __init__(
        self,
        *roles: Role,
        name: str = "",
        awake: WakeUp | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.roles = roles
        self.name = name or roles[0].name
        self._on_stop = on_stop
        self._awake = awake or WakeUp()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask for no further round."""
        self._stopping.set()
        self._awake.set()
        self._on_stop()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the current round; True when the thread has ended, or never started."""
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        is_woken = False
        while not self._stopping.is_set():
            for role in self.roles:
                if not self._stopping.is_set():
                    role.take_turn(is_woken=is_woken)
            due_at = min(role.due_at for role in self.roles)
            is_woken = self._awake.wait(max(0.0, due_at - time.monotonic()))
            if is_woken:
                self._awake.clear()


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


T = TypeVar("T")


def bisect(
    items: Sequence[T],
    act: Callable[[Sequence[T]], object],
    give_up: Callable[[T, Exception], None],
) -> None:
    """Act on all items at once; if that fails, on halves, down to single items.

    `give_up` is called for each item that fails on its own, with its error.

    Raises:
        DatabaseUnavailable: no item is at fault; parts that succeeded stay done.

    """
    if not items:
        return
    try:
        act(items)
    except DatabaseUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - any other error is the fault of an item
        if len(items) == 1:
            give_up(items[0], error)
            return
        middle = len(items) // 2
        bisect(items[:middle], act, give_up)
        bisect(items[middle:], act, give_up)
