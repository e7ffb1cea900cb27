"""The threads of a scheduler's roles: they make rounds; each round returns when the next is due.

A round whose batch fails bisects it, so that one item that cannot be handled does not block the
others. Executors use this too, so it imports nothing of the database but its errors.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import structlog

from warren.sql.errors import DatabaseUnavailable

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
