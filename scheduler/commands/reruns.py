"""Re-runs: which runs can run again, and the runs that repeat them.

A re-run has the due time, parameter and script version of the run that it repeats. It has an
origin of its own, one for all shards of a due time that are repeated together. A run that failed
because it had no parameter or date gets them now.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from sqlalchemy.orm import Session

from warren.broker.reasons import Reason, Why
from warren.broker.stored_reasons import from_json
from warren.scheduler.completion.flow_runs import FlowRuns
from warren.scheduler.flows.judge import FlowPart
from warren.scheduler.jobs.new_run import (
    app_names_for,
    calendars_for_runs,
    check_made,
    run_of,
)
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.working_days import NO_CALENDARS, Calendars
from warren.sql.jobs import job_links, job_rows
from warren.sql.listings import job_search
from warren.sql.models import Job
from warren.sql.run_status import FAILURES, OPEN, Kind, RunStatus
from warren.sql.runs import flow_nodes, reruns, transitions
from warren.sql.runs.planned_runs import NewRun
from warren.sql.runs.reruns import DueTime, NodeKey, due_time_of
from warren.sql.runs.run_rows import LockedRun


class Outcome(StrEnum):
    """The outcome for one job or run."""

    DONE = "DONE"
    #: The same form has done it before, or a later attempt of the same shard was chosen.
    REPEATED = "REPEATED"
    #: The run, or a later one for its due time, is still open, so it cannot run again.
    OPEN = "OPEN"
    #: It failed, and a later attempt or re-run for its due time succeeded.
    RECOVERED = "RECOVERED"
    #: Its version of the script is no longer kept.
    VERSION_GONE = "VERSION_GONE"
    #: Nothing to do: the run has ended, or the job is already started or stopped.
    NOTHING = "NOTHING"
    #: The run's job was deleted.
    JOB_GONE = "JOB_GONE"
    #: It does not exist, or the actor may not see it.
    UNKNOWN = "UNKNOWN"
    #: Refused; `Part.problems` has the reason.
    REFUSED = "REFUSED"


Counts = Counter[Outcome]


@dataclass(frozen=True, slots=True)
class Part:
    """The outcomes of some of the jobs or runs, and the reasons for refusals.

    `cancelled` is how many planned runs of the jobs were cancelled.
    """

    counts: Counts
    problems: tuple[Problem, ...] = ()
    cancelled: int = 0


class Repeatable(Protocol):
    """A run, with what decides whether it can run again."""

    @property
    def id(self) -> int: ...
    @property
    def job_id(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def scheduled_at(self) -> int: ...
    @property
    def origin_id(self) -> int: ...
    @property
    def shard_index(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def script_version(self) -> int | None: ...


R = TypeVar("R", bound=Repeatable)

#: Why a run has no param or date.
_NOT_MADE = frozenset({Why.PARAM_NOT_MADE, Why.RUN_DATE_UNKNOWN, Why.NODE_NOT_BEGUN})


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunOptions:
    """How runs are repeated.

    Attributes:
        current: with the job's current handler, param and script, not those of the run.
        children: whether children run after success; None = yes, but it is a problem if they have
            already run for the due time.
        failed: of a flow, only what failed or was stopped, and what runs after it.
        from_node: of a flow, only this node and what runs after it.
        only_node: of a flow, only this node.
        newest: of the runs of each job, only those of the newest due time.

    """

    current: bool = False
    children: bool | None = None
    failed: bool = False
    from_node: str = ""
    only_node: str = ""
    newest: bool = False

    @property
    def part(self) -> FlowPart | None:
        """What is repeated of a flow; None = all of it.

        Raises:
            Problem: several parts are asked for.

        """
        asked = {
            FlowPart.FAILED: self.failed,
            FlowPart.FROM: self.from_node,
            FlowPart.ONLY: self.only_node,
        }
        parts = [part for part, is_asked in asked.items() if is_asked]
        if len(parts) > 1:
            raise Problem(Code.RERUN_PARTS, parts[1].value)
        return parts[0] if parts else None


class Shard(NamedTuple):
    """A shard of a due time, or of one of a flow's node; at most one run of it is repeated."""

    job_id: int
    scheduled_at: int
    shard_index: int
    node: NodeKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known about runs: what came later, their jobs, and which script versions are kept.

    `not_made` are those whose param or date could not be made, with the reason.
    """

    later: Mapping[int, dict[int, RunStatus]]
    jobs: Mapping[int, Job]
    versions: Collection[int]
    not_made: Mapping[int, Reason]

    @classmethod
    def read(cls, session: Session, runs: Sequence[Repeatable]) -> "Known":
        """Read what is known about these runs."""
        versions = {run.script_version for run in runs if run.script_version is not None}
        failed = [run.id for run in runs if run.status == RunStatus.FAILED]
        reasons = {
            run_id: from_json(said.why)
            for run_id, said in reruns.not_begun(session, failed).items()
        }
        return cls(
            later=reruns.later(session, [run.id for run in runs]),
            jobs=job_rows.by_ids(session, {run.job_id for run in runs}),
            versions=reruns.kept_versions(session, versions),
            not_made={
                run_id: why for run_id, why in reasons.items() if why and why.code in _NOT_MADE
            },
        )

    def newest_status(self, run: Repeatable) -> RunStatus:
        """Return the status of the newest run for a run's shard and due time."""
        later = self.later.get(run.id, {})
        return next(reversed(later.values()), RunStatus(run.status))

    def never_began(self, run_id: int) -> bool:
        """Whether a run is of a node that could not begin: only its flow can repeat it."""
        why = self.not_made.get(run_id)
        return why is not None and why.code is Why.NODE_NOT_BEGUN

    def open_run(self, run: Repeatable) -> tuple[int, RunStatus] | None:
        """Return a later run for the same shard that has not ended, with its status."""
        later = self.later.get(run.id, {})
        return next(((run_id, status) for run_id, status in later.items() if status in OPEN), None)


