"""Ends runs and plans their follow-ups in one transaction.

Every final state is entered here, except that a change of schedule cancels planned runs itself.

    ends -> plain successes, moved at once -> the others, by their rows: who wins, final state,
    next attempts, alarms -> follow-ups of ticks that are over
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from sqlalchemy.orm import Session

from warren.broker.reasons.codes import Why
from warren.scheduler.alarms.events import NOBODY, AlarmTargets
from warren.scheduler.completion import follow_ups
from warren.scheduler.completion.end import End, with_plausible_instants
from warren.scheduler.completion.follow_ups import FollowUps, LastAttempt
from warren.scheduler.completion.plain_successes import PlainSuccess, end_plain, split
from warren.scheduler.completion.retry_policy import NO_FAILURE, is_withdrawn, next_attempt
from warren.scheduler.metrics.run_counts import Ended
from warren.scheduler.node_context import NodeContext
from warren.scheduler.problems import explanation
from warren.sql.ids import RunIds
from warren.sql.jobs import jobs
from warren.sql.jobs.jobs import JobToRun
from warren.sql.run_status import ENTERED_FROM, FINAL, RunStatus
from warren.sql.runs import planning, ticks, transitions
from warren.sql.runs.run_rows import LockedRun

log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class Tally:
    """The results of reported ends, as run ids; `planned` are new attempts and children's runs.

    `ignored` came too late, or a second time. `not_theirs` were reported by an executor to which
    they were not routed. `freed` counts those of `won` that were in flight, by app id and address.
    `ended` are those of `won` with what metrics count; to be counted after the commit.
    """

    won: dict[int, RunStatus] = field(default_factory=dict)
    ignored: list[int] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    not_theirs: set[int] = field(default_factory=set)
    planned: list[int] = field(default_factory=list)
    freed: Counter[tuple[int, str]] = field(default_factory=Counter)
    ended: list[Ended] = field(default_factory=list)


class Completion:
    """Ends runs for callbacks, dispatcher, rescuer and commands.

    Args:
        ids: gives the ids of new attempts and of children's runs.
        now_ms: the database's clock.
        alarm_defaults: targets of failure alarms, for jobs without their own.

    """

    def __init__(
        self, ids: RunIds, now_ms: Callable[[], int], alarm_defaults: AlarmTargets = NOBODY
    ) -> None:
        self._ids = ids
        self._now_ms = now_ms
        self._alarm_defaults = alarm_defaults
        self._follow_ups = FollowUps(ids, now_ms)

    def end(self, session: Session, ends: Sequence[End]) -> Tally:
        """End runs in the caller's transaction; the first final state wins.

        Losing is normal. The result of a run that was given up as LOST is stored as its late
        status.
        """
        plain, others = split(ends, self._now_ms())
        won, planned = end_plain(session, plain, self._follow_ups)
        winners = {one.end.run_id for one in won}
        others += [one.end for one in plain if one.end.run_id not in winners]
        tally = self._end_rows(session, others) if others else Tally()
        tally.won |= {one.end.run_id: one.end.status for one in won}
        tally.freed.update((one.sent_to.app_id, one.sent_to.address) for one in won)
        tally.ended += [_ended_plainly(one) for one in won]
        tally.planned += planned
        return tally

    def _end_rows(self, session: Session, ends: Sequence[End]) -> Tally:
        """Lock and read the rows of runs, then end them."""
        tally, now_ms = Tally(), self._now_ms()
        rows = {row.id: row for row in transitions.lock(session, {end.run_id for end in ends})}
        winners: dict[int, End] = {}
        late: dict[int, RunStatus] = {}
        for end in ends:
            row = rows.get(end.run_id)
            if row is None:
                tally.unknown.add(end.run_id)
            elif not _is_from_its_executor(row, end):
                tally.not_theirs.add(end.run_id)
            elif end.run_id not in winners and _may_enter(row, end):
                reported = with_plausible_instants(end, routed_at=row.routed_at, now_ms=now_ms)
                winners[end.run_id] = _as_killed(row, reported)
            else:
                tally.ignored.append(end.run_id)
                if _is_late(row, end):
                    late.setdefault(end.run_id, end.status)
        _note_late(session, late)
        tally.won = {run_id: end.status for run_id, end in winners.items()}
        tally.freed = Counter(
            (row.app_id, row.address)
            for row in map(rows.__getitem__, winners)
            if row.address is not None
        )
        if winners:
            states = [_final_state(rows[run_id], end) for run_id, end in winners.items()]
            transitions.end(session, states)
            tally.ended = [_ended(rows[state.run_id], state) for state in states]
            tally.planned = self._follow(session, rows, winners)
        return tally

    def _follow(
        self, session: Session, rows: dict[int, LockedRun], winners: dict[int, End]
    ) -> list[int]:
        unwanted = [rows[run_id] for run_id, end in winners.items() if end.status in NO_FAILURE]
        failures = ticks.failures_before(session, unwanted) if unwanted else {}
        unsuccessful = [end for end in winners.values() if end.status is not RunStatus.SUCCEEDED]
        job_ids = {rows[end.run_id].job_id for end in unsuccessful}
        known = jobs.for_runs(session, job_ids) if job_ids else {}
        attempts = self._next_attempts(rows, unsuccessful, known, failures)
        planned = planning.plan(session, list(attempts.values()), self._ids)
        last = [(rows[run_id], end) for run_id, end in winners.items() if run_id not in attempts]
        alarming = [
            (row, end) for row, end in last if not is_withdrawn(row, known.get(row.job_id), end)
        ]
        follow_ups.keep(session, alarming, failures, self._alarm_defaults, now_ms=self._now_ms())
        last_attempts = [LastAttempt(row, end.status, end.finished_at) for row, end in last]
        # Last: the row of a new attempt, written by now, keeps its tick open.
        return planned + self._follow_ups.follow(session, last_attempts)

    def _next_attempts(
        self,
        rows: dict[int, LockedRun],
        unsuccessful: Sequence[End],
        known: Mapping[int, JobToRun],
        failures: Collection[int],
    ) -> dict[int, planning.NewRun]:
        now_ms = self._now_ms()
        attempts: dict[int, planning.NewRun] = {}
        for end in unsuccessful:
            row, has_failed = rows[end.run_id], end.run_id in failures
            job = known.get(row.job_id)
            attempt = next_attempt(row, job, end, now_ms=now_ms, has_failed=has_failed)
            if attempt is not None:
                attempts[end.run_id] = attempt
        return attempts


def _is_late(row: LockedRun, end: End) -> bool:
    """Whether this is the result of a run that was given up as LOST."""
    is_result = end.status is not RunStatus.LOST and not end.never_started
    return row.status == RunStatus.LOST and is_result


def _note_late(session: Session, results: Mapping[int, RunStatus]) -> None:
    for run_id in sorted(transitions.note_late(session, results)) if results else ():
        log.warning("result_came_late", run_id=run_id, status=results[run_id].value)


def _is_from_its_executor(row: LockedRun, end: End) -> bool:
    return end.sent_to in (None, (row.app_id, row.address, row.boot_id))


def _may_enter(row: LockedRun, end: End) -> bool:
    if row.status in FINAL or row.status not in ENTERED_FROM[end.status]:
        return False
    if end.only_from is not None and row.status != end.only_from:
        return False
    return end.routed_at is None or row.routed_at == end.routed_at


def _as_killed(row: LockedRun, end: End) -> End:
    """Return the end of a run that never started and was killed before it could."""
    if not end.never_started or row.kill_requested_at is None or row.status == RunStatus.PLANNED:
        return end
    return End(
        run_id=end.run_id,
        status=RunStatus.KILLED,
        message=Why.KILLED_BEFORE_START(why=end.message),
        finished_at=end.finished_at,
        never_started=True,
    )


def _final_state(row: LockedRun, end: End) -> transitions.FinalState:
    return transitions.FinalState(
        run_id=end.run_id,
        status=end.status,
        message=explanation(end.message),
        finished_at=end.finished_at,
        started_at=end.started_at or row.started_at,
        log_tail=end.log_tail,
    )


def _ended(row: LockedRun, state: transitions.FinalState) -> Ended:
    return Ended(
        row.app_id, row.job_id, state.status, row.due_at, state.started_at, state.finished_at
    )


def _ended_plainly(one: PlainSuccess) -> Ended:
    success = one.success
    return Ended(
        one.sent_to.app_id,
        success.job_id,
        RunStatus.SUCCEEDED,
        one.end.due_at,
        success.started_at,
        success.finished_at,
    )


class RunEnder:
    """Ends runs for the roles of one scheduler, each time in a transaction of its own.

    Code that already has a transaction calls `Completion.end` in it. `on_ended`, if any, gets the
    ended runs after the commit.
    """

    def __init__(
        self,
        context: NodeContext,
        completion: Completion,
        on_ended: Callable[[Collection[int]], None] | None = None,
    ) -> None:
        self._context = context
        self._completion = completion
        self._on_ended = on_ended

    def end(self, ends: Sequence[End], *, first: Callable[[Session], None] | None = None) -> Tally:
        """Call `first` and end runs in one transaction; return the tally."""
        if not ends and first is None:
            return Tally()

        def unit(session: Session) -> Tally:
            if first is not None:
                first(session)
            return self._completion.end(session, ends) if ends else Tally()

        tally = self._context.write_runs(unit, has_planned=lambda tally: tally.planned)
        self._context.metrics.add(tally.ended)
        if self._on_ended is not None:
            self._on_ended(tally.won.keys())
        return tally
