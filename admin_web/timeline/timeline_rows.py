"""Chooses the rows of the timeline and reads their runs, with limits.

Skipped, late and failed jobs come first, then busy ones, then those with due times. However many
jobs and runs there are, a page reads at most a few thousand rows of the database.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from heapq import merge
from itertools import groupby, islice

from sqlalchemy.orm import Session

from warren.admin_web.timeline import bars
from warren.admin_web.timeline.bars import SHOWN_LATE_MS, Bar, Skipped, Span, Window
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.calendar_rows import calendars_for
from warren.scheduler.schedules.facts import ScheduleFacts
from warren.scheduler.schedules.reading import read_schedule
from warren.sql.instants import DAY_MS, HOUR_MS
from warren.sql.jobs import skips
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.jobs.skips import SkipFilter, SkipLine
from warren.sql.listings import next_ticks
from warren.sql.run_status import RunStatus
from warren.sql.timeline import job_spans
from warren.sql.timeline.job_spans import TROUBLE, Sample, SpanJob, SpanRun

#: Limits: rows of a page; runs, future due times and skips of a row.
ROWS, ROW_RUNS, ROW_TICKS, ROW_SKIPS = 30, 120, 60, 20
#: The most skips that are read to choose rows.
SEEN_SKIPS = 400
#: The most jobs whose future due times are in the row of an app.
APP_JOBS = 5
#: A run that started in the window may have been due this much earlier.
EARLIER_MS = HOUR_MS
#: A next due time that passed up to this long ago still counts: no scheduler has planned it.
OVERDUE_MS = 7 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The most runs: of each state in the sample, of a job's row, of all rows of apps together."""

    sampled: int = job_spans.SAMPLE_LIMIT
    of_job: int = ROW_RUNS
    of_apps: int = 4_000


