"""What the lines of a journal add up to: boots, open runs and finished ones."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from warren.broker.messages.to_scheduler import Finished, NotStarted
from warren.broker.messages.values import Outcome
from warren.broker.reasons.codes import Why, to_json
from warren.executor.journal import records
from warren.executor.journal.finished_runs import RESULTS_LIMIT, FinishedRuns
from warren.executor.journal.records import Final


@dataclass(slots=True)
class OpenRun:
    """A run that a boot accepted. `line` is its FINISHED line; b"" until it has ended.

    `handed` are the runs that were handed over together with it, in the order in which they begin.
    """

    run_id: int
    boot_id: str
    identity: int = 0
    is_reserved: bool = False
    handed: tuple[int, ...] = ()
    starting: records.Starting | None = None
    line: bytes = b""

    def is_resumable(self, boot_id: str) -> bool:
        """Whether a process of this boot may continue it."""
        is_remote = self.starting is not None and self.starting.trigger is not None
        return is_remote and not self.line and self.boot_id == boot_id

    def verdict(self, now_ms: int, *, is_complete: bool, noted: frozenset[int] | None) -> Final:
        """Return the report of a run that its executor's process left open.

        `is_complete`: the host has not been down since, so no written line was lost. `noted` are
        the runs that job processes of its boot began last; None if that is not known.
        """
        may_have_begun = self.starting is not None or self._may_have_begun(noted)
        if not may_have_begun and (is_complete or not self.is_reserved):
            never = Why.EXECUTOR_ENDED_BEFORE()
            return NotStarted(
                run_id=self.run_id,
                boot_id=self.boot_id,
                reason=str(never),
                why=to_json(never),
                identity=self.identity,
            )
        return Finished(
            run_id=self.run_id,
            boot_id=self.boot_id,
            outcome=Outcome.LOST,
            message=str(Why.EXECUTOR_ENDED()),
            why=to_json(Why.EXECUTOR_ENDED()),
            started_at_ms=0 if self.starting is None else self.starting.at_ms,
            finished_at_ms=now_ms,
            identity=self.identity,
        )

    def _may_have_begun(self, noted: frozenset[int] | None) -> bool:
        """Whether its process may have begun it or a later run of the batch."""
        if self.run_id not in self.handed:
            return False
        return noted is None or not noted.isdisjoint(self.handed[self.handed.index(self.run_id) :])

    def lines(self) -> Iterator[bytes]:
        """Yield the journal lines that restore the run; they belong after its BOOT line."""
        if self.line:
            yield self.line
            return
        yield records.to_line(records.Accepted(run_id=self.run_id, identity=self.identity))
        if self.is_reserved:
            yield records.to_line(records.Reserved(run_ids=(self.run_id,)))
        if self.handed:
            yield records.to_line(records.HandedOver(run_ids=self.handed))
        if self.starting is not None:
            yield records.to_line(self.starting)


#: The most boots that are kept; older ones count as unknown, like another executor's.
BOOT_LIMIT = 1_000


class Contents:
    """The contents of one journal, in memory.

    Attributes:
        boots: when each boot began, oldest first.
        boot_id: the last boot; it accepted what comes next.
        host_boot: the boot of the host during which that boot began.
        open_runs: runs whose report the broker does not have yet.
        calls: the CALLED lines of calls whose report the broker does not have yet.
        finished: runs whose report the broker has.
        horizon_ms: the time before which runs may be missing; 0 = none are.
        highest_id: the highest id of a run that was here; 0 = unknown.

    """

    def __init__(self, results_limit: int = RESULTS_LIMIT) -> None:
        self.boots: dict[str, int] = {}
        self.boot_id = ""
        self.host_boot = ""
        self.open_runs: dict[int, OpenRun] = {}
        self.calls: dict[records.CallKey, bytes] = {}
        self.finished = FinishedRuns(results_limit)
        self.horizon_ms = 0
        self.highest_id = 0

    def apply(self, record: records.AnyRecord, line: bytes) -> None:
        """Add a line of the journal."""
        if isinstance(record, records.Calling | records.CallsConfirmed):
            self._apply_call(record, line)
        else:
            self._apply_to_run(record, line)

    def _apply_call(self, record: records.Calling | records.CallsConfirmed, line: bytes) -> None:
        if isinstance(record, records.Calling):
            self.calls[record.report.run_id, record.report.number] = line
        else:
            self.confirm_calls(record.calls)

    def _apply_to_run(self, record: records.AnyRecord, line: bytes) -> None:
        match record:
            case records.Boot():
                self.boots[record.boot_id] = record.at_ms
                self.boot_id, self.host_boot = record.boot_id, record.host_boot
            case records.Accepted():
                self.accept(record.run_id, record.identity)
            case records.Reserved():
                self.mark_reserved(record.run_ids)
            case records.HandedOver():
                self.mark_handed(record.run_ids)
            case records.Starting():
                self.open_run(record.run_id, self.boot_id).starting = record
            case records.Ended():
                report = record.report
                self.open_run(report.run_id, report.boot_id).line = line
            case records.Confirmed():
                self.confirm(record.run_ids, record.at_ms)
            case records.FinishedIdBlock():
                self.highest_id = max(self.highest_id, self.finished.add_block(record))
            case records.Horizon():
                self.horizon_ms = max(self.horizon_ms, record.since_ms)

    def lines(self) -> Iterator[bytes]:
        """Yield the journal lines that restore these contents."""
        for boot_id, at_ms in self.boots.items():
            if boot_id != self.boot_id:
                yield records.to_line(records.Boot(boot_id=boot_id, at_ms=at_ms))
        yield from self.boot_lines()
        yield from self.finished.lines()
        yield from self.calls.values()
        for run in self.open_runs.values():
            yield from run.lines()

    def boot_lines(self) -> Iterator[bytes]:
        """Yield the lines that restore the last boot and the horizon."""
        if self.horizon_ms:
            yield records.to_line(records.Horizon(since_ms=self.horizon_ms))
        boot_id = self.boot_id
        if boot_id:
            at_ms, host_boot = self.boots[boot_id], self.host_boot
            yield records.to_line(records.Boot(boot_id=boot_id, at_ms=at_ms, host_boot=host_boot))

    def begin_boot(self, boot_id: str, host_boot: str, now_ms: int) -> None:
        """Add a boot, or continue it."""
        self.boots[boot_id] = self.boots.pop(boot_id, now_ms)
        self.boot_id, self.host_boot = boot_id, host_boot

    def forget(self, now_ms: int) -> None:
        """Drop what is no longer needed."""
        self.horizon_ms = max(self.horizon_ms, self.finished.forget(now_ms))
        for boot_id in list(islice(self.boots, max(0, len(self.boots) - BOOT_LIMIT))):
            del self.boots[boot_id]

    def accept(self, run_id: int, identity: int) -> None:
        """Add a run that this boot accepted; another one with its id is forgotten."""
        self.highest_id = max(self.highest_id, run_id)
        known = self.identity_of(run_id)
        if known is None or (identity and known != identity):
            self.forget_run(run_id)
            self.open_runs[run_id] = OpenRun(run_id, self.boot_id, identity)

    def identity_of(self, run_id: int) -> int | None:
        """Return the identity of a run; 0 if it is not known, None if the run is not."""
        entry = self.open_runs.get(run_id)
        line = self.finished.line(run_id) if entry is None else entry.line
        if line:
            return records.report_of(line).identity
        if entry is not None:
            return entry.identity
        return 0 if run_id in self.finished else None

    def forget_run(self, run_id: int) -> None:
        """Forget a run that is another one than that which has its id now."""
        self.open_runs.pop(run_id, None)
        self.finished.drop(run_id)

    def open_run(self, run_id: int, boot_id: str) -> OpenRun:
        """Return an open run; it is added if it is new."""
        self.highest_id = max(self.highest_id, run_id)
        return self.open_runs.setdefault(run_id, OpenRun(run_id, boot_id))

    def mark_reserved(self, run_ids: tuple[int, ...]) -> None:
        """Note that these runs are reserved to start next."""
        for run_id in run_ids:
            self.open_run(run_id, self.boot_id).is_reserved = True

    def mark_handed(self, run_ids: tuple[int, ...]) -> None:
        """Note that one job process may get all of these runs."""
        for run_id in run_ids:
            if run_id in self.open_runs:  # others ended before a compaction
                self.open_runs[run_id].handed = run_ids

    def confirm_calls(self, calls: Iterable[records.CallKey]) -> None:
        """Note that the broker has the reports of these calls."""
        for call in calls:
            self.calls.pop(call, None)

    def confirm(self, run_ids: tuple[int, ...], at_ms: int) -> None:
        """Note that the broker has the reports of these runs."""
        for run_id in run_ids:
            run = self.open_runs.get(run_id)
            line = run.line if run is not None else b""
            if line:
                del self.open_runs[run_id]
            self.finished.add(run_id, at_ms, line)
