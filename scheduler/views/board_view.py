"""The board as users see it: what is wrong in one sentence, and the jobs in trouble.

Everything counts only what the reader may see.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.broker.reasons import Reason, Sentence
from warren.resources.board import (
    Board,
    BoardEvent,
    DueTimeMark,
    ErrorGroup,
    JobMute,
    JobOnBoard,
    QuarterCount,
    Trouble,
)
from warren.resources.instant import Instant
from warren.resources.jobs import JobsState as State
from warren.scheduler.actor import Actor
from warren.scheduler.board import history
from warren.scheduler.board.events import OUTAGE_GAP_MS, OUTAGE_JOBS, EventKind
from warren.scheduler.board.history import Skipped
from warren.sql.board import fill, quarters
from warren.sql.board import listing as board
from warren.sql.board.job_states import Trouble as Stored
from warren.sql.board.listing import BoardJob, BoardScope, EventRow, JobsState, SharedError
from warren.sql.instants import DAY_MS
from warren.sql.jobs.due_jobs import PARKED_MS

#: Jobs in trouble that are shown, and shared errors that are named.
MAX_JOBS, MAX_GROUPS = 100, 10
#: The status of due times that were skipped.
NOT_RUN = "NOT_RUN"
#: Strips that are kept as they were read: those of a few boards, which many people read again.
KNOWN_STRIPS = 500


class Says(Sentence):
    """What the board says; `one` and `several` are told apart by their own sentences."""

    FINE = "No job fails."
    NO_JOBS = "There are no jobs yet."
    ONLY_FAILS = "The only job fails: %(job)s, since %(since)s."
    ONE_FAILS = "1 of %(total)s jobs fails: %(job)s, since %(since)s."
    FAIL = "%(n)s of %(total)s jobs fail."
    FAIL_SHARING = "%(n)s of %(total)s jobs fail; %(shared)s share one error since %(since)s."
    ALL_SHARE = "%(n)s of %(total)s jobs fail with one error since %(since)s."
    RECOVERED = "%(n)s that failed in the last 24 hours have recovered."
    ONE_RECOVERED = "1 that failed in the last 24 hours has recovered."
    SKIPPED = "Due times of %(n)s jobs were skipped."
    ONE_SKIPPED = "Due times of 1 job were skipped."
    WAITING = "Runs of %(n)s jobs wait for longer than usual."
    ONE_WAITING = "Runs of 1 job wait for longer than usual."
    SLOW = "%(n)s jobs took much longer than usual."
    ONE_SLOW = "1 job took much longer than usual."
    LONG = "%(n)s jobs have been running for much longer than usual."
    ONE_LONG = "1 job has been running for much longer than usual."
    FILLING = "Jobs are still being looked at after the upgrade: %(done)s of %(all)s."


class BoardView(NamedTuple):
    """The board, and its sentences as reasons, for other languages.

    `in_groups` are the newest runs of jobs in its groups, by the key of their error and their id.
    """

    board: Board
    sentence: Reason
    details: Sequence[Reason]
    in_groups: Mapping[str, Mapping[int, int]]


class Clock:
    """Writes moments in sentences; the console has one in the reader's zone and language."""

    def short(self, at_ms: int) -> str:
        """Return a moment in UTC, such as `2026-12-01 14:31 UTC`."""
        return f"{Instant.of(at_ms):%Y-%m-%d %H:%M} UTC"


class Numbers(NamedTuple):
    """Numbers that take a while to count where there are many jobs."""

    total: int
    recovered: int


def count(session: Session, scope: BoardScope, *, now_ms: int) -> Numbers:
    """Count the jobs of a scope, and those that have recovered."""
    return Numbers(
        board.job_count(session, scope),
        board.recovered_count(session, scope, since_ms=now_ms - DAY_MS),
    )


