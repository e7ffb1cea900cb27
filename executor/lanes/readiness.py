"""Whether runs may be taken and started now, and if not, why not.

Waiting runs may be started while the broker answers:

    HELD ──10 s without a confirmed heartbeat──> LOST ──confirmed──> ASKING ──all answered──> HELD

While contact is lost, the schedulers may declare this executor dead and give its runs to others. So
before it starts runs that waited meanwhile, it asks whether they are still open; likewise about
runs that arrive later but were routed before: a resumed executor finds such triggers in its
sockets.
"""

from collections.abc import Collection
from enum import Enum, auto

from warren.broker.messages import HealthIssue
from warren.broker.reasons import Reason, Why
from warren.executor.disk import DiskWatch
from warren.executor.journal.group_commit import GroupCommit
from warren.executor.messaging.heartbeat import SchedulerClock
from warren.executor.messaging.outbox import Outbox
from warren.executor.processes.interface import SlotPool

#: After this long without a confirmed heartbeat no run is started. Schedulers take at least 15 s to
#: declare an executor dead.
CONTACT_SECONDS = 10.0
#: How often the question is repeated.
ASK_SECONDS = 2.0
#: How far the clock of the scheduler that routed a trigger may be off.
CLOCK_SECONDS = 3.0


class _State(Enum):
    HELD = auto()
    LOST = auto()
    ASKING = auto()


class Contact:
    """The state machine above. Times are monotonic seconds. Used from one thread.

    `is_back`: this boot resumes after a silence, so triggers that were routed before are asked
    about.
    """

    def __init__(self, now: float, *, is_back: bool = False) -> None:
        self._confirmed_at = now
        self._state = _State.HELD
        self._uncertain: set[int] = set()
        self._asked_at = now - ASK_SECONDS
        self._regained_at = now if is_back else float("-inf")

    def is_held(self, now: float) -> bool:
        """Whether runs may be started now."""
        if now - self._confirmed_at > CONTACT_SECONDS:
            self._state = _State.LOST
        return self._state is _State.HELD

    def confirm(self, sent_at: float, now: float, waiting: Collection[int]) -> None:
        """Record that the broker took a heartbeat of `sent_at`; `waiting` are runs not started."""
        was_held = self.is_held(now)
        self._confirmed_at = max(self._confirmed_at, sent_at)
        if was_held or now - self._confirmed_at > CONTACT_SECONDS:
            return
        if self._state is _State.LOST:
            self._regained_at = now
            self._uncertain = set(waiting)
            self._state = _State.ASKING if waiting else _State.HELD
            self._asked_at = now - ASK_SECONDS

    def arrive(self, run_id: int, routed_at: float, now: float) -> None:
        """Record a new run, to be asked about if it was routed before contact was regained."""
        if routed_at > self._regained_at + CLOCK_SECONDS or not self._has_answered(now):
            return
        self._uncertain.add(run_id)
        self._state = _State.ASKING
        self._asked_at = now - ASK_SECONDS

    def question(self, now: float) -> tuple[int, ...]:
        """Return the runs to ask about now; empty if there are none or it is too early."""
        if self._state is not _State.ASKING or now - self._asked_at < ASK_SECONDS:
            return ()
        self._asked_at = now
        return tuple(sorted(self._uncertain))

    def answer(self, asked: Collection[int]) -> set[int]:
        """Record the answer for these runs; return those that this executor had asked about."""
        answered = self._uncertain.intersection(asked)
        self._forget(answered)
        return answered

    def forget(self, run_id: int) -> None:
        """Do not ask about this run: it ended while it waited."""
        self._forget({run_id})

    def _has_answered(self, now: float) -> bool:
        """Whether the broker answers; while it does not, all waiting runs will be asked about."""
        self.is_held(now)
        return self._state is not _State.LOST

    def _forget(self, run_ids: set[int]) -> None:
        self._uncertain -= run_ids
        if self._state is _State.ASKING and not self._uncertain:
            self._state = _State.HELD


class Readiness:
    """Combines all conditions for taking and starting runs. Used from the core thread."""

    def __init__(
        self,
        contact: Contact,
        commits: GroupCommit,
        outbox: Outbox,
        disks: DiskWatch,
        clock: SchedulerClock,
        *,
        slots: SlotPool,
    ) -> None:
        self._contact = contact
        self._commits = commits
        self._outbox = outbox
        self._disks = disks
        self._clock = clock
        self._slots = slots
        self.is_draining = False
        #: Whether the boot could not be recorded in the journal yet, so that it takes no triggers.
        self.is_unable_to_begin = False
        self._welcomed_ms = 0
        #: When (the schedulers' time) another boot was found to have the address; 0 = none has.
        self._displaced_ms = 0

    @property
    def is_displaced(self) -> bool:
        """Whether another boot has the address, so that new triggers are left to it.

        Otherwise, an executor that was frozen would return one run after the other.
        """
        return self._displaced_ms > 0

    def note_welcome(self, at_ms: int) -> None:
        """Note that a scheduler knew at this time that this boot has the address."""
        self._welcomed_ms = max(self._welcomed_ms, at_ms)
        if at_ms >= self._displaced_ms:
            self._displaced_ms = 0

    def note_other_boot(self, at_ms: int) -> None:
        """Note that a scheduler took another boot for the one that has the address."""
        if at_ms > self._welcomed_ms + CLOCK_SECONDS * 1000:
            self._displaced_ms = max(self._displaced_ms, at_ms)

    @property
    def refusal(self) -> Reason | None:
        """Why no run is admitted; None if runs are."""
        return Why.SHUTTING_DOWN() if self.is_draining else self._slots.away

    @property
    def may_take(self) -> bool:
        """Whether triggers may be taken from the broker, even if only to answer them."""
        return not (self._is_journal_failing or self._outbox.is_full or self.is_displaced)

    @property
    def may_start(self) -> bool:
        is_held = self._contact.is_held(self._clock.monotonic())
        return self.may_take and is_held and not self.is_draining

    def obstacle(self) -> Reason | None:
        """Return why no run can be started now; None if one can."""
        if self.is_draining:
            return Why.DRAINING()
        if (away := self._slots.away) is not None:
            return away
        if self._is_journal_failing:
            return Why.JOURNAL_FAILING()
        if self._outbox.is_full:
            return Why.TOO_MANY_REPORTS()
        if not self.may_start:
            return Why.OUT_OF_CONTACT()
        return None

    def health_issues(self) -> tuple[HealthIssue, ...]:
        """Return the problems that heartbeats report."""
        found = {
            HealthIssue.JOURNAL: self._is_journal_failing,
            HealthIssue.DISK: self._disks.is_short(),
            HealthIssue.CONTACT: not self._contact.is_held(self._clock.monotonic()),
            HealthIssue.REPORTS: self._outbox.is_full,
            HealthIssue.SPARES: self._slots.lacks_spares,
        }
        return tuple(issue for issue, is_so in found.items() if is_so)

    @property
    def _is_journal_failing(self) -> bool:
        return self.is_unable_to_begin or self._commits.is_failing
