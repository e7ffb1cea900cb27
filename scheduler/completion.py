"""The one way into a final state (R6): the row's end and what follows it, in one transaction."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from sqlalchemy.orm import Session

from broker.messages import MESSAGE_LIMIT
from scheduler.aftermath import End, next_attempt
from scheduler.alarms import marks as alarm_marks
from scheduler.alarms.policy import NOBODY, AlarmTargets
from scheduler.succession import Ending, Succession
from sql import jobs, runs
from sql.ids import RunIds
from sql.rows import AnyRow
from sql.run_status import ENTERED_FROM, FINAL, RunStatus

log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class Tally:
    """What became of reported ends, as ids of runs; `planned` are new attempts and children's runs.

    `lost` came too late, or a second time. `strange` were reported by somebody whom they were not
    routed to. `freed` counts those of `won` that were in flight, by app id and address.
    """

    won: dict[int, RunStatus] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    strange: set[int] = field(default_factory=set)
    planned: list[int] = field(default_factory=list)
    freed: Counter[tuple[int, str]] = field(default_factory=Counter)


class Completion:
    """Ends runs, for callbacks, dispatcher, rescuer and commands alike.

    Args:
        ids: where the ids of new attempts and of children's runs come from.
        now_ms: the database's clock.
        alarm_defaults: who is told of failures of jobs that name nobody.

    """

    def __init__(
        self, ids: RunIds, now_ms: Callable[[], int], alarm_defaults: AlarmTargets = NOBODY
    ) -> None:
        self._ids = ids
        self._now_ms = now_ms
        self._alarm_defaults = alarm_defaults
        self._succession = Succession(ids, now_ms)

    def end(self, session: Session, ends: Sequence[End]) -> Tally:
        """End runs in the caller's transaction; the first final state wins.

        Losing is normal. A result for a run that was given up as LOST is kept as its late status.
        """
        tally = Tally()
        rows = {row.id: row for row in runs.lock(session, {end.run_id for end in ends})}
        winners: dict[int, End] = {}
        for end in ends:
            row = rows.get(end.run_id)
            if row is None:
                tally.unknown.add(end.run_id)
            elif not _is_from_its_executor(row, end):
                tally.strange.add(end.run_id)
            elif end.run_id not in winners and _may_enter(row, end):
                winners[end.run_id] = _as_killed(row, end)
            else:
                self._lose(session, row, end, tally)
        tally.won = {run_id: end.status for run_id, end in winners.items()}
        tally.freed = Counter(
            (rows[run_id].job_group, rows[run_id].executor_address)
            for run_id in winners
            if rows[run_id].executor_address is not None
        )
        if winners:
            runs.end(session, [_ended(rows[run_id], end) for run_id, end in winners.items()])
            tally.planned = self._follow(session, rows, winners)
        return tally

    def _follow(
        self, session: Session, rows: dict[int, AnyRow], winners: dict[int, End]
    ) -> list[int]:
        attempts = self._next_attempts(session, rows, winners)
        planned = runs.plan(session, list(attempts.values()), self._ids)
        endings = [
            Ending(rows[run_id], end.status, end.finished_at)
            for run_id, end in winners.items()
            if run_id not in attempts
        ]
        last = [(rows[run_id], end) for run_id, end in winners.items() if run_id not in attempts]
        alarm_marks.mark(session, last, self._alarm_defaults, now_ms=self._now_ms())
        # Last: a further attempt, being a row by now, keeps its tick from being over.
        return planned + self._succession.follow(session, endings)

    def _next_attempts(
        self, session: Session, rows: dict[int, AnyRow], winners: dict[int, End]
    ) -> dict[int, runs.NewRun]:
        unsuccessful = [end for end in winners.values() if end.status is not RunStatus.SUCCEEDED]
        if not unsuccessful:
            return {}
        known = jobs.for_runs(session, {rows[end.run_id].job_id for end in unsuccessful})
        now_ms = self._now_ms()
        return {
            end.run_id: attempt
            for end in unsuccessful
            for row in [rows[end.run_id]]
            if (attempt := next_attempt(row, known.get(row.job_id), end, now_ms=now_ms))
        }

    def _lose(self, session: Session, row: AnyRow, end: End, tally: Tally) -> None:
        tally.lost.append(end.run_id)
        late = row.status == RunStatus.LOST and end.status is not RunStatus.LOST
        if late and not end.never_started and runs.note_late(session, end.run_id, end.status):
            log.warning("result_came_late", run_id=end.run_id, status=end.status.value)


def _is_from_its_executor(row: AnyRow, end: End) -> bool:
    return end.address is None or (end.address, end.boot_id) == (row.executor_address, row.boot_id)


def _may_enter(row: AnyRow, end: End) -> bool:
    if row.status in FINAL or row.status not in ENTERED_FROM[end.status]:
        return False
    if end.only_from is not None and row.status != end.only_from:
        return False
    return end.routed_at is None or row.routed_at == end.routed_at


def _as_killed(row: AnyRow, end: End) -> End:
    """Give the end of a run that never started, and never may because it was killed."""
    if not end.never_started or row.kill_requested_at is None or row.status == RunStatus.PLANNED:
        return end
    return End(
        run_id=end.run_id,
        status=RunStatus.KILLED,
        message=f"killed before it started ({end.message})",
        finished_at=end.finished_at,
        never_started=True,
    )


def _ended(row: AnyRow, end: End) -> runs.Ended:
    return runs.Ended(
        run_id=end.run_id,
        status=end.status,
        message=cut(end.message),
        finished_at=end.finished_at,
        started_at=end.started_at or row.started_at,
        log_tail=end.log_tail,
    )


def cut(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return the text, shortened with a mark when it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    mark = f"… (cut, {len(text)} characters)"
    return text[: limit - len(mark)] + mark
