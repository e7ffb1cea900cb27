"""Audits runs that depend on others, or that a flow or a backfill has planned.

Those of others are the shards of a tick, runs of child jobs, and fixed delays. A child's run counts
as missing only if the parent already had this child when its tick ended; which children a parent
had earlier is not recorded.

The ticks of a fixed delay depend on when runs end, so they cannot be recomputed. The first tick
after a start is known. Each later tick is at least the delay after the one before, whose runs have
all ended by then. The watermark is always a tick that was run or skipped.

A run may start late because its executor was full or absent. What counts against a job's late limit
is how long no scheduler could send it, or its app was paused: if that is over the limit and the
policy is to skip such runs, it must not start at all.

The stored outcomes of flows are judged again: the engine's own judge gets the outcome of each node
that its edges let run. Which nodes run, which are bypassed and how the flow ends must match what is
stored.

Each due time of a backfill's range is planned, left out, or still to come:

    the range, computed again = runs + left out + beyond the cursor

A run that was deleted, doubled or moved by hand breaks this. So do a run of a backfill that does
not exist, and a due time that two backfills ran as missing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import groupby, pairwise

from sqlalchemy.orm import Session

from warren.broker.reasons import Reason, Why
from warren.scheduler.audit.tally import JobTally, Tallies
from warren.scheduler.backfills.kept_schedule import (
    DueTimes,
    KeptSchedule,
    ranks_from_text,
    spans_from_json,
)
from warren.scheduler.completion.end import tick_end
from warren.scheduler.flows.graph import Graph, Node, stored_graph
from warren.scheduler.flows.judge import Outcome, judge
from warren.scheduler.membership.uptime import due_times
from warren.scheduler.problems import Refused
from warren.scheduler.schedules.misfire import SKIPPING
from warren.sql.batch import chunks
from warren.sql.instants import epoch_ms
from warren.sql.jobs import due_jobs, job_links, script_versions
from warren.sql.models import Backfill, History
from warren.sql.models.job_tables import LATE_LIMIT_SECONDS, Selection
from warren.sql.registry.uptimes import Downtime
from warren.sql.run_status import FINAL, FINE, RunStatus
from warren.sql.runs import backfills, flow_nodes, tick_rows, ticks
from warren.sql.runs.flow_nodes import KEPT, NodeState
from warren.sql.runs.run_rows import RunFacts, TickRun
from warren.sql.runs.tick_rows import AuditedJob, JobRange, TickRow
from warren.sql.runs.ticks import Tick, tick_of


@dataclass(frozen=True, slots=True)
class LateStartRule:
    """The spans in which nothing could be sent, for a job that skips runs delayed by them.

    `changes` are the job's, in order: the limit that was in force at the decision counts.
    """

    downtimes: Sequence[Downtime] = ()
    changes: Sequence[History] = ()

    @staticmethod
    def of(
        policy: str, downtimes: Sequence[Downtime], changes: Sequence[History]
    ) -> "LateStartRule":
        """Return the rule for a policy; a policy that makes up for missed runs forbids nothing."""
        return LateStartRule(downtimes if policy in SKIPPING else (), changes)

    def forbids(self, row: TickRow) -> bool:
        """Whether the run started late although it should have been skipped."""
        if row.late_due_at is None:
            return False
        limit_ms = self._limit_ms(row.decided_at)
        each = (span for downtime in self.downtimes for span in due_times([downtime]))
        return any(
            span.from_ms <= row.late_due_at < span.over_ms - limit_ms
            and row.routed_at >= span.over_ms
            for span in (*each, *due_times(self.downtimes))
        )

    def _limit_ms(self, at_ms: int) -> int:
        """Return the limit in force at an instant; before the first change, the first one.

        A record of the end of a schedule has none.
        """
        known = [limit for limit in self.changes if limit.late_limit]
        before = [limit.late_limit for limit in known if limit.changed_at <= at_ms]
        first = known[0].late_limit if known else LATE_LIMIT_SECONDS
        return 1_000 * (before[-1] if before else first)


#: The longest time from a transaction's first read to its commit.
MAX_TRANSACTION_MS = 30_000
#: Children of one parent that are audited together; its ticks are read once for all of them.
CHILDREN_LIMIT = 100


@dataclass(frozen=True, slots=True)
class _Link:
    """A parent, its child, and the parent's runs that had started the child at the first read."""

    parent: str
    child: JobTally
    first_read: set[int]


