"""Whether runs may be taken and started now, and if not, why."""

from executor.clock import SchedulerClock
from executor.contact import Contact
from executor.groupcommit import GroupCommit
from executor.outbox import Outbox


class Readiness:
    """Asks those who can be in the way. Used from the core thread."""

    def __init__(
        self, contact: Contact, commits: GroupCommit, outbox: Outbox, clock: SchedulerClock
    ) -> None:
        self._contact = contact
        self._commits = commits
        self._outbox = outbox
        self._clock = clock
        self.is_draining = False

    @property
    def may_take(self) -> bool:
        """Whether triggers may be taken from the broker, if only to be answered."""
        return not self._commits.is_in_trouble and not self._outbox.is_full

    @property
    def may_start(self) -> bool:
        """Whether runs may be started."""
        return self.may_take and self._contact.is_held(self._clock.monotonic())

    def obstacle(self) -> str:
        """Return why nothing can be started now, empty when it can."""
        if self.is_draining:
            return "it is shutting down"
        if self._commits.is_in_trouble:
            return "its journal cannot be written"
        if self._outbox.is_full:
            return "too many of its reports wait for the broker"
        if not self.may_start:
            return "it is out of contact"
        return ""