class Grouping(StrEnum):
    """What a row is."""

    JOB = "job"
    APP = "app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many runs of a row are in the window, how many of them are conspicuous, and skips."""

    runs: int
    skipped: int
    failed: int
    late: int
    running: int
    overlapping: int

    @classmethod
    def of(
        cls,
        spans: Iterable[Span],
        window: Window,
        lower: set[int],
        *,
        overdue: int,
        skips: Iterable[SkipLine],
    ) -> "Tally":
        """Count; `lower` are the overlapping runs, `overdue` the number of unplanned due times."""
        inside = [
            span
            for span in spans
            if span.end_ms >= window.from_ms and span.due_ms < window.until_ms
        ]
        return cls(
            runs=len(inside),
            skipped=sum(skip.number for skip in skips),
            failed=sum(span.run.status in TROUBLE for span in inside),
            late=sum(span.is_late for span in inside) + overdue,
            running=sum(span.run.status == RunStatus.RUNNING for span in inside),
            overlapping=sum(span.run.id in lower for span in inside),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job or an app: its bars, its future due times, and its counts.

    `job_id` 0 = an app; `name` is empty if the job was deleted. `marks` are the positions of due
    times, `skips` the latest skipped ones. Left of the position `unread`, some runs are missing;
    0 = none is. `has_more_ticks`: not all are drawn.
    """

    job_id: int
    name: str
    app: str
    zone: str | None
    bars: list[Bar]
    ticks: list[int]
    marks: list[int]
    skips: list[Skipped]
    tally: Tally
    unread: int
    has_more_ticks: bool

    @property
    def rank(self) -> tuple[int, ...]:
        """The sort key of rows."""
        tally = self.tally
        return (
            -tally.skipped,
            -tally.late,
            -tally.failed,
            -tally.overlapping,
            -tally.runs,
            *self.ticks[:1],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The rows of a page, and what is missing.

    `left_out`: how many more rows there are. `complete_from_ms`: rows were chosen by runs due since
    then; None = by the whole window. `due_until_ms`: the same for future due times.
    """

    window: Window
    rows: list[Row]
    left_out: int
    complete_from_ms: int | None
    due_until_ms: int | None


@dataclass(frozen=True, slots=True)
class TimelineReader:
    """Reads one page.

    Attributes:
        session: of the page.
        window: the period on the page.
        timezone: of jobs that name none.
        limits: how many runs it reads.

    """

    session: Session
    window: Window
    timezone: str
    limits: RunLimits = RunLimits()

    def read(self, app_ids: Collection[int] | None, grouping: Grouping) -> Timeline:
        """Return the timeline of these apps; None = all."""
        window = self.window
        seen = job_spans.sample(
            self.session,
            app_ids,
            from_ms=window.from_ms,
            until_ms=window.until_ms,
            limit=self.limits.sampled,
        )
        ahead = next_ticks.first_due(
            self.session,
            app_ids,
            from_ms=window.now_ms - OVERDUE_MS,
            to_ms=window.until_ms,
            limit=ROWS,
        )
        wanted = SkipFilter(
            app_ids=app_ids,
            since_ms=window.from_ms,
            until_ms=window.until_ms,
            limit=SEEN_SKIPS,
        )
        skipped = skips.lines(self.session, wanted)
        urgent = self._most_urgent(seen.runs, skipped, ahead.job_ids)
        by_job = grouping is Grouping.JOB
        jobs = {} if by_job else job_spans.jobs_by_ids(self.session, urgent)
        # In the order of their most urgent jobs.
        apps = list(dict.fromkeys(jobs[each].app_id for each in urgent if each in jobs))
        rows = (
            self._of_jobs(urgent[:ROWS], seen)
            if by_job
            else self._of_apps(apps[:ROWS], jobs, seen, skipped)
        )
        return Timeline(
            window=window,
            rows=sorted(rows, key=lambda row: row.rank),
            left_out=max(0, len(urgent if by_job else apps) - ROWS),
            complete_from_ms=seen.complete_from_ms,
            due_until_ms=ahead.seen_until_ms,
        )

    def _most_urgent(
        self, runs: Iterable[SpanRun], skipped: Iterable[SkipLine], due: Iterable[int]
    ) -> list[int]:
        """Return job ids: skipped ones, late, failed, busy ones, then those with due times."""
        urgency: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for skip in skipped:
            if skip.job is not None:
                urgency[skip.job_id][0] -= skip.number
        for run in runs:
            urgency[run.job_id][1] -= bars.span(run, self.window.now_ms).is_late
            urgency[run.job_id][2] -= run.status in TROUBLE
            urgency[run.job_id][3] -= 1
        return list(dict.fromkeys((*sorted(urgency, key=urgency.__getitem__), *due)))

    def _of_jobs(self, job_ids: Sequence[int], seen: Sample) -> list[Row]:
        spans = job_spans.of_jobs(
            self.session,
            job_ids,
            from_ms=self.window.from_ms - EARLIER_MS,
            until_ms=self.window.until_ms,
            limit=self.limits.of_job,
        )
        ticks = defaultdict(list)
        for run in spans:
            ticks[run.job_id].append(run.scheduled_at)
        since = {
            job_id: min(mine) for job_id, mine in ticks.items() if len(mine) >= self.limits.of_job
        }
        runs: dict[int, dict[int, SpanRun]] = {job_id: {} for job_id in job_ids}
        for run in (*spans, *seen.runs):
            if run.job_id in runs:
                runs[run.job_id][run.id] = run
        jobs = job_spans.jobs_by_ids(self.session, job_ids)
        skipped: dict[int, list[SkipLine]] = defaultdict(list)
        for skip in skips.of_jobs(
            self.session,
            job_ids,
            from_ms=self.window.from_ms,
            until_ms=self.window.until_ms,
            limit=ROW_SKIPS,
        ):
            skipped[skip.job_id].append(skip)
        return [
            self._of_job(
                job_id,
                jobs.get(job_id),
                _with_sample(runs[job_id], since.get(job_id), seen),
                skipped[job_id],
            )
            for job_id in job_ids
        ]

    def _of_job(
        self,
        job_id: int,
        job: SpanJob | None,
        sample: Sample,
        skipped: Sequence[SkipLine],
    ) -> Row:
        window = self.window
        spans = [bars.span(run, window.now_ms) for run in sample.runs]
        lower = bars.overlapping(spans)
        upcoming = self._upcoming(job) if job is not None else ()
        ticks = list(islice(upcoming, ROW_TICKS + 1))
        overdue = int(job is not None and self._is_overdue(job))
        return Row(
            job_id=job_id,
            name=job.name if job else "",
            app=job.app if job else "",
            zone=(job.timezone or self.timezone) if job else None,
            bars=bars.draw(spans, window, lower),
            ticks=ticks[:ROW_TICKS],
            marks=self._marks(ticks[:ROW_TICKS]),
            skips=bars.skipped(skipped, window),
            tally=Tally.of(spans, window, lower, overdue=overdue, skips=skipped),
            unread=window.place(sample.complete_from_ms) if sample.complete_from_ms else 0,
            has_more_ticks=len(ticks) > ROW_TICKS,
        )

    def _of_apps(
        self,
        app_ids: Sequence[int],
        jobs: Mapping[int, SpanJob],
        seen: Sample,
        skipped: Iterable[SkipLine],
    ) -> list[Row]:
        names = {job.app_id: job.app for job in jobs.values()}
        by_app: dict[str | None, list[SkipLine]] = defaultdict(list)
        for skip in skipped:
            by_app[skip.app].append(skip)
        return [
            self._of_app(
                app_id,
                names[app_id],
                self._runs_of_app(
                    app_id, seen, max(self.limits.of_job, self.limits.of_apps // len(app_ids))
                ),
                jobs,
                by_app[names[app_id]],
            )
            for app_id in app_ids
        ]

    def _runs_of_app(self, app_id: int, seen: Sample, limit: int) -> Sample:
        """Return the app's newest runs and, of earlier ones, what is in the sample."""
        newest = job_spans.of_app(
            self.session,
            app_id,
            from_ms=self.window.from_ms - EARLIER_MS,
            until_ms=self.window.until_ms,
            limit=limit,
        )
        mine = (run for run in seen.runs if run.app_id == app_id)
        both = {run.id: run for run in (*newest.runs, *mine)}
        return _with_sample(both, newest.complete_from_ms, seen)

    def _of_app(
        self,
        app_id: int,
        name: str,
        sample: Sample,
        jobs: Mapping[int, SpanJob],
        skipped: Sequence[SkipLine],
    ) -> Row:
        # A flow's bar would only cover those of its nodes.
        flows = {run.flow_run_id for run in sample.runs}
        runs = [run for run in sample.runs if run.id not in flows]
        spans = [bars.span(run, self.window.now_ms) for run in runs]
        mine = [job for job in jobs.values() if job.app_id == app_id]
        first = (self._upcoming(job) for job in mine[:APP_JOBS])
        ticks = list(islice((tick for tick, _ in groupby(merge(*first))), ROW_TICKS + 1))
        overdue = sum(self._is_overdue(job) for job in mine)
        lower = _overlapping_in_jobs(spans)
        return Row(
            job_id=0,
            name=name,
            app=name,
            zone=None,
            bars=bars.draw(spans, self.window, lower),
            ticks=ticks[:ROW_TICKS],
            marks=self._marks(ticks[:ROW_TICKS]),
            skips=bars.skipped(skipped[:ROW_SKIPS], self.window),
            tally=Tally.of(spans, self.window, lower, overdue=overdue, skips=skipped),
            unread=self.window.place(sample.complete_from_ms) if sample.complete_from_ms else 0,
            has_more_ticks=len(mine) > APP_JOBS or len(ticks) > ROW_TICKS,
        )

    def _upcoming(self, job: SpanJob) -> Iterator[int]:
        """Yield the future due times of a job."""
        if not job.is_enabled or not 0 < job.next_tick_at < PARKED_MS:
            return
        after = max(self.window.now_ms, self.window.from_ms)
        zone = job.timezone or self.timezone
        # Else a broken row; the scheduler will stop the job.
        with suppress(Problem):
            calendars = calendars_for(self.session, [job])
            schedule = read_schedule(ScheduleFacts.of(job, zone), calendars)
            tick = schedule.next_after(after, job.next_tick_at)
            while tick is not None and tick <= self.window.until_ms:
                yield tick
                tick = schedule.next_after(tick, job.next_tick_at)

    def _is_overdue(self, job: SpanJob) -> bool:
        """Whether a due time has passed that no scheduler has planned."""
        return bool(job.is_enabled and 0 < job.next_tick_at < self.window.now_ms - SHOWN_LATE_MS)

    def _marks(self, ticks: Iterable[int]) -> list[int]:
        return list(dict.fromkeys(self.window.place(tick) for tick in ticks))


def _with_sample(runs: Mapping[int, SpanRun], complete_from_ms: int | None, seen: Sample) -> Sample:
    """Return a row's runs, and since when none is missing."""
    if complete_from_ms is None or seen.complete_from_ms is None:
        return Sample(runs=list(runs.values()), complete_from_ms=None)
    since_ms = min(complete_from_ms, seen.complete_from_ms)
    return Sample(runs=list(runs.values()), complete_from_ms=since_ms)


def _overlapping_in_jobs(spans: Iterable[Span]) -> set[int]:
    """Return the ids of the runs that began before an earlier run of their own job was over."""
    by_job = defaultdict(list)
    for span in spans:
        by_job[span.run.job_id].append(span)
    return {run_id for each in by_job.values() for run_id in bars.overlapping(each)}
