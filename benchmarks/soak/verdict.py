"""Judges a soak by its rows and the book of starts: pure, so that it can be tested."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.soak.book import Start
from benchmarks.soak.flows import FlowRun, mistakes
from benchmarks.soak.shares import Exceeded
from warren.sql.run_status import FINAL, RunStatus

_NEVER_STARTED = {RunStatus.UNDELIVERED, RunStatus.CANCELLED, RunStatus.REFUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run, as its row says; `is_scheduled`: its tick is one of a schedule.

    `node`: the row of the flow's node that it belongs to. `is_flow`: it is the run of a flow.
    `was_routed`: it was sent to an executor. `was_unstarted`: it is LOST, and was told later to
    have never started. `why` is the code of the reason why it ended.
    """

    run: int
    job: int
    tick: int
    due: int
    shard: int = 0
    attempt: int = 0
    is_scheduled: bool = True
    is_backfill: bool = False
    is_flow: bool = False
    node: int = 0
    status: RunStatus = RunStatus.SUCCEEDED
    was_routed: bool = True
    was_unstarted: bool = False
    why: str = ""
    finished: int | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """Ticks of a job that were skipped, the last one included."""

    job: int
    first: int
    last: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Calendar:
    """A job's due times, by arithmetic and not by Warren: the multiples of `period_ms`."""

    job: int
    period_ms: int
    since_ms: int
    until_ms: int

    def ticks(self) -> Iterator[int]:
        """Yield each due time from `since_ms` until before `until_ms`."""
        first = -(-self.since_ms // self.period_ms) * self.period_ms
        yield from range(first, self.until_ms, self.period_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a soak left; `memory` are samples in time of the bytes of each long-lived process.

    `filled` are the due times that backfills had to run once, `exceeded` what jobs that share a
    limit or a backfill told of others. `uncalled` are runs for gateways that called no executor for
    them. `unshipped` are runs of which a failover lost what the old primary knew: that such a one
    starts again, or another for its due time, or holds a limit that nobody knows of, is counted
    apart.
    `untold` are such failovers that Warren has not told of.
    """

    rows: Sequence[Row]
    starts: Sequence[Start]
    skips: Sequence[Skip] = ()
    calendars: Sequence[Calendar] = ()
    filled: Sequence[Calendar] = ()
    flows: Sequence[FlowRun] = ()
    exceeded: Sequence[Exceeded] = ()
    audit_lost: int = 0
    audit_doubled: int = 0
    orphans: Sequence[str] = ()
    uncalled: Collection[int] = ()
    unshipped: Collection[int] = ()
    untold: int = 0
    memory: Sequence[float] = ()


@dataclass(slots=True)
class Verdict:
    """The counts, and a line for each fault found.

    `given_up` counts the LOST runs by their reason and by whether they are known to have never
    started; those of gateways that called no executor for them are told apart.
    """

    ticks: int
    runs: int
    skipped: int
    flows: int
    filled: int
    unshipped: int
    repeated: int
    overrun: int
    late_p99_ms: float
    rss_growth_percent: float
    wrong: dict[str, list[str]] = field(default_factory=dict)
    given_up: Counter[str] = field(default_factory=Counter)

    @property
    def is_clean(self) -> bool:
        """Whether everything that must be zero is zero."""
        return not any(self.wrong.values())

    def __str__(self) -> str:
        zeros = " ".join(f"{name}={len(found)}" for name, found in self.wrong.items())
        return (
            f"ticks={self.ticks} runs={self.runs} skipped={self.skipped} flows={self.flows} "
            f"filled={self.filled} {zeros}{self._of_failovers()} "
            f"late_p99_ms={self.late_p99_ms:.0f} rss_growth_percent={self.rss_growth_percent:.1f}"
        )

    def _of_failovers(self) -> str:
        """Return what failovers lost, if there were any that lose."""
        if not self.unshipped:
            return ""
        return f" unshipped={self.unshipped} repeated={self.repeated} overrun={self.overrun}"


def judge(evidence: Evidence) -> Verdict:
    """Return the verdict."""
    rows = {row.run: row for row in evidence.rows}
    unknown = [one for one in evidence.exceeded if one.holders & set(evidence.unshipped)]
    return Verdict(
        ticks=len({(row.job, row.tick) for row in evidence.rows if row.is_scheduled}),
        runs=len(rows),
        skipped=sum(skip.count for skip in evidence.skips),
        flows=len(evidence.flows),
        filled=sum(row.is_backfill for row in evidence.rows),
        unshipped=len(set(evidence.unshipped)),
        repeated=len({one.run for one in evidence.starts} & set(evidence.unshipped)),
        overrun=len(unknown),
        late_p99_ms=_late_p99_ms(evidence.starts, rows),
        rss_growth_percent=_growth_percent(evidence.memory),
        given_up=_losses(evidence),
        wrong={
            "lost": [
                *_lost(evidence, rows),
                *_unfilled(evidence),
                *_of_flows("lost", evidence),
                *_lost_uncalled(evidence),
                *["a failover lost commits, and `warren audit` names no epoch"] * evidence.untold,
                *_of_audit(evidence.audit_lost),
            ],
            "doubled": [
                *_doubled(evidence, rows),
                *_of_flows("doubled", evidence),
                *_of_audit(evidence.audit_doubled),
            ],
            "started_twice": list(_started_twice(evidence, rows)),
            "stuck": [str(row) for row in evidence.rows if row.status not in FINAL],
            "orphans": list(evidence.orphans),
            "exceeded": [str(one) for one in evidence.exceeded if one not in unknown],
        },
    )


def _losses(evidence: Evidence) -> Counter[str]:
    losses: Counter[str] = Counter()
    for row in evidence.rows:
        if row.status == RunStatus.LOST:
            gateways = ", at a gateway" if row.run in evidence.uncalled else ""
            losses[row.why + (f", never started{gateways}" if row.was_unstarted else gateways)] += 1
    return losses


def _lost(evidence: Evidence, rows: dict[int, Row]) -> Iterator[str]:
    """Yield due times without a row or a skip, or that were never sent; and successes unstarted."""
    skips = defaultdict(list)
    for skip in evidence.skips:
        skips[skip.job].append((skip.first, skip.last))
    known = {(row.job, row.tick) for row in evidence.rows if row.is_scheduled}
    for calendar in evidence.calendars:
        for tick in calendar.ticks():
            is_skipped = any(first <= tick <= last for first, last in skips[calendar.job])
            if (calendar.job, tick) not in known and not is_skipped:
                yield f"job {calendar.job} has neither run nor skip for {tick}"
    for row in _last_attempts(rows.values()):
        if row.status == RunStatus.UNDELIVERED and row.was_routed:
            yield f"no attempt got to an executor: {row}"
    started = {(one.run, one.job, one.tick, one.shard) for one in evidence.starts}
    for row in rows.values():
        is_known = row.is_flow or (row.run, row.job, row.tick, row.shard) in started
        if row.status == RunStatus.SUCCEEDED and not is_known:
            yield f"no start of a run that succeeded: {row}"


def _lost_uncalled(evidence: Evidence) -> Iterator[str]:
    """Yield LOST runs that no executor was called for, unless another attempt followed."""
    last = {row.run for row in _last_attempts(evidence.rows)}
    for row in evidence.rows:
        is_repeated = row.was_unstarted and row.run not in last
        if row.status == RunStatus.LOST and row.run in evidence.uncalled and not is_repeated:
            yield f"LOST, and no executor was called: {row}"


def _last_attempts(rows: Iterable[Row]) -> Iterable[Row]:
    """Return the last row of each shard of the ticks of schedules."""
    last: dict[tuple[int, int, int], Row] = {}
    for row in sorted(rows, key=lambda one: one.attempt):
        if row.is_scheduled:
            last[row.job, row.tick, row.shard] = row
    return last.values()


def _unfilled(evidence: Evidence) -> Iterator[str]:
    """Yield due times that a backfill left out."""
    ran = {(row.job, row.tick) for row in evidence.rows if row.is_backfill}
    for calendar in evidence.filled:
        for tick in calendar.ticks():
            if (calendar.job, tick) not in ran:
                yield f"job {calendar.job} has no run of its backfill for {tick}"


def _of_flows(kind: str, evidence: Evidence) -> Iterator[str]:
    return (what for found, what in mistakes(evidence.flows) if found == kind)


def _doubled(evidence: Evidence, rows: dict[int, Row]) -> Iterator[str]:
    """Yield ticks with two runs, by the rows or by the book; each attempt counts for itself."""
    fired: Counter[tuple[int, ...]] = Counter(
        (row.job, row.tick, row.shard, row.attempt, row.node)
        for row in rows.values()
        if _fires_once(row)
    )
    begun = {
        (start.run, start.job, start.tick, start.shard, start.attempt, _node(rows, start))
        for start in evidence.starts
        if start.run not in rows or _fires_once(rows[start.run])
        if start.run not in evidence.unshipped
    }
    fired |= Counter(one[1:] for one in begun)
    for (job, tick, shard, attempt, _node_id), count in fired.items():
        if count > 1:
            yield f"job {job} fired {count} times for {tick}, shard {shard}, attempt {attempt}"


def _fires_once(row: Row) -> bool:
    is_cancelled = row.status == RunStatus.CANCELLED
    return row.is_scheduled or row.node > 0 or (row.is_backfill and not is_cancelled)


def _node(rows: dict[int, Row], start: Start) -> int:
    return rows[start.run].node if start.run in rows else 0


def _started_twice(evidence: Evidence, rows: dict[int, Row]) -> Iterator[str]:
    """Yield runs that started again, or that started although their rows say otherwise."""
    starts = [one for one in evidence.starts if one.run not in evidence.unshipped]
    for run, count in Counter(start.run for start in starts).items():
        row = rows.get(run)
        if count > 1:
            yield f"started {count} times: run {run}, {row}"
        if row is None:
            yield f"started without a row: run {run}"
        elif row.status in _NEVER_STARTED:
            yield f"started, and counts as never started: {row}"
    for start in evidence.starts:
        row = rows.get(start.run)
        if row and (row.job, row.tick, row.shard) != (start.job, start.tick, start.shard):
            yield f"started as another run than its row says: {start}, {row}"


def _of_audit(count: int) -> list[str]:
    return ["by `warren audit`"] * count


def _late_p99_ms(starts: Sequence[Start], rows: dict[int, Row]) -> float:
    """Return how late the first attempts of schedules' runs were started."""
    late = sorted(
        start.at - row.due
        for start in starts
        if (row := rows.get(start.run)) and row.is_scheduled and row.attempt == 0
    )
    return late[math.ceil(len(late) * 0.99) - 1] if late else 0.0


def _growth_percent(memory: Sequence[float]) -> float:
    """Return by how much the last quarter of the samples is above the third, by their means."""
    quarter = len(memory) // 4
    if not quarter:
        return 0.0
    third, last = sum(memory[-2 * quarter : -quarter]), sum(memory[-quarter:])
    return 100.0 * (last - third) / third
