"""The state of each run on this executor, across restarts; every change is a journal line.

    ACCEPTED ──> STARTING ──> FINISHED ──> CONFIRMED ──> (id only) ──> dropped after an hour
        └───────────────────────^

It detects duplicates, keeps reports until the broker has them, and decides after a crash:

- Runs that were only ACCEPTED never started.
- Runs that were STARTING are lost, unless they are `resumable`: remote, and of the same boot.
- FINISHED runs are reported again.

A run that was RESERVED in time starts without a sync: STARTING survives a crash of this process
anyway, and after a crash of the host RESERVED counts as STARTING. Of runs HANDED to one job process
together, those that it began have a begin note instead of a STARTING line.
"""

from collections.abc import Iterable
from enum import Enum, auto

import structlog

from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.to_scheduler import Called, Finished
from warren.broker.messages.values import Outcome
from warren.broker.reasons.codes import Why, to_json
from warren.executor.begin_notes import OldNotes
from warren.executor.errors import JournalFailed
from warren.executor.fork_server import linux
from warren.executor.journal import records
from warren.executor.journal.contents import Contents, OpenRun
from warren.executor.journal.file import Journal
from warren.executor.journal.finished_runs import RESULTS_LIMIT
from warren.executor.journal.records import Final

#: Bytes by which the journal may grow before it is compacted.
GROWTH_LIMIT = 64_000_000


class Stage(Enum):
    """How far a run has come on this executor."""

    UNKNOWN = auto()
    ACCEPTED = auto()
    STARTING = auto()
    FINISHED = auto()