def newest_chosen(session: Session, runs: Collection[R]) -> dict[Shard, R]:
    """Return the newest of the runs for each shard of each due time, the earliest times first."""
    chosen: dict[Shard, R] = {}
    nodes = reruns.nodes_of(session, [run.id for run in runs])
    in_order = sorted(
        runs,
        key=lambda run: (
            run.scheduled_at,
            run.job_id,
            run.shard_index,
            run.origin_id,
            run.attempt,
        ),
    )
    for run in in_order:
        shard = Shard(run.job_id, run.scheduled_at, run.shard_index, nodes.get(run.id))
        chosen[shard] = run
    return chosen


def of_newest_times(runs: Iterable[R]) -> list[R]:
    """Return of the runs of each job those of its newest due time among them."""
    listed = list(runs)
    newest: dict[int, int] = {}
    for run in listed:
        newest[run.job_id] = max(run.scheduled_at, newest.get(run.job_id, 0))
    return [run for run in listed if run.scheduled_at == newest[run.job_id]]


def outcome_of(run: Repeatable, known: Known) -> Outcome:
    """Return the outcome for one of several runs to repeat: DONE, or why it is left out.

    A failure after which the same shard of its due time succeeded is left out, as recovered.
    """
    newest = known.newest_status(run)
    if run.status in OPEN or newest in OPEN:
        return Outcome.OPEN
    if run.job_id not in known.jobs:
        return Outcome.JOB_GONE
    if run.status in FAILURES and newest is RunStatus.SUCCEEDED:
        return Outcome.RECOVERED
    if run.script_version is not None and run.script_version not in known.versions:
        return Outcome.VERSION_GONE
    if known.never_began(run.id):
        return Outcome.REFUSED
    return Outcome.DONE


def check(run: Repeatable, known: Known, options: RerunOptions) -> None:
    """Refuse a run that cannot run again.

    Raises:
        Problem: it or a later one is open, or its job or its version of the script is gone.

    """
    if run.status in OPEN:
        raise Problem(Code.RERUN_OPEN, id=run.id, status=run.status)
    if (underway := known.open_run(run)) is not None:
        other, status = underway
        raise Problem(Code.RERUN_UNDERWAY, id=run.id, other=other, status=status.value)
    if run.job_id not in known.jobs:
        raise Problem(Code.RERUN_JOB_GONE, id=run.id)
    is_kept = run.script_version is None or run.script_version in known.versions
    if not is_kept and not options.current:
        raise Problem(Code.RERUN_VERSION_GONE, id=run.id)


def check_children(session: Session, runs: Sequence[Repeatable]) -> None:
    """Refuse runs for whose due times children have already run.

    Raises:
        Problem: children have run for the due time of one of them.

    """
    ran = children_that_ran(session, runs)
    for run in runs:
        if children := ran.get(due_time_of(run)):
            names = job_search.names(session, children, None).values()
            raise Problem(Code.RERUN_CHILDREN, id=run.id, children=", ".join(names))


