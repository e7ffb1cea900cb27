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

Run ids are dense (they come in blocks from one counter), so bitmaps of 256 ids hold millions of
those that are CONFIRMED in a few megabytes; a set would need a hundred bytes each.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby, islice

import structlog

from warren.broker.messages import Called, Finished, NotStarted, Outcome, Trigger
from warren.broker.reasons import Why
from warren.broker.stored_reasons import to_json
from warren.executor.begin_notes import OldNotes
from warren.executor.errors import JournalFailed, NewerJournal
from warren.executor.fork_server import linux
from warren.executor.journal import file
from warren.executor.journal.file import Final, Journal

#: Ids in one bitmap.
BLOCK_SIZE = 256
#: The most bitmaps that are kept, about 300 bytes each; beyond that, the oldest are dropped early.
BLOCK_LIMIT = 100_000
#: Bytes by which the journal may grow before it is compacted.
GROWTH_LIMIT = 64_000_000


class FinishedIds:
    """A set of ids that drops old ones. Not thread-safe."""

    def __init__(self, limit: int = BLOCK_LIMIT) -> None:
        self._limit = limit
        self._bits: dict[int, int] = {}
        self._touched_at_ms: dict[int, int] = {}

    def __contains__(self, number: int) -> bool:
        block, bit = divmod(number, BLOCK_SIZE)
        return bool(self._bits.get(block, 0) >> bit & 1)

    def __len__(self) -> int:
        return sum(bits.bit_count() for bits in self._bits.values())

    def add(self, number: int, at_ms: int) -> None:
        """Add an id that finished at `at_ms`."""
        block, bit = divmod(number, BLOCK_SIZE)
        self.add_block(block, 1 << bit, at_ms)

    def add_block(self, block: int, bits: int, at_ms: int) -> None:
        """Add the ids of a block whose bits are set."""
        self._bits[block] = self._bits.get(block, 0) | bits
        self._touched_at_ms[block] = max(at_ms, self._touched_at_ms.get(block, 0))

    def remove(self, number: int) -> None:
        block, bit = divmod(number, BLOCK_SIZE)
        if number in self:
            self._bits[block] ^= 1 << bit

    def touched_at_ms(self, number: int) -> int:
        """Return when an id was last added to this id's block; 0 if none was."""
        return self._touched_at_ms.get(number // BLOCK_SIZE, 0)

    def blocks(self) -> Iterator[tuple[int, int, int]]:
        """Yield (block, bits, time of the last addition in ms) of each block."""
        for block, bits in self._bits.items():
            yield block, bits, self._touched_at_ms[block]

    def forget_before(self, at_ms: int) -> int:
        """Drop blocks older than `at_ms`; return the time before which ids may be missing.

        That is 0 if nothing was dropped, and later than `at_ms` if there were too many blocks.
        """
        touched = self._touched_at_ms
        old_blocks = [block for block, then in touched.items() if then < at_ms]
        horizon = at_ms if old_blocks else 0
        surplus = len(touched) - len(old_blocks) - self._limit
        if surplus > 0:
            oldest = sorted((then, block) for block, then in touched.items() if then >= at_ms)
            old_blocks += [block for _, block in oldest[:surplus]]
            horizon = oldest[surplus - 1][0] + 1
        for block in old_blocks:
            del self._bits[block], touched[block]
        return horizon


#: How long a run is kept after the broker has its report, in milliseconds.
MEMORY_MS = 3_600_000
#: How long a report may take from the broker to the database: a stuck scheduler holds it until the
#: broker redelivers it to another one.
SETTLED_MS = 600_000
#: Bytes of memory for reports, kept in case a scheduler asks for them again.
RESULTS_LIMIT = 8_000_000
#: The overhead of a kept line, in bytes: more than a typical line itself, so it has to be counted.
LINE_COST = 250


class FinishedRuns:
    """Finished runs by id, each with its FINISHED line if that is still kept. Not thread-safe."""

    def __init__(self, results_limit: int = RESULTS_LIMIT) -> None:
        self._results_limit = results_limit
        self._results: dict[int, tuple[int, bytes]] = {}
        self._results_bytes = 0
        self._ids = FinishedIds()

    def __contains__(self, run_id: int) -> bool:
        return run_id in self._results or run_id in self._ids

    def line(self, run_id: int) -> bytes:
        """Return the FINISHED line of a run; b"" if it is not kept."""
        return self._results.get(run_id, (0, b""))[1]

    def is_settled(self, run_id: int, now_ms: int) -> bool:
        """Whether a scheduler has had time to store a run's report, unless it was lost."""
        return run_id in self._ids and now_ms - self._ids.touched_at_ms(run_id) >= SETTLED_MS

    def add(self, run_id: int, at_ms: int, line: bytes) -> None:
        """Add a run, with its FINISHED line, or b"" if that is unknown."""
        self._ids.add(run_id, at_ms)
        if run_id in self._results:
            self._drop(run_id)
        if line:
            self._results[run_id] = (at_ms, line)
            self._results_bytes += len(line) + LINE_COST
        while self._results_bytes > self._results_limit or self._is_oldest_before(
            at_ms - MEMORY_MS
        ):
            self._drop(next(iter(self._results)))

    def drop(self, run_id: int) -> None:
        self._ids.remove(run_id)
        if run_id in self._results:
            self._drop(run_id)

    def ended_before(self, run_id: int, at_ms: int) -> bool:
        """Whether a run that is known by its id alone ended before this time."""
        return run_id in self._ids and self._ids.touched_at_ms(run_id) < at_ms

    def add_block(self, block: file.FinishedIdBlock) -> int:
        """Add the ids of a REMEMBERED line; return the highest."""
        bits = int(block.bits, 16)
        self._ids.add_block(block.block, bits, block.at_ms)
        return block.block * BLOCK_SIZE + bits.bit_length() - 1

    def forget(self, now_ms: int) -> int:
        """Drop what is older than an hour; return the time before which ids may be missing.

        That is 0 if nothing was dropped.
        """
        horizon_ms = now_ms - MEMORY_MS
        for run_id in [run_id for run_id, (at, _) in self._results.items() if at < horizon_ms]:
            self._drop(run_id)
        return self._ids.forget_before(horizon_ms)

    def lines(self) -> Iterator[bytes]:
        """Yield the journal lines that restore the finished runs."""
        for block, bits, at_ms in self._ids.blocks():
            remembered = file.FinishedIdBlock(block=block, bits=f"{bits:x}", at_ms=at_ms)
            yield file.to_line(remembered)
        yield from (line for _, line in self._results.values())
        for at_ms, group in groupby(self._results.items(), key=lambda item: item[1][0]):
            run_ids = tuple(run_id for run_id, _ in group)
            yield file.to_line(file.Confirmed(run_ids=run_ids, at_ms=at_ms))

    def _drop(self, run_id: int) -> None:
        _, line = self._results.pop(run_id)
        self._results_bytes -= len(line) + LINE_COST

    def _is_oldest_before(self, horizon_ms: int) -> bool:
        """Whether the first report is that old; if the clock was set back, some are kept longer."""
        first = next(iter(self._results), None)
        return first is not None and self._results[first][0] < horizon_ms


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
    starting: file.Starting | None = None
    line: bytes = b""

    def is_resumable(self, boot_id: str) -> bool:
        """Whether a process of this boot may continue it."""
        is_remote = self.starting is not None and self.starting.trigger is not None
        return is_remote and not self.line and self.boot_id == boot_id

    def verdict(self, now_ms: int, *, is_complete: bool, noted: frozenset[int] | None) -> Final:
        """Return the final report on a run that an earlier process left open.

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
        yield file.to_line(file.Accepted(run_id=self.run_id, identity=self.identity))
        if self.is_reserved:
            yield file.to_line(file.Reserved(run_ids=(self.run_id,)))
        if self.handed:
            yield file.to_line(file.HandedOver(run_ids=self.handed))
        if self.starting is not None:
            yield file.to_line(self.starting)


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
        repeated_id: the highest id that a second run came with; 0 = none.

    """

    def __init__(self, results_limit: int = RESULTS_LIMIT) -> None:
        self.boots: dict[str, int] = {}
        self.boot_id = ""
        self.host_boot = ""
        self.open_runs: dict[int, OpenRun] = {}
        self.calls: dict[file.CallKey, bytes] = {}
        self.finished = FinishedRuns(results_limit)
        self.horizon_ms = 0
        self.highest_id = 0
        self.repeated_id = 0

    def apply(self, record: file.AnyRecord, line: bytes) -> None:
        """Add a line of the journal."""
        if isinstance(record, file.Calling | file.CallsConfirmed):
            self._apply_call(record, line)
        else:
            self._apply_to_run(record, line)

    def _apply_call(self, record: file.Calling | file.CallsConfirmed, line: bytes) -> None:
        if isinstance(record, file.Calling):
            self.calls[record.report.run_id, record.report.number] = line
        else:
            self.confirm_calls(record.calls)

    def _apply_to_run(self, record: file.AnyRecord, line: bytes) -> None:
        match record:
            case file.Boot():
                self.boots[record.boot_id] = record.at_ms
                self.boot_id, self.host_boot = record.boot_id, record.host_boot
            case file.Accepted():
                self.accept(record.run_id, record.identity)
            case file.Reserved():
                self.mark_reserved(record.run_ids)
            case file.HandedOver():
                self.mark_handed(record.run_ids)
            case file.Starting():
                self.open_run(record.run_id, self.boot_id).starting = record
            case file.Ended():
                report = record.report
                self.open_run(report.run_id, report.boot_id).line = line
            case file.Confirmed():
                self.confirm(record.run_ids, record.at_ms)
            case file.FinishedIdBlock():
                self.highest_id = max(self.highest_id, self.finished.add_block(record))
            case file.Horizon():
                self.horizon_ms = max(self.horizon_ms, record.since_ms)

    def lines(self) -> Iterator[bytes]:
        """Yield the journal lines that restore these contents."""
        for boot_id, at_ms in self.boots.items():
            if boot_id != self.boot_id:
                yield file.to_line(file.Boot(boot_id=boot_id, at_ms=at_ms))
        yield from self.boot_lines()
        yield from self.finished.lines()
        yield from self.calls.values()
        for run in self.open_runs.values():
            yield from run.lines()

    def boot_lines(self) -> Iterator[bytes]:
        """Yield the lines that restore the last boot and the horizon."""
        if self.horizon_ms:
            yield file.to_line(file.Horizon(since_ms=self.horizon_ms))
        boot_id = self.boot_id
        if boot_id:
            at_ms, host_boot = self.boots[boot_id], self.host_boot
            boot = file.Boot(boot_id=boot_id, at_ms=at_ms, host_boot=host_boot, format=file.FORMAT)
            yield file.to_line(boot)

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
            if known is not None:
                self.displace(run_id)
            self.open_runs[run_id] = OpenRun(run_id, self.boot_id, identity)

    def identity_of(self, run_id: int) -> int | None:
        """Return the identity of a run; 0 if it is not known, None if the run is not."""
        entry = self.open_runs.get(run_id)
        line = self.finished.line(run_id) if entry is None else entry.line
        if line:
            return file.report_of(line).identity
        if entry is not None:
            return entry.identity
        return 0 if run_id in self.finished else None

    def displace(self, run_id: int) -> None:
        """Note that another run has this id now, and forget the local one if it has ended."""
        self.repeated_id = max(self.repeated_id, run_id)
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

    def confirm_calls(self, calls: Iterable[file.CallKey]) -> None:
        """Note that the broker has the reports of these calls."""
        for call in calls:
            self.calls.pop(call, None)

    def confirm(self, run_ids: tuple[int, ...], at_ms: int) -> None:
        """Note that the broker has the reports of these runs."""
        for run_id in run_ids:
            run = self.open_runs.get(run_id)
            # One that is over already was reported again.
            line = self.finished.line(run_id) if run is None else run.line
            if run is not None and line:
                del self.open_runs[run_id]
            self.finished.add(run_id, at_ms, line)


class Stage(Enum):
    """The stage of a run on this executor."""

    UNKNOWN = auto()
    ACCEPTED = auto()
    STARTING = auto()
    FINISHED = auto()


class RunStates:
    """The runs by id, backed by a journal. Used from one thread; `commit` makes changes durable.

    Raises:
        NewerJournal: a newer version wrote the journal, which is left as it is.

    """

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
        entry = self._contents.open_runs.get(run_id)
        if entry is None:
            return Stage.FINISHED if run_id in self._contents.finished else Stage.UNKNOWN
        if entry.line:
            return Stage.FINISHED
        return Stage.ACCEPTED if entry.starting is None else Stage.STARTING

    def is_another(self, trigger: Trigger) -> bool:
        """Whether a trigger's id belongs to another run here: the counter of ids went back.

        If only the id is kept, a run that is due after the known one ended is another.
        """
        known = self._contents.identity_of(trigger.run_id)
        if known == 0 and trigger.run_id not in self._contents.open_runs:
            return self._contents.finished.ended_before(trigger.run_id, trigger.due_at_ms)
        return bool(known) and known != trigger.identity

    def has_another(self, run_id: int, identity: int) -> bool:
        """Whether an id belongs to a run of another identity here."""
        known = self._contents.identity_of(run_id)
        return bool(known and identity) and known != identity

    def identity_of(self, run_id: int) -> int:
        """Return the identity of a run; 0 if it is not known."""
        return self._contents.identity_of(run_id) or 0

    def is_open(self, run_id: int) -> bool:
        """Whether a run has not ended, or the broker does not have its report yet."""
        return run_id in self._contents.open_runs

    def displace(self, run_id: int) -> None:
        """Note that another run has this id now, and forget the one that is here if it is over."""
        self._contents.displace(run_id)

    @property
    def highest_id(self) -> int:
        """The highest id of a run that was here."""
        return self._contents.highest_id

    @property
    def repeated_id(self) -> int:
        """The highest id that a second run came with; 0 = none."""
        return self._contents.repeated_id

    def report(self, run_id: int, boot_id: str, *, now_ms: int) -> tuple[Final, int] | None:
        """Return the report of a finished run and its size; None if the run is not finished.

        If only its id is kept, this is a report for `boot_id` with the outcome LOST; or None while
        the real one may still be on its way, because the first report that is stored counts.
        """
        entry = self._contents.open_runs.get(run_id)
        line = entry.line if entry else self._contents.finished.line(run_id)
        if line:
            return file.report_of(line), len(line)
        if entry is None and self._contents.finished.is_settled(run_id, now_ms):
            report = Finished(
                run_id=run_id,
                boot_id=boot_id,
                outcome=Outcome.LOST,
                message=str(Why.REPORT_FORGOTTEN()),
                why=to_json(Why.REPORT_FORGOTTEN()),
                finished_at_ms=self._contents.boots.get(boot_id, 0),
            )
            return report, len(file.line_of(report))
        return None

    def may_have_forgotten(self, boot_id: str, routed_at_ms: int) -> bool:
        """Whether a run sent to that boot at that time may have been here and been forgotten."""
        return boot_id not in self._contents.boots or routed_at_ms < self._contents.horizon_ms

    def knows_boot(self, boot_id: str) -> bool:
        """Whether the journal goes back to that boot."""
        return boot_id in self._contents.boots

    def resumable(self, boot_id: str) -> list[file.Starting]:
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
        # Boots that were adopted began before those that come first.
        return max(self._contents.horizon_ms, min(self._contents.boots.values(), default=0))

    @property
    def has_uncommitted(self) -> bool:
        """Whether there are changes that are not durable yet."""
        return self._journal.has_pending

    @property
    def is_due_for_compaction(self) -> bool:
        """Whether the journal has grown enough to be compacted."""
        return self._journal.size >= self._compact_at

    # -- changes ------------------------------------------------------------------------------

    def begin(
        self, boot_id: str, now_ms: int, *, since_ms: int | None = None
    ) -> list[tuple[Final | Called, int]]:
        """Begin a boot; return each report that the broker does not have yet, with its size.

        `since_ms`: since when runs may have been sent to it, if that is not now.

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
                entry.line = file.line_of(verdict)
                verdicts.append(entry.line)
        self._contents.begin_boot(boot_id, host_boot, now_ms if since_ms is None else since_ms)
        try:
            self.compact(now_ms)
        except JournalFailed as error:
            self._log.warning("journal_not_compacted", error=str(error))
            self._continue_old_file(verdicts)
        if self._notes is not None:
            self._notes.delete(but=boot_id)
        calls = [(file.call_of(line), len(line)) for line in self._contents.calls.values()]
        ends = [
            (file.report_of(entry.line), len(entry.line))
            for entry in self._contents.open_runs.values()
            if entry.line
        ]
        return [*calls, *ends]

    def adopt(
        self, journal: bytes, now_ms: int
    ) -> tuple[list[tuple[Final, int]], list[file.Starting]]:
        """Add the journal of an earlier boot of this address, which was kept elsewhere.

        Return the reports that the broker may not have, each with its size, and the starts of
        remote runs that have no result yet.

        Raises:
            NewerJournal: a newer version wrote it.

        """
        contents, known = self._contents, set(self._contents.open_runs)
        boot_id, host_boot = contents.boot_id, contents.host_boot
        lines = [(line, file.from_line(line)) for line in journal.split(b"\n")[:-1]]
        formats = [record.format for _, record in lines if isinstance(record, file.Boot)]
        if max(formats, default=0) > file.FORMAT:
            raise NewerJournal(f"expected a journal of up to format {file.FORMAT}, got a newer one")
        for line, record in lines:
            if record is None:
                contents.horizon_ms = now_ms
                self._log.error("journal_line_skipped", size=len(line))
            elif not (isinstance(record, file.Starting) and record.run_id in contents.finished):
                contents.apply(record, line)
                self._journal.append(line)
        contents.boot_id, contents.host_boot = boot_id, host_boot
        for line in contents.boot_lines():
            self._journal.append(line)
        added = [run for run_id, run in contents.open_runs.items() if run_id not in known]
        for run in added:
            if not run.line and not run.is_resumable(run.boot_id):
                # Whether the host that it was on has been down since is not known here.
                run.line = file.line_of(run.verdict(now_ms, is_complete=False, noted=None))
                self._journal.append(run.line)
        ends = [(file.report_of(run.line), len(run.line)) for run in added if run.line]
        return ends, [run.starting for run in added if run.starting and not run.line]

    def accept(self, run_id: int, identity: int = 0) -> None:
        """Record that a run was accepted by this boot."""
        self._contents.accept(run_id, identity)
        self._journal.append(file.to_line(file.Accepted(run_id=run_id, identity=identity)))

    def reserve(self, run_ids: tuple[int, ...]) -> None:
        """Record that these runs come next: once this is committed, their start needs no commit."""
        self._contents.mark_reserved(run_ids)
        self._journal.append(file.to_line(file.Reserved(run_ids=run_ids)))

    def hand_over(self, run_ids: tuple[int, ...]) -> None:
        """Record that one job process may get all of these runs; it may once this is written.

        All but the first need no `start`: what the process has begun is in its begin note.
        """
        self._contents.mark_handed(run_ids)
        self._journal.append(file.to_line(file.HandedOver(run_ids=run_ids)))

    def write(self) -> None:
        """Make the changes so far survive a crash of this process, but not of the host.

        Raises:
            JournalFailed: they are kept for the next commit.

        """
        self._journal.write()

    def start(self, starting: file.Starting) -> None:
        """Record that a run's process is about to start.

        Start it only once this is committed; for a reserved run, once it is written.
        """
        self._contents.open_runs[starting.run_id].starting = starting
        self._journal.append(file.to_line(starting))

    def finish(self, report: Final) -> tuple[Final, int]:
        """Record the end of a run; return the report, made encodable, and its size."""
        try:
            line = file.line_of(report)
        except UnicodeEncodeError:
            report = file.without_surrogates(report)
            line = file.line_of(report)
        entry = self._contents.open_run(report.run_id, report.boot_id)
        entry.line = line
        self._journal.append(line)
        return report, len(line)

    def call(self, report: Called) -> tuple[Called, int]:
        """Record that a run asks for another one; return the report, made encodable, and size."""
        line = file.line_of_call(report)
        self._contents.calls[report.run_id, report.number] = line
        self._journal.append(line)
        return file.call_of(line), len(line)

    def confirm_calls(self, calls: tuple[file.CallKey, ...]) -> None:
        """Record that the broker has the reports of these calls."""
        self._journal.append(file.to_line(file.CallsConfirmed(calls=calls)))
        self._contents.confirm_calls(calls)

    def confirm(self, run_ids: tuple[int, ...], at_ms: int) -> None:
        """Record that the broker has the reports of these runs."""
        self._journal.append(file.to_line(file.Confirmed(run_ids=run_ids, at_ms=at_ms)))
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
            record = file.from_line(line)
            if isinstance(record, file.Boot) and record.format > file.FORMAT:
                self._journal.close()
                raise NewerJournal(
                    f"cannot read {self._journal.path}: a newer Warren wrote it, in format "
                    f"{record.format}, and this one reads up to {file.FORMAT}; to go back, "
                    "drain that one first, then empty the folder"
                )
            if record is None:
                self._damaged_count += 1
                self._log.error("journal_line_skipped", line=number, size=len(line))
            else:
                self._contents.apply(record, line)

    def _noted(self, entry: OpenRun) -> frozenset[int] | None:
        """Return the runs that job processes of a run's boot began last; they then begin no others.

        None if the run was not handed over, or if that is not known.
        """
        if not entry.handed or self._notes is None:
            return None
        if entry.boot_id not in self._noted_of:
            self._noted_of[entry.boot_id] = self._notes.revoke(entry.boot_id)
        return self._noted_of[entry.boot_id]