class RunStates:
    """The runs by id, backed by a journal. Used from one thread; `commit` makes changes durable."""

    def __init__(
        self,
        journal: Journal,
        log: structlog.typing.FilteringBoundLogger,
        *,
        notes: OldNotes | None = None,
        growth_limit: int = GROWTH_LIMIT,
        results_limit: int = RESULTS_LIMIT,
    ) -> None:
        self._journal = journal
        self._notes = notes
        self._log = log
        self._growth_limit = growth_limit
        self._contents = Contents(results_limit)
        self._noted_of: dict[str, frozenset[int] | None] = {}
        self._damaged_count = 0
        self._compact_at = journal.size + growth_limit
        self._load()

    # -- reading ------------------------------------------------------------------------------

    def stage(self, run_id: int) -> Stage:
        """Return how far a run has come."""
        entry = self._contents.open_runs.get(run_id)
        if entry is None:
            return Stage.FINISHED if run_id in self._contents.finished else Stage.UNKNOWN
        if entry.line:
            return Stage.FINISHED
        return Stage.ACCEPTED if entry.starting is None else Stage.STARTING

    def is_another(self, trigger: Trigger) -> bool:
        """Whether the id of a trigger belongs to another run here: the counter of ids went back.

        If only the id is kept, a run that is due later than that one ended is another.
        """
        known = self._contents.identity_of(trigger.run_id)
        if known == 0 and trigger.run_id not in self._contents.open_runs:
            return self._contents.finished.ended_before(trigger.run_id, trigger.due_at_ms)
        return bool(known) and known != trigger.identity

    def has_another(self, run_id: int, identity: int) -> bool:
        """Whether an id belongs to a run of another identity here."""
        known = self._contents.identity_of(run_id)
        return bool(known and identity) and known != identity

    def is_open(self, run_id: int) -> bool:
        """Whether a run has not ended, or the broker does not have its report yet."""
        return run_id in self._contents.open_runs

    def forget(self, run_id: int) -> None:
        """Forget a finished run whose id another run has now."""
        self._contents.forget_run(run_id)

    @property
    def highest_id(self) -> int:
        """The highest id of a run that was here."""
        return self._contents.highest_id

    def report(self, run_id: int, boot_id: str, *, now_ms: int) -> tuple[Final, int] | None:
        """Return the report of a finished run and its size; None if the run is not finished.

        If only its id is kept, this is a report for `boot_id` with the outcome LOST; or None while
        the real one may still be on its way, because the first report that is stored counts.
        """
        entry = self._contents.open_runs.get(run_id)
        line = entry.line if entry else self._contents.finished.line(run_id)
        if line:
            return records.report_of(line), len(line)
        if entry is None and self._contents.finished.is_settled(run_id, now_ms):
            report = Finished(
                run_id=run_id,
                boot_id=boot_id,
                outcome=Outcome.LOST,
                message=str(Why.REPORT_FORGOTTEN()),
                why=to_json(Why.REPORT_FORGOTTEN()),
                finished_at_ms=self._contents.boots.get(boot_id, 0),
            )
            return report, len(records.line_of(report))
        return None

    def may_have_forgotten(self, boot_id: str, routed_at_ms: int) -> bool:
        """Whether a run sent to that boot at that time may have been here and been forgotten."""
        return boot_id not in self._contents.boots or routed_at_ms < self._contents.horizon_ms

    def knows_boot(self, boot_id: str) -> bool:
        """Whether the journal goes back to that boot."""
        return boot_id in self._contents.boots

    def resumable(self, boot_id: str) -> list[records.Starting]:
        """Return the starts of the boot's remote runs that have no result yet."""
        return [
            entry.starting
            for entry in self._contents.open_runs.values()
            if entry.starting is not None and entry.is_resumable(boot_id)
        ]

    @property
    def has_open(self) -> bool:
        """Whether there are runs without an end, or ends whose report the broker may not have."""
        return bool(self._contents.open_runs or self._contents.calls)

    @property
    def remembers_since_ms(self) -> int:
        """The time before which runs may be missing."""
        return max(self._contents.horizon_ms, next(iter(self._contents.boots.values()), 0))

    @property
    def has_uncommitted(self) -> bool:
        """Whether there are changes that are not durable yet."""
        return self._journal.has_pending

    @property
    def is_due_for_compaction(self) -> bool:
        """Whether the journal has grown enough to be compacted."""
        return self._journal.size >= self._compact_at

    # -- changes ------------------------------------------------------------------------------

    def begin(self, boot_id: str, now_ms: int) -> list[tuple[Final | Called, int]]:
        """Begin a boot; return each report that the broker does not have yet, with its size.

        Raises:
            JournalFailed: nothing is durable; call it again later.

        """
        if self._damaged_count:
            self._contents.horizon_ms = now_ms
        host_boot = linux.host_boot()
        is_complete = bool(host_boot) and host_boot == self._contents.host_boot
        verdicts = []
        for entry in self._contents.open_runs.values():
            if not entry.line and not entry.is_resumable(boot_id):
                noted = self._noted(entry)
                verdict = entry.verdict(now_ms, is_complete=is_complete, noted=noted)
                entry.line = records.line_of(verdict)
                verdicts.append(entry.line)
        self._contents.begin_boot(boot_id, host_boot, now_ms)
        try:
            self.compact(now_ms)
        except JournalFailed as error:
            self._log.warning("journal_not_compacted", error=str(error))
            self._continue_old_file(verdicts)
        if self._notes is not None:
            self._notes.delete(but=boot_id)
        calls = [(records.call_of(line), len(line)) for line in self._contents.calls.values()]
        ends = [
            (records.report_of(entry.line), len(entry.line))
            for entry in self._contents.open_runs.values()
            if entry.line
        ]
        return [*calls, *ends]

    def accept(self, run_id: int, identity: int = 0) -> None:
        """Record that a run was accepted by this boot."""
        self._contents.accept(run_id, identity)
        self._journal.append(records.to_line(records.Accepted(run_id=run_id, identity=identity)))

    def reserve(self, run_ids: tuple[int, ...]) -> None:
        """Record that these runs come next: once this is committed, their start needs no commit."""
        self._contents.mark_reserved(run_ids)
        self._journal.append(records.to_line(records.Reserved(run_ids=run_ids)))

    def hand_over(self, run_ids: tuple[int, ...]) -> None:
        """Record that one job process may get all of these runs; once written, it may.

        All but the first need no `start`: what the process has begun is in its begin note.
        """
        self._contents.mark_handed(run_ids)
        self._journal.append(records.to_line(records.HandedOver(run_ids=run_ids)))

    def write(self) -> None:
        """Make the changes so far survive a crash of this process, but not of the host.

        Raises:
            JournalFailed: they are kept for the next commit.

        """
        self._journal.write()

    def start(self, starting: records.Starting) -> None:
        """Record that a run's process is about to start.

        Start it only once this is committed; for a reserved run, once it is written.
        """
        self._contents.open_runs[starting.run_id].starting = starting
        self._journal.append(records.to_line(starting))

    def finish(self, report: Final) -> tuple[Final, int]:
        """Record the end of a run; return the report, made encodable, and its size."""
        try:
            line = records.line_of(report)
        except UnicodeEncodeError:
            report = records.without_surrogates(report)
            line = records.line_of(report)
        entry = self._contents.open_run(report.run_id, report.boot_id)
        entry.line = line
        self._journal.append(line)
        return report, len(line)

    def call(self, report: Called) -> tuple[Called, int]:
        """Record that a run asks for another one; return the report, made encodable, and size."""
        line = records.line_of_call(report)
        self._contents.calls[report.run_id, report.number] = line
        self._journal.append(line)
        return records.call_of(line), len(line)

    def confirm_calls(self, calls: tuple[records.CallKey, ...]) -> None:
        """Record that the broker has the reports of these calls."""
        self._journal.append(records.to_line(records.CallsConfirmed(calls=calls)))
        self._contents.confirm_calls(calls)

    def confirm(self, run_ids: tuple[int, ...], at_ms: int) -> None:
        """Record that the broker has the reports of these runs."""
        self._journal.append(records.to_line(records.Confirmed(run_ids=run_ids, at_ms=at_ms)))
        self._contents.confirm(run_ids, at_ms)

    def commit(self) -> None:
        """Make all changes so far durable.

        Raises:
            JournalFailed: they are kept for the next commit.

        """
        self._journal.commit()

    def compact(self, now_ms: int) -> None:
        """Rewrite the journal without what is no longer needed.

        Raises:
            JournalFailed: the old journal stays, or the next commit makes the new one durable.

        """
        self._contents.forget(now_ms)
        # Even if it fails, the file must grow again before the next try.
        self._compact_at = self._journal.size + self._growth_limit
        self._journal.rewrite(self._contents.lines())
        self._compact_at = self._journal.size + self._growth_limit
        self._log.debug(
            "journal_compacted", size=self._journal.size, open=len(self._contents.open_runs)
        )

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def _continue_old_file(self, verdicts: Iterable[bytes]) -> None:
        """Begin the boot in the old file, which has space of its own even on a full disk.

        Raises:
            JournalFailed: as `commit` does.

        """
        if not self._journal.has_pending:  # otherwise they have been waiting since the last try
            for line in (*self._contents.boot_lines(), *verdicts):
                self._journal.append(line)
        self._journal.commit()

    # -- loading ------------------------------------------------------------------------------

    def _load(self) -> None:
        for number, line in enumerate(self._journal.read(), start=1):
            record = records.from_line(line)
            if record is None:
                self._damaged_count += 1
                self._log.error("journal_line_skipped", line=number, size=len(line))
            else:
                self._contents.apply(record, line)

    def _noted(self, entry: OpenRun) -> frozenset[int] | None:
        """Return the runs that job processes of a run's boot began last; they begin no more then.

        None if the run was not handed over, or if that is not known.
        """
        if not entry.handed or self._notes is None:
            return None
        if entry.boot_id not in self._noted_of:
            self._noted_of[entry.boot_id] = self._notes.revoke(entry.boot_id)
        return self._noted_of[entry.boot_id]