@dataclass(slots=True)
class _FirstRuns:
    """Ids of the first runs of a parent's ticks, with their due times.

    For one of each group in `required` each child must have a run; for those in `forbidden` no
    child may have one.
    """

    required: dict[tuple[int, ...], int]
    forbidden: dict[int, int]


def audit_shards(
    session: Session, tallies: Tallies, bounds: tuple[int, int], jobs: JobRange
) -> None:
    """Find ticks with fewer or more shards than they were split into."""
    broken = tick_rows.broken_shards(session, jobs, after_ms=bounds[0], until_ms=bounds[1])
    for job_id, tick, shards, total in broken:
        job = tallies.of(job_id)
        if job is None or tick <= tick_rows.purged_until(session, job_id):
            continue
        why = Why.SHARDS_MISCOUNTED(rows=shards, total=total)
        if shards < total:
            job.add_lost(tick, why)
        else:
            job.add_doubled(tick, why)


def audit_children(session: Session, tallies: Tallies, bounds: tuple[int, int]) -> None:
    """Find successful ticks that lack a child's run, and children's runs of other ticks."""
    children_of = job_links.children(session, job_links.with_children(session))
    for parent in tick_rows.jobs_by_ids(session, children_of):
        existing = filter(tallies.exists, children_of[parent.id])
        for child_ids in chunks(existing, CHILDREN_LIMIT):
            children = [child for child in map(tallies.of, child_ids) if child is not None]
            _audit_parent(session, parent, children, bounds)


def _audit_parent(
    session: Session,
    parent: AuditedJob,
    children: Sequence[JobTally],
    bounds: tuple[int, int],
) -> None:
    # It has had these children since its last change at the latest.
    if not children or parent.update_time is None:
        return
    since_ms = epoch_ms(parent.update_time) + MAX_TRANSACTION_MS
    # One transaction writes the parent's end and the child's run. So whichever of the two an
    # earlier read has shown, a later read must show the other.
    links = [
        _Link(parent.name, child, tick_rows.child_origins(session, child.job_id, bounds))
        for child in children
    ]
    first_runs = _first_runs(session, parent.id, bounds, since_ms)
    for link in links:
        _audit_link(session, link, first_runs, bounds)


def _audit_link(
    session: Session, link: _Link, first_runs: _FirstRuns, bounds: tuple[int, int]
) -> None:
    child, required, forbidden = link.child, first_runs.required, first_runs.forbidden
    for run_id in sorted(link.first_read & forbidden.keys()):
        child.add_doubled(forbidden[run_id], Why.PARENT_UNSUCCESSFUL(path=link.parent))
    missing = {heads for heads in required if link.first_read.isdisjoint(heads)}
    if not missing:
        return
    second_read = tick_rows.child_origins(session, child.job_id, bounds)
    purged_until = tick_rows.purged_until(session, child.job_id)
    for heads in sorted(missing):
        if second_read.isdisjoint(heads) and required[heads] > purged_until:
            child.add_lost(required[heads], Why.PARENT_SUCCEEDED(path=link.parent))


def _first_runs(
    session: Session, parent_id: int, bounds: tuple[int, int], since_ms: int
) -> _FirstRuns:
    first_runs = _FirstRuns({}, {})
    rows = tick_rows.attempts(session, parent_id, after_ms=bounds[0], until_ms=bounds[1])
    for scheduled_at, runs_of_time in groupby(rows, lambda run: run.scheduled_at):
        runs = list(runs_of_time)
        repeats = [run for run in runs if run.rerun_of is not None]
        own = [run for run in runs if run.rerun_of is None]
        for tick, runs_of_tick in groupby(own, tick_of):
            _judge(tick, list(runs_of_tick), first_runs, since_ms, is_repeated=bool(repeats))
        if repeats and (heads := _heads_of_reruns(runs, since_ms)):
            first_runs.required[heads] = scheduled_at
    return first_runs


def _judge(
    tick: Tick, runs: list[TickRun], first_runs: _FirstRuns, since_ms: int, *, is_repeated: bool
) -> None:
    """Note whether the children of a tick must have run, ignoring its re-runs."""
    first, end = runs[0], tick_end(tick, runs)
    if (first.shard_index, first.attempt) != (0, 0):
        return
    if end is None or not end.succeeded:
        if not is_repeated:
            first_runs.forbidden[first.id] = tick.scheduled_at
    # Of several shards, one that ran again may have ended after the others.
    elif first.without_children:
        first_runs.forbidden[first.id] = tick.scheduled_at
    elif end.finished_at > since_ms and not (is_repeated and first.shard_total > 1):
        first_runs.required[first.id,] = tick.scheduled_at


