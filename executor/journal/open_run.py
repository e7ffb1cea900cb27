"""One run in the journal, until the broker has its report."""

from collections.abc import Iterator
from dataclasses import dataclass

from broker.messages import Finished, NotStarted, Outcome
from broker.reasons.codes import Why
from broker.reasons.stored import to_json
from executor.journal import records
from executor.journal.records import Final


@dataclass(slots=True)
class OpenRun:
    """A run of one boot. `line` is its FINISHED line; b"" until it has ended."""

    run_id: int
    boot_id: str
    is_reserved: bool = False
    starting: records.Starting | None = None
    line: bytes = b""

    def is_resumable(self, boot_id: str) -> bool:
        """Whether a process of this boot may continue it."""
        is_remote = self.starting is not None and self.starting.trigger is not None
        return is_remote and not self.line and self.boot_id == boot_id

    def verdict(self, now_ms: int, *, is_complete: bool) -> Final:
        """Return the report of a run that its process left open.

        `is_complete`: the host has not been down since, so no written line was lost.
        """
        if self.starting is None and (is_complete or not self.is_reserved):
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

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the journal that restore it; the last BOOT above is its own."""
        if self.line:
            yield self.line
            return
        yield records.to_line(records.Accepted(run_id=self.run_id))
        if self.is_reserved:
            yield records.to_line(records.Reserved(run_ids=(self.run_id,)))
        if self.starting is not None:
            yield records.to_line(self.starting)
