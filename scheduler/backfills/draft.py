"""A backfill as requested, with its due times, before anything is stored."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from sqlalchemy.orm import Session

from warren.broker.reasons import Reason, Why
from warren.resources.backfills import MAX_AT_ONCE
from warren.scheduler.backfills import kept_schedule
from warren.scheduler.backfills.kept_schedule import (
    MAX_TICKS,
    DueTimes,
    DueTimeState,
    KeptSchedule,
    Span,
    joined,
    spans_to_json,
)
from warren.scheduler.problems import Code, Problem, refusal
from warren.scheduler.schedules.registry import has_schedule
from warren.sql.jobs import history
from warren.sql.models import Backfill, Job
from warren.sql.models.job_tables import Selection

_KEY = re.compile(r"[A-Za-z0-9._:-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequest:
    """A requested backfill.

    Attributes:
        from_date: the first run date, and `to_date` the last; None = the due times in `spans`.
        dates: one run for each date instead of the due times of the job's schedule.
        at_once: how many due times may be open at the same time.
        selection: which due times run; the others are left out.
        stop_on_failure: whether it pauses when a run has failed, its retries included.
        children: whether the successes of its runs start the job's children.
        instead: whether the job's own schedule rests until it has ended.
        param: of its runs; None = the job's.
        key: a name; the same key of the same job makes no second backfill.

    """

    from_date: date | None = None
    to_date: date | None = None
    spans: Sequence[Span] = ()
    dates: bool = False
    at_once: int = 1
    newest_first: bool = False
    selection: Selection = Selection.MISSING
    stop_on_failure: bool = False
    children: bool = True
    instead: bool = False
    param: str | None = None
    key: str | None = None

    def problems(self) -> Iterator[Problem]:
        """Yield everything that is wrong with it whatever the job, except for its dates."""
        if not 1 <= self.at_once <= MAX_AT_ONCE:
            yield Problem(Code.BACKFILL_AT_ONCE, "at_once", most=MAX_AT_ONCE, got=self.at_once)
        if self.key is not None and not _KEY.fullmatch(self.key):
            yield Problem(Code.BACKFILL_KEY, "key", pattern=_KEY.pattern, got=self.key[:100])


@dataclass(frozen=True)
class Draft:
    """A backfill to make for a job, with the schedule that it will keep."""

    job: Job
    request: BackfillRequest
    kept: KeptSchedule
    spans: Sequence[Span]

    @cached_property
    def ticks(self) -> list[int]:
        """Its due times, in the order in which they run."""
        return DueTimes(self.kept, self.spans, newest_first=self.request.newest_first).all()

    def states(self, session: Session) -> dict[int, DueTimeState]:
        """Return the state of each due time so far."""
        return kept_schedule.states_kept(session, self.job.id, self.kept, self.ticks)

    def notices(self) -> list[Reason]:
        """Return what whoever asks for it should know."""
        if self.request.at_once > self.job.concurrency > 0:
            return [Why.BACKFILL_ABOVE_CONCURRENCY(n=self.job.concurrency)]
        return []

    def row(self, backfill_id: int, *, by: str, now_ms: int) -> Backfill:
        request = self.request
        return Backfill(
            id=backfill_id,
            job_id=self.job.id,
            key=request.key,
            from_date=request.from_date,
            to_date=request.to_date,
            schedule=self.kept.to_json(),
            spans=spans_to_json(self.spans),
            ticks=len(self.ticks),
            at_once=request.at_once,
            newest_first=int(request.newest_first),
            selection=request.selection,
            stop_on_failure=int(request.stop_on_failure),
            without_children=None if request.children else 1,
            instead=int(request.instead),
            param=request.param,
            made_at=now_ms,
            made_by=by,
            moved_at=now_ms,
        )


def draft(session: Session, job: Job, request: BackfillRequest, *, zone: str, now_ms: int) -> Draft:
    """Return the backfill that is asked for; `zone` is that of jobs that name none.

    Due times that the job's schedule still has to decide belong to the schedule, not to a backfill.

    Raises:
        Refused: the range is empty, in the future or too long, the job has no due times that can be
            computed, or other values are not valid; with all that is wrong.

    """
    wrong = [*request.problems()]
    try:
        made = _draft(session, job, request, zone, now_ms)
    except Problem as problem:
        raise refusal([*wrong, problem]) from problem
    if wrong:
        raise refusal(wrong)
    return made


def _draft(session: Session, job: Job, request: BackfillRequest, zone: str, now_ms: int) -> Draft:
    kept = (
        KeptSchedule.of_dates(job.timezone or zone) if request.dates else _kept(session, job, zone)
    )
    spans = _spans(job, request, kept, now_ms)
    count = DueTimes(kept, spans).count()
    if count > MAX_TICKS:
        raise Problem(Code.BACKFILL_TOO_LONG, "to", most=f"{MAX_TICKS:,}", got=f"{count:,}")
    if not count:
        raise _no_tick(job, request)
    return Draft(job, request, kept, spans)


def _kept(session: Session, job: Job, zone: str) -> KeptSchedule:
    kept = KeptSchedule.of(session, job, zone, _anchor(session, job))
    if not has_schedule(job.schedule_kind):
        raise Problem(Code.BACKFILL_NO_SCHEDULE, "dates", job=job.name)
    if kept.schedule.waits_for_completion:
        raise Problem(Code.BACKFILL_DELAY, "dates", job=job.name)
    return kept


def _anchor(session: Session, job: Job) -> int:
    """Return a due time of the job; of a stopped one, from when it was last started."""
    if job.is_enabled == 1:
        return job.next_tick_at
    anchors = [change.anchor for change in history.changes_of(session, job.id) if change.anchor]
    return anchors[-1] if anchors else 0


def _spans(job: Job, request: BackfillRequest, kept: KeptSchedule, now_ms: int) -> Sequence[Span]:
    last_ms = now_ms if job.is_enabled != 1 or kept.is_of_dates else min(now_ms, job.last_tick_at)
    first, last = request.from_date, request.to_date
    if request.spans:
        spans = joined(request.spans)
    elif first is None or last is None:
        raise Problem(Code.BACKFILL_NO_RANGE, "from" if first is None else "to")
    else:
        if first > last:
            raise Problem(Code.BACKFILL_RANGE, "from", first=first, last=last)
        if last > (newest := kept.newest_date(now_ms)):
            raise Problem(Code.BACKFILL_FUTURE, "to", last=newest, got=last)
        spans = kept.spans_of(first, last)
    cut = [Span(span.after_ms, min(span.until_ms, last_ms)) for span in spans]
    return [span for span in cut if span.after_ms < span.until_ms]


def _no_tick(job: Job, request: BackfillRequest) -> Problem:
    if request.spans:
        return Problem(Code.BACKFILL_NO_TICK, job=job.name)
    facts = {"job": job.name, "first": request.from_date, "last": request.to_date}
    return Problem(Code.BACKFILL_EMPTY, "from", **facts)