def _heads_of_reruns(runs: list[TickRun], since_ms: int) -> tuple[int, ...]:
    """Return first runs, one of which must have started children; empty if no re-run had to."""
    runs.sort(key=lambda run: (run.shard_index, run.origin_id, run.attempt))
    newest = {run.shard_index: run for run in runs}.values()
    end = tick_end(tick_of(runs[-1]), runs)
    if end is None or not end.succeeded or end.finished_at <= since_ms:
        return ()
    last_end = max(run.finished_at or 0 for run in newest)
    if all(run.without_children for run in newest if run.finished_at == last_end):
        return ()
    heads = {run.id for run in runs if (run.shard_index, run.attempt) == (0, 0)}
    return tuple(sorted(heads | {run.origin_id for run in runs if run.rerun_of is not None}))


@dataclass(frozen=True, slots=True)
class DelaySpan:
    """A time in which a job was enabled with one delay: ticks in (`after_ms`, `until_ms`].

    `anchor_ms` is the first tick. `last_ms` is the watermark at the end; None = not checked.
    """

    delay_ms: int
    anchor_ms: int
    after_ms: int
    until_ms: int
    last_ms: int | None
    late_starts: LateStartRule


def audit_delays(session: Session, span: DelaySpan, job: JobTally) -> None:
    """Count a span's ticks, and find those that break the rules for fixed delays."""
    # Before the rows: a tick that is skipped meanwhile must not count as fired too.
    skips = [
        skip.from_at
        for skip in tick_rows.skips(session, job.job_id)
        if span.after_ms < skip.from_at <= span.until_ms
    ]
    bounds = {"after_ms": span.after_ms, "until_ms": span.until_ms}
    ticks = tick_rows.delayed_ticks(session, job.job_id, **bounds)
    # A tick that was planned and then skipped has a cancelled row and a skip.
    skipped = set(skips)
    ended = [
        (row, ended_at)
        for row, ended_at in ticks
        if row.status != RunStatus.CANCELLED or row.scheduled_at not in skipped
    ]
    rows = [row for row, _ in ended]
    _count(job, rows, skips)
    for row in rows:
        if span.late_starts.forbids(row):
            job.add_late(row.scheduled_at)
    known = {row.scheduled_at for row in rows} | set(skips)
    purged_until = tick_rows.purged_until(session, job.job_id)
    for tick in sorted(_expected(span) - known):
        job.due += 1
        if tick <= purged_until:
            job.purged += 1
        else:
            job.add_lost(tick)
    decided = [(row.scheduled_at, ended_at) for row, ended_at in ended]
    _check_distances(span, job, [*((tick, 0) for tick in skips), *decided])


def audit_waiting(session: Session, tallies: Tallies) -> None:
    """Find jobs that wait for the end of a tick although none is open: they would wait forever.

    Watermarks are read before and after: if one has risen, its job planned a tick meanwhile and is
    not stuck.
    """
    before = due_jobs.watermarks(session)
    at_work = tick_rows.busy_jobs(session)
    after = due_jobs.watermarks(session)
    for job_id in sorted(before.keys() - at_work):
        if after.get(job_id) == before[job_id] and (job := tallies.of(job_id)):
            job.add_lost(before[job_id], Why.NOTHING_SETS_NEXT())


def _count(job: JobTally, rows: Sequence[TickRow], skips: Sequence[int]) -> None:
    cancelled = sum(row.status == RunStatus.CANCELLED for row in rows)
    job.due += len(rows) + len(skips)
    job.cancelled += cancelled
    job.fired += len(rows) - cancelled
    job.skipped += len(skips)


def _expected(span: DelaySpan) -> set[int]:
    """Return the ticks that must have been run or skipped: the first, and the watermark."""
    return {
        tick
        for tick in (span.anchor_ms, span.last_ms)
        if tick is not None and span.after_ms < tick <= span.until_ms
    }


def _check_distances(
    span: DelaySpan, job: JobTally, decided: Iterable[tuple[int, int | None]]
) -> None:
    """Find ticks too soon after the one before; each comes with its end, None while it is open."""
    in_order = sorted(decided, key=lambda each: each[0])
    for (last_tick, last_end), (tick, _) in pairwise(in_order):
        if tick - last_tick < span.delay_ms:
            job.add_doubled(tick, Why.TOO_NEAR())
        elif last_end is None or last_end > tick:
            job.add_doubled(tick, Why.TICK_BEFORE_OPEN())