def read(
    session: Session,
    actor: Actor,
    *,
    now_ms: int,
    app_id: int | None = None,
    clock: Clock | None = None,
    place: int = 0,
    of_group: int = 0,
    numbers: Numbers | None = None,
) -> BoardView:
    """Return the board of an actor's jobs, or of those of one app.

    Args:
        session: a session that reads.
        actor: whose board it is.
        now_ms: the time.
        app_id: only this app; None = all.
        clock: writes moments in sentences; None = in UTC.
        place: how many jobs in trouble are passed over.
        of_group: how many jobs of each group are at most apart from the others; 0 = none is.
        numbers: as `count` counted them a few seconds ago; None = they are counted now.

    """
    scope = scope_of(actor, app_id)
    counts = board.counts(session, scope)
    total, recovered = numbers or count(session, scope, now_ms=now_ms)
    failing = sum(counts.get(trouble, 0) for trouble in board.FAILING)
    shared = board.shared_errors(session, scope, limit=MAX_GROUPS) if failing > 1 else []
    keys = [error.error_key for error in shared]
    in_groups = board.newest_with_errors(session, scope, keys, limit=max(1, of_group))
    groups = _groups(session, shared, in_groups)
    rows = board.in_trouble(
        session,
        scope,
        limit=MAX_JOBS + 1,
        place=place,
        without_errors=[group.error_key for group in groups] if of_group else (),
    )
    troubled = sum(number for trouble, number in counts.items() if trouble is not Stored.NONE)
    filled = fill.read(session)
    says = clock or Clock()
    # Those that fail come before all others, but only on the first page.
    worst = rows if not place else board.in_trouble(session, scope, limit=1)
    sentence = _sentence(failing, total, shared, worst, says)
    details = [*_details(counts, recovered), *_filling(filled)]
    shown = Board(
        at=Instant.of(now_ms),
        sentence=str(sentence),
        details=[str(detail) for detail in details],
        failing=failing,
        troubles={_shown(trouble).value: number for trouble, number in sorted(counts.items())},
        recovered=recovered,
        fine=max(0, total - troubled),
        total=total,
        groups=groups,
        jobs=[job_state(row, now_ms) for row in rows[:MAX_JOBS]],
        more=len(rows) > MAX_JOBS,
        quarters=_quarters(session, scope, now_ms),
        events=_events(session, scope, now_ms),
        filled=filled.is_over,
    )
    return BoardView(shown, sentence, details, in_groups)


def scope_of(actor: Actor, app_id: int | None = None) -> BoardScope:
    """Return whose jobs an actor may see, or only those of one app."""
    if app_id is None:
        return BoardScope(actor.app_ids, actor.job_ids)
    return BoardScope([app_id] if actor.knows(app_id) else [], actor.job_ids)


def jobs_state(state: State, now_ms: int) -> JobsState:
    """Return which jobs are in a state."""
    not_failing = [trouble for trouble in Stored if trouble not in board.FAILING]
    return {
        State.FAILING: JobsState(board.FAILING),
        State.RECOVERED: JobsState(not_failing, failed_since=now_ms - DAY_MS),
        State.TROUBLE: JobsState([trouble for trouble in Stored if trouble is not Stored.NONE]),
        State.FINE: JobsState([Stored.NONE]),
    }[state]


def job_state(row: BoardJob, now_ms: int) -> JobOnBoard:
    """Return a job's state as users see it."""
    trouble = Stored(row.trouble)
    since_at, count = _since(row, trouble)
    return JobOnBoard(
        id=row.job_id,
        app=row.app,
        job=row.job,
        trouble=_shown(trouble),
        trouble_since=Instant.if_any(since_at),
        count=count,
        error=row.error_text,
        error_key=row.error_key,
        error_since=Instant.if_any(row.error_since),
        error_run=row.error_run_id or None,
        good_at=Instant.if_any(row.good_at),
        newest_at=Instant.if_any(row.newest_at),
        newest_run=row.newest_run_id or None,
        took=row.took_ms / 1000,
        usual=row.usual_ms / 1000 if row.usual_ms else None,
        last_week=row.week_ms / 1000 if row.week_ms else None,
        next_at=_next(row),
        strip=marks(row.strip),
        mute=_mute(row, now_ms),
    )


def _shown(trouble: Stored) -> Trouble:
    return Trouble.FINE if trouble is Stored.NONE else Trouble[trouble.name]


