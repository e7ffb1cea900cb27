"""Whether runs may be taken and started now, and if not, why not."""

from warren.broker.messages.to_scheduler import Ailment
from warren.broker.reasons.codes import Reason, Why
from warren.executor.disk import DiskWatch
from warren.executor.journal.group_commit import GroupCommit
from warren.executor.messaging.contact import Contact
from warren.executor.messaging.heartbeat import SchedulerClock
from warren.executor.messaging.outbox import Outbox
from warren.executor.processes.interface import SlotPool


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

    @property
    def refusal(self) -> Reason | None:
        """Why no run is admitted; None if runs are."""
        return Why.SHUTTING_DOWN() if self.is_draining else self._slots.away

    @property
    def may_take(self) -> bool:
        """Whether triggers may be taken from the broker, even if only to answer them."""
        return not self._is_journal_failing and not self._outbox.is_full

    @property
    def may_start(self) -> bool:
        """Whether runs may be started."""
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

    def ailments(self) -> tuple[Ailment, ...]:
        """Return the problems that heartbeats report."""
        ailments = {
            Ailment.JOURNAL: self._is_journal_failing,
            Ailment.DISK: self._disks.is_short(),
            Ailment.CONTACT: not self._contact.is_held(self._clock.monotonic()),
            Ailment.REPORTS: self._outbox.is_full,
            Ailment.SPARES: self._slots.lacks_spares,
        }
        return tuple(ailment for ailment, is_so in ailments.items() if is_so)

    @property
    def _is_journal_failing(self) -> bool:
        return self.is_unable_to_begin or self._commits.is_failing
