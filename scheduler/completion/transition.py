"""The step of completion that enters final states: the first final state of a run wins.

Most ends report the success of a run that is the only one of its tick. One guarded UPDATE completes
all of an executor's, without reading their rows. Runs that it does not change, and all other ends,
are judged by their rows.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog
from sqlalchemy.orm import Session

from warren.broker.messages import cut_message
from warren.broker.reasons import Why
from warren.scheduler.completion.end import (
    AHEAD_MS,
    EARLY_MS,
    End,
    is_of,
    ms_ahead,
    with_plausible_instants,
)
from warren.scheduler.problems import explanation
from warren.sql.limits import holds
from warren.sql.run_status import ENTERED_FROM, FINAL, NEVER_STARTED, RunStatus
from warren.sql.runs import successes, transitions
from warren.sql.runs.run_rows import LockedRun
from warren.sql.runs.successes import SentTo, Success
from warren.sql.runs.transitions import FinalState

log = structlog.get_logger()


class SimpleSuccess(NamedTuple):
    """A success that can be written without reading its row, and the boot that reported it."""

    end: End
    sent_to: SentTo
    success: Success


class Won(NamedTuple):
    """An end that won, and the run's row as it was before."""

    row: LockedRun
    end: End


@dataclass(slots=True, kw_only=True)
class Judged:
    """Ends by their rows: those that won, and why the others, as run ids, did not.

    `ignored` came too late, or a second time. `not_theirs` were reported by an executor to which
    they were not routed. `others` are of other runs that had these ids. `unstarted` are LOST runs
    whose executor says for the first time that they never started.
    """

    won: list[Won] = field(default_factory=list)
    ignored: list[int] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    not_theirs: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)
    unstarted: list[Won] = field(default_factory=list)


def complete_simple_successes(
    session: Session, ends: Sequence[End], now_ms: int
) -> tuple[list[SimpleSuccess], list[End]]:
    """Complete simple successes of open runs; return them, and the ends that need their row."""
    times = Counter(end.run_id for end in ends)
    by_executor: dict[SentTo, list[Success]] = defaultdict(list)
    simple: dict[int, SimpleSuccess] = {}
    for end in ends:
        if times[end.run_id] == 1 and (success := _simple_success(end, now_ms)) is not None:
            simple[end.run_id] = success
            by_executor[success.sent_to].append(success.success)
    if not simple:
        return [], list(ends)
    moved = successes.succeed_open(session, by_executor)
    won = [item for run_id, item in simple.items() if run_id in moved]
    return won, [end for end in ends if end.run_id not in moved]


def complete_by_row(session: Session, ends: Sequence[End], now_ms: int) -> Judged:
    """Lock and read the rows of runs, then end those that may end this way.

    What its executor says later of a run that was given up as LOST is stored as its late status.
    """
    judged = Judged()
    if not ends:
        return judged
    rows = {row.id: row for row in transitions.lock(session, {end.run_id for end in ends})}
    won: dict[int, Won] = {}
    late: dict[int, tuple[str, Won]] = {}
    for end in ends:
        row = rows.get(end.run_id)
        if row is None:
            judged.unknown.add(end.run_id)
        elif not _is_from_its_executor(row, end):
            judged.not_theirs.add(end.run_id)
        elif not is_of(end, row):
            judged.others.add(end.run_id)
        elif end.run_id not in won and _may_enter(row, end):
            plausible = with_plausible_instants(end, routed_at=row.routed_at, now_ms=now_ms)
            won[end.run_id] = Won(row, _as_killed(row, plausible))
        else:
            judged.ignored.append(end.run_id)
            if (status := _late_status(row, end)) is not None:
                late.setdefault(end.run_id, (status, Won(row, end)))
    first = _note_late(session, {run_id: status for run_id, (status, _) in late.items()})
    judged.unstarted = [
        told for status, told in late.values() if status == NEVER_STARTED and told.row.id in first
    ]
    judged.won = list(won.values())
    if won:
        transitions.end(session, [_final_state(ended.row, ended.end) for ended in judged.won])
        if holding := [ended.row.id for ended in judged.won if ended.row.holds]:
            holds.give_back(session, holding)
    return judged


def _simple_success(end: End, now_ms: int) -> SimpleSuccess | None:
    """Return the success of a whole tick that needs no row to be judged; else None.

    Times within a day are accepted, whenever the run was routed.
    """
    if (
        end.status is not RunStatus.SUCCEEDED
        or end.sent_to is None
        or end.alone_of_job is None
        or end.started_at is None
        or end.due_at is None
        or not isinstance(end.message, str)
    ):
        return None
    earliest_ms, latest_ms = now_ms - EARLY_MS, now_ms + AHEAD_MS
    instants = (end.started_at, end.finished_at, end.due_at)
    if not all(earliest_ms <= at <= latest_ms for at in instants):
        return None
    ahead_ms = ms_ahead(end, now_ms)
    success = Success(
        run_id=end.run_id,
        job_id=end.alone_of_job,
        due_at=end.due_at,
        message=cut_message(end.message),
        started_at=end.started_at - ahead_ms,
        finished_at=end.finished_at - ahead_ms,
        log_tail=end.log_tail or "",
        result=end.result,
    )
    return SimpleSuccess(end, end.sent_to, success)


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


def _final_state(row: LockedRun, end: End) -> FinalState:
    return FinalState(
        run_id=end.run_id,
        status=end.status,
        message=explanation(end.message),
        finished_at=end.finished_at,
        started_at=end.started_at or row.started_at,
        log_tail=end.log_tail,
        result=end.result,
    )


def _late_status(row: LockedRun, end: End) -> str | None:
    """Return what an end says of a run that was given up as LOST; None if nothing.

    That it never started is believed only of its executor, and only if it never said otherwise.
    """
    if row.status != RunStatus.LOST or end.status is RunStatus.LOST:
        return None
    if not end.never_started:
        return end.status.value
    is_proof = end.sent_to is not None and end.routed_at in (None, row.routed_at)
    return NEVER_STARTED if is_proof and row.started_at is None else None


def _note_late(session: Session, reports: Mapping[int, str]) -> set[int]:
    """Store late statuses; return the runs that had none before."""
    first = transitions.note_late(session, reports) if reports else set()
    for run_id in sorted(first):
        log.warning("result_came_late", run_id=run_id, status=reports[run_id])
    return first