@lru_cache(maxsize=KNOWN_STRIPS)
def marks(strip: str) -> list[DueTimeMark]:
    """Return the last due times of a job, the oldest first."""
    return [
        DueTimeMark(at=Instant.of(entry.at), status=NOT_RUN, count=entry.count)
        if isinstance(entry, Skipped)
        else DueTimeMark(
            at=Instant.of(entry.at),
            status=entry.status.value,
            took=entry.took_ms / 1000,
            run=entry.run_id,
        )
        for entry in history.from_text(strip).entries
    ]


def _since(row: BoardJob, trouble: Stored) -> tuple[int, int]:
    """Return since when a job has its trouble, and how many due times or runs that concerns."""
    if trouble in board.FAILING:
        return row.failing_since, row.failing_count
    if trouble is Stored.SKIPPED:
        return row.skipped_since, row.skipped_count
    if trouble is Stored.WAITING:
        return row.waiting_since, row.waiting_count
    if trouble is Stored.LONG:
        return row.long_since, 1
    return (row.newest_at, 1) if trouble is Stored.SLOW else (0, 0)


def _next(row: BoardJob) -> Instant | None:
    is_planned = row.is_enabled and row.next_tick_at < PARKED_MS
    return Instant.if_any(row.next_tick_at) if is_planned else None


def _mute(row: BoardJob, now_ms: int) -> JobMute | None:
    """Return the mute that is in force: not one of another error, nor one that has ended."""
    if row.mute_until is None or row.mute_until <= now_ms or row.mute_error != row.error_key:
        return None
    return JobMute(
        by=row.muted_by or "",
        why=row.mute_reason or "",
        until=Instant.of(row.mute_until),
        silent=bool(row.mute_silences),
    )


def _groups(
    session: Session, shared: Sequence[SharedError], in_groups: Mapping[str, Mapping[int, int]]
) -> list[ErrorGroup]:
    firsts = {key: next(iter(jobs)) for key, jobs in in_groups.items()}
    rows = board.of_jobs(session, firsts.values()) if firsts else {}
    return [
        ErrorGroup(
            error=first.error_text,
            error_key=error.error_key,
            jobs=error.jobs,
            since=Instant.of(error.since_at),
            first_job=first.job,
            first_run=first.error_run_id,
        )
        for error in shared
        # None: they have changed since they were counted.
        if (first := rows.get(firsts.get(error.error_key, 0))) is not None
    ]


def _quarters(session: Session, scope: BoardScope, now_ms: int) -> list[QuarterCount]:
    """Return the quarters of the last day, added up over apps."""
    return [
        QuarterCount(
            at=Instant.of(row.quarter_at),
            succeeded=row.succeeded,
            failed=row.failed,
            skipped=row.skipped,
        )
        for row in quarters.totals(session, now_ms - DAY_MS, now_ms, scope.app_ids)
    ]


def _events(session: Session, scope: BoardScope, now_ms: int) -> list[BoardEvent]:
    """Return what lasted within the last day; the parts of an outage are one event."""
    since_ms = now_ms - DAY_MS
    rows = whole_events(board.events(session, scope.app_ids, since_ms=since_ms))
    keys = {row.error_key for row in rows if row.error_key}
    over = board.over_again(session, scope, keys, since_ms=since_ms) if keys else {}
    return [
        BoardEvent(
            id=row.id,
            kind=row.kind,
            app=row.app,
            subject=row.subject,
            since=Instant.of(row.since_at),
            until=Instant.if_any(row.until_at),
            count=_count(session, scope, row, now_ms),
            recovered=min(row.runs, over.get(row.error_key or "", 0)),
            error_key=row.error_key or "",
        )
        for row in rows
    ]


def _count(session: Session, scope: BoardScope, row: EventRow, now_ms: int) -> int:
    """Return how many jobs, runs or due times an event concerned."""
    if row.kind != EventKind.NO_SCHEDULER:
        return row.runs
    # One event for all readers, of whom each may see some of the jobs.
    until_ms = row.until_at or now_ms
    return board.skipped_between(session, scope, since_ms=row.since_at, until_ms=until_ms)


def whole_events(rows: Iterable[EventRow]) -> list[EventRow]:
    """Return events as somebody sees them who sees these; their parts of an outage may be few."""
    whole: list[EventRow] = []
    for row in rows:
        place = next((at for at, other in enumerate(whole) if _are_one(row, other)), None)
        if place is None:
            whole.append(row)
        else:
            whole[place] = _together(whole[place], row)
    return [row for row in whole if row.kind != EventKind.OUTAGE or row.runs >= OUTAGE_JOBS]


