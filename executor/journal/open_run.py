"""One run in the journal, until the broker has its report."""

from collections.abc import Iterator
from dataclasses import dataclass

from warren.broker.messages.to_scheduler import Finished, NotStarted
from warren.broker.messages.values import Outcome
from warren.broker.reasons.codes import Why
from warren.broker.reasons.stored import to_json
from warren.executor.journal import records
from warren.executor.journal.records import Final


@dataclass(slots=True)
class OpenRun:
    """A run of one boot. `line` is its FINISHED line; b"" until it has ended.

    `handed` are the runs that it was handed over with, in the order in which they begin.
    """

    run_id: int
    boot_id: str
    is_reserved: bool = False
    handed: tuple[int, ...] = ()
    starting: records.Starting | None = None
    line: bytes = b""

    def is_resumable(self, boot_id: str) -> bool:
        """Whether a process of this boot may continue it."""
        is_remote = self.starting is not None and self.starting.trigger is not None
        return is_remote and not self.line and self.boot_id == boot_id

    def verdict(self, now_ms: int, *, is_complete: bool, noted: frozenset[int] | None) -> Final:
        """Return the report of a run that its process left open.

        `is_complete`: the host has not been down since, so no written line was lost. `noted` are
        the runs that job processes of its boot began last; None if that is not known.
        """
        may_have_begun = self.starting is not None or self._may_have_begun(noted)
        if not may_have_begun and (is_complete or not self.is_reserved):
            never = Why.EXECUTOR_ENDED_BEFORE()
            return NotStarted(
                run_id=self.run_id, boot_id=self.boot_id, reason=str(never), why=to_json(never)
            )
        return Finished(
            run_id=self.run_id,
            boot_id=self.boot_id,
            outcome=Outcome.LOST,
            message=str(Why.EXECUTOR_ENDED()),
            why=to_json(Why.EXECUTOR_ENDED()),
            started_at_ms=0 if self.starting is None else self.starting.at_ms,
            finished_at_ms=now_ms,
        )

    def _may_have_begun(self, noted: frozenset[int] | None) -> bool:
        """Whether the process it was handed to has begun it, or a later one."""
        if self.run_id not in self.handed:
            return False
        return noted is None or not noted.isdisjoint(self.handed[self.handed.index(self.run_id) :])

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the journal that restore it; the last BOOT above is its own."""
        if self.line:
            yield self.line
            return
        yield records.to_line(records.Accepted(run_id=self.run_id))
        if self.is_reserved:
            yield records.to_line(records.Reserved(run_ids=(self.run_id,)))
        if self.handed:
            yield records.to_line(records.HandedOver(run_ids=self.handed))
        if self.starting is not None:
            yield records.to_line(self.starting)