def lock(session: Session, run_ids: Sequence[int]) -> list[LockedRun]:
    """Lock runs and the later runs of their shards, so that none is repeated twice; return them.

    Their jobs are locked as well, so that no backfill runs their due times meanwhile.
    """
    runs = transitions.lock(session, run_ids)
    job_rows.lock_rows(session, {run.job_id for run in runs})
    later = reruns.later(session, [run.id for run in runs])
    transitions.lock(session, set().union(*later.values()))
    return runs


def keep_nodes(
    session: Session, flows: FlowRuns, run: LockedRun, new: NewRun, options: RerunOptions
) -> None:
    """Store the nodes that a repetition keeps of a flow's run, if it repeats only a part of it.

    Raises:
        Problem: the run is not a flow's, it has no such node, or nothing of it has failed.

    """
    part = options.part
    if part is None:
        return
    node = options.from_node or options.only_node
    graph = flows.graph(session, new.script_version)
    if graph is None or not flow_nodes.has_any(session, run.id):
        raise Problem(Code.RERUN_NO_FLOW, id=run.id)
    if node and node not in graph.nodes:
        listed = ", ".join(list(graph.nodes)[:20])
        raise Problem(Code.RERUN_NO_NODE, node=node[:100], known=listed)
    assert new.run_id is not None
    again = flows.keep_for(
        session, run, new.run_id, part=part, node=node, version=new.script_version
    )
    if not again:
        raise Problem(Code.RERUN_NOTHING_FAILED, id=run.id)


def repeat(
    session: Session,
    run: LockedRun,
    known: Known,
    *,
    run_id: int,
    now_ms: int,
    zone: str,
    current: bool = False,
) -> NewRun:
    """Return the run that repeats a run, in an origin of its own, with children.

    Args:
        session: reads what a new param is made of.
        run: the run that is repeated.
        known: what is known of it.
        run_id: of the new run.
        now_ms: when it is due.
        zone: of jobs that name none.
        current: whether it has the settings of the job. A run without a param gets them in any
            case.

    Raises:
        Problem: the template of the job's param has no value for this run, or it is of a node that
            could not begin.

    """
    job = known.jobs[run.job_id]
    why = known.not_made.get(run.id)
    if known.never_began(run.id):
        raise Problem(Code.PARAM_NOT_MADE, why=str(why))
    if current or why is not None:
        again = _again(
            run,
            job,
            run_id=run_id,
            now_ms=now_ms,
            zone=job.timezone or zone,
            app=app_names_for(session, [job]).get(job.app_id, ""),
            calendars=calendars_for_runs(session, [job]),
        )
        check_made(again)
        # A run that was imported has no date, and neither have those that repeat it.
        return again if why is not None else replace(again, run_date=run.run_date)
    return replace(
        # What it would make of the job is replaced.
        _again(run, job, run_id=run_id, now_ms=now_ms, zone="UTC", app="", calendars=NO_CALENDARS),
        run_date=run.run_date,
        handler=run.handler or "",
        param=run.param or "",
        fault=None,
        script_version=run.script_version,
        wanted_addresses=run.wanted_addresses,
    )


def _again(
    run: LockedRun,
    job: Job,
    *,
    run_id: int,
    now_ms: int,
    zone: str,
    app: str,
    calendars: Calendars,
) -> NewRun:
    usual = run_of(
        job,
        kind=Kind.RERUN,
        scheduled_at=run.scheduled_at,
        due_at=now_ms,
        zone=zone,
        app=app,
        run_date=run.run_date,
        calendars=calendars,
    )
    return replace(
        usual,
        run_id=run_id,
        origin_id=run_id,
        rerun_of=run.id,
        backfill_id=run.backfill_id,
        shard_index=run.shard_index,
        shard_total=run.shard_total,
    )


def children_that_ran(
    session: Session, runs: Iterable[Repeatable]
) -> Mapping[DueTime, Collection[int]]:
    """Return the children that have already run for the due times of these runs."""
    times = {due_time_of(run) for run in runs}
    children = job_links.children(session, {time.job_id for time in times})
    return reruns.children_that_ran(session, times, children) if children else {}


def with_origins(
    session: Session, runs: Collection[NewRun], quiet: Collection[DueTime]
) -> list[NewRun]:
    """Return re-runs, in the order of their due times, with one origin for the shards of each.

    Re-runs for due times in `quiet` start no children.
    """
    nodes = reruns.nodes_of(session, [run.rerun_of for run in runs if run.rerun_of is not None])
    origins: dict[tuple[DueTime, NodeKey | None], int | None] = {}
    return [
        replace(
            run,
            origin_id=origins.setdefault((time, nodes.get(run.rerun_of or 0)), run.run_id),
            without_children=time in quiet,
        )
        for run in runs
        for time in [due_time_of(run)]
    ]
