"""What this executor knows of each run, across its own restarts; every change is a journal line.

    ACCEPTED ──> STARTING ──> FINISHED ──> CONFIRMED ──> (id only) ──> forgotten after an hour
        └───────────────────────^

It is the memory against duplicates, the store of reports that no broker has yet, and after a
crash the truth: what was only accepted never started, what was starting is lost, what finished
is reported again. A run that is RESERVED in time needs no sync of its own at its start: STARTING
outlives this process all the same, and where the host itself went down, RESERVED counts as it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby, islice

import structlog

from broker.messages import Finished, NotStarted, Outcome
from executor import linux, records
from executor.journal import Journal
from executor.records import Final
from executor.remembered import RememberedIds

#: How long the id of a run is remembered after the broker has its report, in milliseconds.
MEMORY_MS = 3_600_000
#: Bytes of reports kept after the broker confirmed them, should somebody ask for them again.
RESULTS_LIMIT = 8_000_000
#: Bytes the journal grows by before it is written anew.
GROWTH_LIMIT = 64_000_000
#: Boots remembered; older ones are as unknown as another executor's.
BOOT_LIMIT = 1_000

LOST_REASON = "the executor ended while it ran"
NEVER_STARTED_REASON = "the executor ended before it started"
FORGOTTEN_REASON = "it ended and was reported; what was reported is no longer kept"


class Stage(Enum):
    """How far a run has come here."""

    UNKNOWN = auto()
    ACCEPTED = auto()
    STARTING = auto()
    FINISHED = auto()


@dataclass(slots=True)
class _Entry:
    boot_id: str
    is_reserved: bool = False
    starting_at_ms: int = 0
    line: bytes = b""


class Ledger:
    """Runs by id, backed by a journal. Used from one thread; `commit` makes changes durable."""

    def __init__(
        self,
        journal: Journal,
        log: structlog.typing.FilteringBoundLogger,
        *,
        growth_limit: int = GROWTH_LIMIT,
        results_limit: int = RESULTS_LIMIT,
    ) -> None:
        self._journal = journal
        self._log = log
        self._growth_limit = growth_limit
        self._results_limit = results_limit
        self._boots: dict[str, int] = {}
        self._boot_id = ""
        self._host_boot = ""
        self._entries: dict[int, _Entry] = {}
        self._results: dict[int, tuple[int, bytes]] = {}
        self._results_bytes = 0
        self._remembered = RememberedIds()
        self._horizon_ms = 0
        self._damaged_count = 0
        self._compact_at = journal.size + growth_limit
        self._load()

    # -- what is known ------------------------------------------------------------------------

    def stage(self, run_id: int) -> Stage:
        """Return how far a run has come."""
        entry = self._entries.get(run_id)
        if entry is None:
            done = run_id in self._results or run_id in self._remembered
            return Stage.FINISHED if done else Stage.UNKNOWN
        if entry.line:
            return Stage.FINISHED
        return Stage.STARTING if entry.starting_at_ms else Stage.ACCEPTED

    def report(self, run_id: int, boot_id: str) -> tuple[Final, int] | None:
        """Return what is to be reported of a finished run, and its size; None: not finished.

        Where only the id is remembered, the report says so, for `boot_id`, as outcome LOST.
        """
        entry = self._entries.get(run_id)
        line = entry.line if entry else self._results.get(run_id, (0, b""))[1]
        if line:
            return records.report_of(line), len(line)
        if entry is None and run_id in self._remembered:
            report = Finished(
                run_id=run_id,
                boot_id=boot_id,
                outcome=Outcome.LOST,
                message=FORGOTTEN_REASON,
                finished_at_ms=self._boots.get(boot_id, 0),
            )
            return report, len(records.line_of(report))
        return None

    def may_have_forgotten(self, boot_id: str, routed_at_ms: int) -> bool:
        """Whether a run given to that boot at that time may have been here and be unknown now."""
        return boot_id not in self._boots or routed_at_ms < self._horizon_ms

    def knows_boot(self, boot_id: str) -> bool:
        """Whether the journal goes back to that boot."""
        return boot_id in self._boots

    @property
    def remembers_since_ms(self) -> int:
        """The time before which runs may have been forgotten."""
        return max(self._horizon_ms, next(iter(self._boots.values()), 0))

    @property
    def has_uncommitted(self) -> bool:
        """Whether something was said that is not durable yet."""
        return self._journal.has_pending

    @property
    def is_due_for_compaction(self) -> bool:
        """Whether the journal has grown enough to be written anew."""
        return self._journal.size >= self._compact_at

    # -- what happens -------------------------------------------------------------------------

    def begin(self, boot_id: str, now_ms: int) -> list[tuple[Final, int]]:
        """Open a boot; return each report that the broker does not have yet, with its size.

        Raises:
            JournalFailed: nothing is durable; begin again later.

        """
        if self._damaged_count:
            self._horizon_ms = now_ms
        host_boot = linux.host_boot()
        is_complete = bool(host_boot) and host_boot == self._host_boot
        for run_id, entry in self._entries.items():
            if not entry.line:
                verdict = _verdict(run_id, entry, now_ms, is_complete=is_complete)
                entry.line = records.line_of(verdict)
        self._boots[boot_id] = now_ms
        self._boot_id, self._host_boot = boot_id, host_boot
        self.compact(now_ms)
        return [
            (records.report_of(entry.line), len(entry.line)) for entry in self._entries.values()
        ]

    def accept(self, run_id: int) -> None:
        """Note that a run of this boot was taken over."""
        self._entries[run_id] = _Entry(self._boot_id)
        self._journal.append(records.to_line(records.Accepted(run_id=run_id)))

    def reserve(self, run_ids: tuple[int, ...]) -> None:
        """Note that these runs are next: once this is committed their start needs no commit."""
        for run_id in run_ids:
            self._entries[run_id].is_reserved = True
        self._journal.append(records.to_line(records.Reserved(run_ids=run_ids)))

    def write(self) -> None:
        """Make what was said so far survive this process, though not the host.

        Raises:
            JournalFailed: it is kept for the next commit.

        """
        self._journal.write()

    def start(self, run_id: int, at_ms: int) -> None:
        """Note that a run's process is about to be started.

        Only once this is committed; for a run that was reserved, once it is written.
        """
        self._entries[run_id].starting_at_ms = at_ms
        self._journal.append(records.to_line(records.Starting(run_id=run_id, at_ms=at_ms)))

    def finish(self, report: Final) -> tuple[Final, int]:
        """Note the end of a run; return its report, made fit to travel, and the report's size."""
        try:
            line = records.line_of(report)
        except UnicodeEncodeError:
            report = records.without_surrogates(report)
            line = records.line_of(report)
        entry = self._entries.setdefault(report.run_id, _Entry(report.boot_id))
        entry.line = line
        self._journal.append(line)
        return report, len(line)

    def confirm(self, run_ids: tuple[int, ...], at_ms: int) -> None:
        """Note that the broker has the reports of these runs."""
        self._journal.append(records.to_line(records.Confirmed(run_ids=run_ids, at_ms=at_ms)))
        self._confirm(run_ids, at_ms)

    def commit(self) -> None:
        """Make everything said so far durable.

        Raises:
            JournalFailed: it is kept for the next commit.

        """
        self._journal.commit()

    def compact(self, now_ms: int) -> None:
        """Write the journal anew, without what need not be remembered any more.

        Raises:
            JournalFailed: the old journal stands.

        """
        horizon_ms = now_ms - MEMORY_MS
        for run_id in [run_id for run_id, (at, _) in self._results.items() if at < horizon_ms]:
            self._results_bytes -= len(self._results.pop(run_id)[1])
        self._horizon_ms = max(self._horizon_ms, self._remembered.forget_before(horizon_ms))
        for boot_id in list(islice(self._boots, max(0, len(self._boots) - BOOT_LIMIT))):
            del self._boots[boot_id]
        # Whether it succeeds or not, it is not tried again before the file has grown once more.
        self._compact_at = self._journal.size + self._growth_limit
        self._journal.rewrite(self._snapshot())
        self._compact_at = self._journal.size + self._growth_limit
        self._log.debug("journal_compacted", size=self._journal.size, open=len(self._entries))

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    # -- lines --------------------------------------------------------------------------------

    def _snapshot(self) -> Iterator[bytes]:
        if self._horizon_ms:
            yield records.to_line(records.Horizon(since_ms=self._horizon_ms))
        for boot_id, at_ms in self._boots.items():
            host_boot = self._host_boot if boot_id == self._boot_id else ""
            boot = records.Boot(boot_id=boot_id, at_ms=at_ms, host_boot=host_boot)
            yield records.to_line(boot)
        for block, bits, at_ms in self._remembered.blocks():
            remembered = records.Remembered(block=block, bits=f"{bits:x}", at_ms=at_ms)
            yield records.to_line(remembered)
        yield from (line for _, line in self._results.values())
        for at_ms, group in groupby(self._results.items(), key=lambda item: item[1][0]):
            run_ids = tuple(run_id for run_id, _ in group)
            yield records.to_line(records.Confirmed(run_ids=run_ids, at_ms=at_ms))
        for run_id, entry in self._entries.items():
            yield from _lines_of(run_id, entry)

    def _load(self) -> None:
        for number, line in enumerate(self._journal.read(), start=1):
            record = records.from_line(line)
            if record is None:
                self._damaged_count += 1
                self._log.error("journal_line_skipped", line=number, size=len(line))
            else:
                self._apply(record, line)

    def _apply(self, record: records.AnyRecord, line: bytes) -> None:
        match record:
            case records.Boot():
                self._boots[record.boot_id] = record.at_ms
                self._boot_id, self._host_boot = record.boot_id, record.host_boot
            case records.Accepted():
                self._entries.setdefault(record.run_id, _Entry(self._boot_id))
            case records.Reserved():
                for run_id in record.run_ids:
                    self._entries.setdefault(run_id, _Entry(self._boot_id)).is_reserved = True
            case records.Starting():
                entry = self._entries.setdefault(record.run_id, _Entry(self._boot_id))
                entry.starting_at_ms = record.at_ms
            case records.Ended():
                report = record.report
                self._entries.setdefault(report.run_id, _Entry(report.boot_id)).line = line
            case records.Confirmed():
                self._confirm(record.run_ids, record.at_ms)
            case records.Remembered():
                self._remembered.add_block(record.block, int(record.bits, 16), record.at_ms)
            case records.Horizon():
                self._horizon_ms = max(self._horizon_ms, record.since_ms)

    def _confirm(self, run_ids: tuple[int, ...], at_ms: int) -> None:
        for run_id in run_ids:
            self._remembered.add(run_id, at_ms)
            entry = self._entries.get(run_id)
            if entry is not None and entry.line:
                del self._entries[run_id]
                self._results[run_id] = (at_ms, entry.line)
                self._results_bytes += len(entry.line)
        while self._results_bytes > self._results_limit:
            _, line = self._results.pop(next(iter(self._results)))
            self._results_bytes -= len(line)


def _verdict(run_id: int, entry: _Entry, now_ms: int, *, is_complete: bool) -> Final:
    """Return the end of a run of an earlier boot; `is_complete`: nothing written was lost."""
    if not entry.starting_at_ms and (is_complete or not entry.is_reserved):
        return NotStarted(run_id=run_id, boot_id=entry.boot_id, reason=NEVER_STARTED_REASON)
    return Finished(
        run_id=run_id,
        boot_id=entry.boot_id,
        outcome=Outcome.LOST,
        message=LOST_REASON,
        started_at_ms=entry.starting_at_ms,
        finished_at_ms=now_ms,
    )


def _lines_of(run_id: int, entry: _Entry) -> Iterator[bytes]:
    if entry.line:
        yield entry.line
        return
    # Only a run of the current boot, whose BOOT is the last one above, can be without its end.
    yield records.to_line(records.Accepted(run_id=run_id))
    if entry.is_reserved:
        yield records.to_line(records.Reserved(run_ids=(run_id,)))
    if entry.starting_at_ms:
        yield records.to_line(records.Starting(run_id=run_id, at_ms=entry.starting_at_ms))