#: Runs of flows that are read together.
FLOWS_AT_ONCE = 50
#: Ends of a flow that its nodes do not decide.
_STOPPED = frozenset({RunStatus.KILLED, RunStatus.TIMED_OUT, RunStatus.LOST})


def audit_flows(session: Session, tallies: Tallies, bounds: tuple[int, int]) -> None:
    """Find nodes that are missing, superfluous, or at odds with the judge or their runs."""
    for flow_id in sorted(job_links.all_flows(session)):
        job = tallies.of(flow_id)
        if job is None:
            continue
        ended = flow_nodes.opened(session, flow_id, after_ms=bounds[0], until_ms=bounds[1])
        for part in chunks(ended, FLOWS_AT_ONCE):
            for run, faults in _audited(session, part):
                for is_lost, why in faults:
                    add = job.add_lost if is_lost else job.add_doubled
                    add(run.scheduled_at, why)


#: A fault: whether something is missing, else something is too many; and why.
_Found = tuple[bool, Reason]


def _audited(session: Session, runs: Sequence[RunFacts]) -> Iterator[tuple[RunFacts, list[_Found]]]:
    nodes = flow_nodes.of_flows(session, [run.id for run in runs])
    versions = {run.script_version for run in runs if run.script_version}
    sources = script_versions.sources(session, versions)
    begun = {
        Tick(state.job_id, run.scheduled_at, state.id)
        for run in runs
        for state in nodes.get(run.id, ())
        if state.begun_at is not None and state.outcome not in (None, KEPT)
    }
    of_nodes = ticks.own_attempts(session, begun)
    purged = tick_rows.purged_until_by_job(session, {tick.job_id for tick in begun})
    for run in runs:
        try:
            graph = stored_graph(sources.get(run.script_version or 0, ("", ""))[1])
        except Refused:
            continue  # its version is no longer kept
        states = {state.node: state for state in nodes.get(run.id, ())}
        faults = [*_of_rows(graph, states), *_of_judge(run, graph, states)]
        for state in states.values():
            tick = Tick(state.job_id, run.scheduled_at, state.id)
            if tick in begun and run.scheduled_at > purged.get(state.job_id, 0):
                faults += _of_runs(state, of_nodes.get(tick, ()))
        yield run, faults


def _of_rows(graph: Graph, states: Mapping[str, NodeState]) -> Iterator[_Found]:
    """Yield nodes without a row, and rows without a node."""
    for name in graph.nodes:
        if name not in states:
            yield True, Why.NODE_MISSING(node=name)
    for name in states:
        if name not in graph.nodes:
            yield False, Why.NODE_UNKNOWN(node=name)


def _of_judge(run: RunFacts, graph: Graph, states: Mapping[str, NodeState]) -> Iterator[_Found]:
    """Yield what the judge says otherwise than the rows."""
    if graph.nodes.keys() - states.keys():
        return
    is_stopped = run.status in _STOPPED or run.kill_requested_at is not None

    def begin(node: Node) -> Outcome | None:
        outcome = states[node.name].real_outcome
        return Outcome(outcome) if outcome else None

    kept = {
        name: Outcome(state.real_outcome)
        for name, state in states.items()
        if state.outcome == KEPT and state.real_outcome
    }
    forced = {name for name, state in states.items() if state.is_forced}
    verdict = judge(graph, kept, begin, forced=forced)
    for name in graph.nodes:
        state = states[name]
        if name in kept:
            continue
        stored = state.outcome or ("RUNNING" if state.begun_at is not None else "WAITING")
        if name in verdict.bypassed:
            is_as_judged = stored == Outcome.BYPASSED and state.begun_at is None
            due = Outcome.BYPASSED.value
        else:
            is_decided = name in verdict.at_once or name in verdict.fire
            was_let = stored != Outcome.BYPASSED or bool(graph.nodes[name].condition)
            is_as_judged = was_let if is_decided else stored in ("WAITING", Outcome.BYPASSED)
            due = "RUNNING" if is_decided else "WAITING"
        if run.status in FINAL and state.outcome is None:
            yield True, Why.NODE_MOVED(node=name, stored=stored, due="over")
        elif not is_as_judged and not (is_stopped and stored == Outcome.BYPASSED):
            yield stored == "WAITING", Why.NODE_MOVED(node=name, stored=stored, due=due)
    end = verdict.end
    if end is not None and run.status not in _STOPPED and run.status != end.outcome.value:
        yield True, Why.FLOW_OTHER(stored=run.status, due=end.outcome.value)