def _are_one(one: EventRow, other: EventRow) -> bool:
    if one.kind != EventKind.OUTAGE or (one.kind, one.error_key) != (other.kind, other.error_key):
        return False
    first, second = sorted((one, other), key=lambda row: row.since_at)
    return first.until_at is None or second.since_at <= first.until_at + OUTAGE_GAP_MS


def _together(one: EventRow, other: EventRow) -> EventRow:
    """Return an outage of two parts; it has the words and the id of the part that began first."""
    first, second = sorted((one, other), key=lambda row: (row.since_at, row.id))
    ends = [end for end in (first.until_at, second.until_at) if end is not None]
    return first._replace(
        app_id=0,
        app=None,
        until_at=max(ends) if len(ends) > 1 else None,
        runs=first.runs + second.runs,
    )


def of_event(
    session: Session, actor: Actor, event_id: int, *, now_ms: int, limit: int, place: int = 0
) -> list[JobOnBoard]:
    """Return the jobs that an event of the last day hit, the worst first; none of unknown ones.

    `place` is how many of them are passed over.
    """
    scope = scope_of(actor)
    rows = whole_events(board.events(session, scope.app_ids, since_ms=now_ms - DAY_MS))
    event = next((row for row in rows if row.id == event_id), None)
    if event is None:
        return []
    since_ms, until_ms = event.since_at, event.until_at or now_ms
    kind = EventKind(event.kind)
    if kind is EventKind.OUTAGE:
        hit = board.had_error(event.error_key or "", since_ms=since_ms, until_ms=until_ms)
    elif kind is EventKind.NO_SCHEDULER:
        hit = board.was_skipped(since_ms=since_ms, until_ms=until_ms)
    elif kind is EventKind.EXECUTOR_GONE:
        hit = board.lost_runs_on(event.app_id, event.subject, since_ms=since_ms - DAY_MS)
    elif kind is EventKind.LIMIT_FULL:
        hit = board.names_limit(event.subject, event.app_id)
    else:
        hit = board.is_enabled_in(event.app_id)
    found = board.of_jobs_where(session, scope, hit, limit=limit, place=place)
    return [job_state(row, now_ms) for row in found]


def _sentence(
    failing: int, total: int, shared: Sequence[SharedError], worst: Sequence[BoardJob], clock: Clock
) -> Reason:
    if not total:
        return Says.NO_JOBS()
    # None: it has recovered since it was counted.
    if not failing or not worst:
        return Says.FINE()
    if failing == 1:
        facts = {"job": worst[0].job, "since": clock.short(worst[0].failing_since)}
        return Says.ONLY_FAILS(**facts) if total == 1 else Says.ONE_FAILS(total=total, **facts)
    if not shared:
        return Says.FAIL(n=failing, total=total)
    since = clock.short(shared[0].since_at)
    if shared[0].jobs == failing:
        return Says.ALL_SHARE(n=failing, total=total, since=since)
    return Says.FAIL_SHARING(n=failing, total=total, shared=shared[0].jobs, since=since)


def _details(counts: dict[Stored, int], recovered: int) -> list[Reason]:
    said = {
        Stored.SKIPPED: (Says.ONE_SKIPPED, Says.SKIPPED),
        Stored.WAITING: (Says.ONE_WAITING, Says.WAITING),
        Stored.SLOW: (Says.ONE_SLOW, Says.SLOW),
        Stored.LONG: (Says.ONE_LONG, Says.LONG),
    }
    details = [
        one() if counts[trouble] == 1 else several(n=counts[trouble])
        for trouble, (one, several) in said.items()
        if counts.get(trouble)
    ]
    if recovered == 1:
        return [Says.ONE_RECOVERED(), *details]
    return [Says.RECOVERED(n=recovered), *details] if recovered else details


def _filling(filled: fill.Fill) -> list[Reason]:
    if filled.is_over or not filled.is_begun:
        return []
    return [Says.FILLING(done=filled.job_id, all=filled.jobs_until)]