def _of_runs(state: NodeState, runs: Sequence[TickRun]) -> Iterator[_Found]:
    """Yield ended nodes whose runs contradict their rows."""
    first = {run.shard_index for run in runs if run.attempt == 0}
    least = state.shards or 1  # of a broadcast, it is not known
    if len(first) < least:
        why = Why.NODE_RUNS(node=state.node, rows=len(first), total=least)
        yield True, why
        return
    end = tick_end(Tick(state.job_id, runs[0].scheduled_at, state.id), runs) if runs else None
    if end is None:
        return
    status = end.status if end.status in FINE else RunStatus.FAILED
    if status.value != state.outcome:
        yield False, Why.NODE_OTHER(node=state.node, stored=state.outcome or "", due=status.value)


def audit_backfills(
    session: Session, tallies: Tallies, bounds: tuple[int, int], job_id: int | None = None
) -> None:
    """Find faults in the due times in (after, until] of all backfills, or of one job's."""
    as_missing: dict[tuple[int, int], list[int]] = defaultdict(list)
    for backfill in backfills.of_jobs(session, job_id):
        if (job := tallies.of(backfill.job_id)) is not None:
            # Read after the backfill, so that it has at least those up to the cursor.
            runs = backfills.first_runs(session, job.job_id, backfill.id)
            _compare(session, backfill, runs, job, bounds)
            for run in runs if _is_of_missing(backfill) else ():
                if run.status != RunStatus.CANCELLED and _is_in(run.scheduled_at, bounds):
                    as_missing[run.job_id, run.scheduled_at].append(backfill.id)
    for (of_job, tick), ids in as_missing.items():
        if len(ids) > 1 and (job := tallies.of(of_job)) is not None:
            job.add_doubled(tick, Why.BACKFILLS_DOUBLED(id=ids[0], other=ids[1]))


def _is_of_missing(backfill: Backfill) -> bool:
    """Whether a backfill ran only due times for which nothing had run.

    Version 0.1.0 did not look at runs of dates that began after the backfill was made.
    """
    kept = KeptSchedule.from_json(backfill.schedule)
    return backfill.selection == Selection.MISSING and not kept.is_of_dates


def audit_strays(
    session: Session, tallies: Tallies, bounds: tuple[int, int], jobs: JobRange
) -> None:
    """Find runs of backfills that do not exist."""
    for run in backfills.strays(session, jobs, after_ms=bounds[0], until_ms=bounds[1]):
        if (job := tallies.of(run.job_id)) is not None:
            job.add_doubled(run.scheduled_at, Why.BACKFILL_UNKNOWN(id=run.origin_id))


def _compare(
    session: Session,
    backfill: Backfill,
    runs: Sequence[RunFacts],
    job: JobTally,
    bounds: tuple[int, int],
) -> None:
    session.expunge(backfill)
    ranks = _ranks(session, backfill)
    if len(ranks) != backfill.ticks:
        why = Why.BACKFILL_MISCOUNTED(id=backfill.id, got=backfill.ticks, n=len(ranks))
        job.add_lost(backfill.cursor_at or 0, why)
    rows = {run.scheduled_at for run in runs}
    purged_until = backfills.purged_until(session, backfill)
    for tick in sorted(_planned(backfill, ranks) - rows):
        if tick > purged_until and _is_in(tick, bounds):
            job.add_lost(tick, Why.BACKFILL_LOST(id=backfill.id))
    strays = rows - _planned(backfill, ranks)
    for tick in sorted(_still_strays(session, backfill, ranks, strays)):
        if _is_in(tick, bounds):
            job.add_doubled(tick, Why.BACKFILL_STRAY(id=backfill.id))


def _still_strays(
    session: Session, backfill: Backfill, ranks: Mapping[int, int], strays: AbstractSet[int]
) -> AbstractSet[int]:
    """Return those that are still strays, as the backfill's cursor may have moved."""
    if not strays:
        return strays
    return strays - _planned(backfills.read(session, backfill.id) or backfill, ranks)


def _ranks(session: Session, backfill: Backfill) -> dict[int, int]:
    kept = KeptSchedule.load(session, backfill.schedule)
    spans = spans_from_json(backfill.spans)
    due = DueTimes(kept, spans, newest_first=bool(backfill.newest_first))
    return {tick: rank for rank, tick in enumerate(due.all())}


def _planned(backfill: Backfill, ranks: Mapping[int, int]) -> AbstractSet[int]:
    """Return the due times that must have a run."""
    left_out = set(ranks_from_text(backfill.left_out))
    return {t for t, rank in ranks.items() if rank < backfill.decided and rank not in left_out}


def _is_in(tick: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] < tick <= bounds[1]
