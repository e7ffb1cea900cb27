"""The timeline: past runs as bars and future due times as marks along one axis.

A row is WIDTH units wide, whatever the window; it contains no text, so a page may stretch it. Short
runs that would overlap become one bar with their number.

Skipped, late and failed jobs come first, then busy ones, then those with due times. However many
jobs and runs there are, a page reads at most a few thousand rows of the database.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from heapq import merge
from itertools import groupby, islice
from typing import NamedTuple
from urllib.parse import quote
from zoneinfo import ZoneInfo

from flask import render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from wtforms import SelectField

from warren.admin_web.forms.console_form import ALL, ConsoleForm, select_choices
from warren.admin_web.language import labels
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.reading import calendars_for, read_schedule
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.sql.board import listing as board
from warren.sql.board import quarters
from warren.sql.board.listing import BoardScope
from warren.sql.instants import DAY_MS, HOUR_MS, MINUTE_MS, moment
from warren.sql.jobs import history, job_names
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.jobs.history import SkipFilter, SkipLine
from warren.sql.jobs.job_names import NamedJob
from warren.sql.listings import timeline
from warren.sql.listings.newest_runs import DrawnRun
from warren.sql.listings.timeline import TROUBLE, Sample
from warren.sql.registry.apps import ids_by_name
from warren.sql.run_status import OPEN, RunStatus
from warren.sql.unfolded import QUARTER_MS, quarter_of

WIDTH = 2_400
#: Shorter runs that begin within this distance become one bar.
STEP = 10
#: The height of the highest bar of a quarter of an hour, above or below its line.
QUARTER_HEIGHT = 20
#: A bar shows as late a run that starts more than this after its due time.
SHOWN_LATE_MS = 10_000
#: A bar of several runs shows the state with the highest value.
_GRAVITY = {
    **dict.fromkeys(TROUBLE, 3),
    **dict.fromkeys(OPEN, 2),
    RunStatus.SUCCEEDED: 1,
    RunStatus.SKIPPED: 0,
    RunStatus.CANCELLED: 0,
}


@dataclass(frozen=True, slots=True)
class Window:
    """The period on the page: [from, until), and the current time."""

    from_ms: int
    until_ms: int
    now_ms: int

    def place(self, instant_ms: int) -> int:
        """Return the position of a time, clamped to 0..WIDTH."""
        length = self.until_ms - self.from_ms
        inside = min(max(instant_ms, self.from_ms), self.until_ms) - self.from_ms
        return inside * WIDTH // length

    @property
    def now_at(self) -> int | None:
        """The position of the current time; None if it is outside the window."""
        return self.place(self.now_ms) if self.from_ms <= self.now_ms < self.until_ms else None


class Span(NamedTuple):
    """When a run waited and worked; unknown times are filled in."""

    run: DrawnRun
    due_ms: int
    start_ms: int
    end_ms: int

    @property
    def is_late(self) -> bool:
        """Whether it started long after it was due."""
        return self.start_ms - self.due_ms > SHOWN_LATE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One run, or several short ones; `lane` 1 = it overlaps an earlier run of its row.

    `run_id` and `status` are those of the worst run, `states` counts the runs by status.
    """

    run_id: int
    status: RunStatus
    states: Counter[RunStatus]
    due_ms: int
    from_ms: int
    until_ms: int
    x: int
    width: int
    lane: int = 0
    #: The time from due to start.
    wait_x: int = 0
    wait_width: int = 0
    is_late: bool = False

    @property
    def count(self) -> int:
        """How many runs it shows."""
        return self.states.total()

    @property
    def usual(self) -> RunStatus:
        """The status of most of its runs."""
        return max(self.states, key=lambda status: self.states[status])

    @property
    def worst_share(self) -> float:
        """The share of its runs with the worst status."""
        return self.states[self.status] / self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Skipped due times of a row, and where they are drawn."""

    skip: SkipLine
    x: int
    width: int


def skip_marks(skips: Iterable[SkipLine], window: Window) -> list[Skipped]:
    """Return the skips of a row from left to right."""
    bars = []
    for skip in sorted(skips, key=lambda skip: skip.from_at):
        first, last = window.place(skip.from_at), window.place(skip.to_at)
        bars.append(Skipped(skip=skip, x=min(first, WIDTH - STEP), width=max(last - first, STEP)))
    return bars


def span(run: DrawnRun, now_ms: int) -> Span:
    """Return when a run waited and worked; unfinished ones last until now."""
    is_open = run.status in OPEN
    began = run.started_at or (now_ms if is_open else run.finished_at) or run.due_at
    ended = run.finished_at or (now_ms if is_open else began)
    return Span(run, run.due_at, max(began, run.due_at), max(ended, began))


def overlapping(spans: Sequence[Span]) -> set[int]:
    """Return the ids of a job's runs that began before a run of an earlier tick was over."""
    ids: set[int] = set()
    latest: Span | None = None
    for single in sorted(spans, key=lambda each: (each.start_ms, each.run.id)):
        is_later = latest is not None and single.run.scheduled_at != latest.run.scheduled_at
        if latest is not None and is_later and single.start_ms < latest.end_ms:
            ids.add(single.run.id)
        if latest is None or single.end_ms > latest.end_ms:
            latest = single
    return ids


@dataclass(slots=True)
class _Group:
    """Runs that become one bar."""

    x: int
    width: int
    lane: int
    spans: list[Span]

    def takes(self, x: int, width: int, lane: int) -> bool:
        """Whether a run that is drawn there would overlap these short ones."""
        is_short = self.width <= STEP and width <= STEP
        return is_short and x < self.x + STEP and lane == self.lane


def draw(spans: Iterable[Span], window: Window, lower: set[int]) -> list[Bar]:
    """Return the bars of a row from left to right; the runs in `lower` go into lane 1."""
    groups: list[_Group] = []
    short_ms = STEP * (window.until_ms - window.from_ms) // WIDTH
    for single in sorted(spans, key=lambda each: (each.start_ms, each.run.id)):
        if single.end_ms < window.from_ms or single.due_ms >= window.until_ms:
            continue
        start, width = window.place(single.start_ms), STEP
        if single.end_ms - single.start_ms > short_ms:
            width = max(window.place(single.end_ms) - start, STEP)
        x, lane = min(start, WIDTH - STEP), single.run.id in lower
        if groups and groups[-1].takes(x, width, lane):
            groups[-1].spans.append(single)
        else:
            groups.append(_Group(x, width, int(lane), [single]))
    return [_bar(group, window) for group in groups]


def _bar(group: _Group, window: Window) -> Bar:
    first, *more = group.spans
    states = Counter(span.run.status for span in group.spans)
    worst = max(states, key=lambda status: _GRAVITY[RunStatus(status)])
    due = window.place(first.due_ms)
    return Bar(
        run_id=next(span.run.id for span in group.spans if span.run.status == worst),
        status=RunStatus(worst),
        states=Counter({RunStatus(status): number for status, number in states.items()}),
        due_ms=min(span.due_ms for span in group.spans),
        from_ms=first.start_ms,
        until_ms=max(span.end_ms for span in group.spans),
        x=group.x,
        width=group.width,
        lane=group.lane,
        wait_x=0 if more else due,
        wait_width=0 if more else window.place(first.start_ms) - due,
        is_late=any(span.is_late for span in group.spans),
    )


#: Limits: rows of a page; runs, future due times and skips of a row.
ROWS, ROW_RUNS, ROW_TICKS, ROW_SKIPS = 30, 120, 60, 20
#: The most skips that are read to choose rows.
SEEN_SKIPS = 400
#: The most jobs that failed in the window, if there are too many runs to read.
SEEN_FAILED = 200
#: The most jobs whose future due times are in the row of an app.
APP_JOBS = 5
#: A run that started in the window may have been due this much earlier.
EARLIER_MS = HOUR_MS
#: A next due time that passed up to this long ago still counts: no scheduler has planned it.
OVERDUE_MS = 7 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The most runs: of each state in the sample, of a job's row, of all rows of apps together."""

    sampled: int = timeline.SAMPLE_LIMIT
    of_job: int = ROW_RUNS
    of_apps: int = 1_600


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
class QuarterBar:
    """All runs of a quarter of an hour: how many are `good`, `bad`, `skipped` or `ahead`.

    Each of them that is drawn as a bar has a height.
    """

    at_ms: int
    x: int
    width: int
    number: Counter[str]
    height: Mapping[str, float]


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
    quarters: list[QuarterBar]


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
        seen = timeline.sample(
            self.session,
            app_ids,
            from_ms=window.from_ms,
            until_ms=window.until_ms,
            limit=self.limits.sampled,
        )
        ahead = timeline.first_due(
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
        skipped = history.skip_lines(self.session, wanted)
        # A sample that ends minutes ago says nothing of the day; what the board keeps does.
        failed = {}
        if seen.complete_from_ms is not None:
            failed = board.failed_between(
                self.session,
                BoardScope(app_ids),
                since_ms=window.from_ms,
                until_ms=min(window.until_ms, seen.complete_from_ms),
                limit=SEEN_FAILED,
            )
        urgent = self._most_urgent(seen.runs, skipped, ahead.job_ids, failed)
        by_job = grouping is Grouping.JOB
        jobs = {} if by_job else job_names.by_ids(self.session, urgent)
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
            quarters=self._quarters(app_ids),
        )

    def _quarters(self, app_ids: Collection[int] | None) -> list[QuarterBar]:
        """Return the runs of the window by quarter, and the next due times within an hour."""
        window = self.window
        sums: dict[int, Counter[str]] = defaultdict(Counter)
        for row in quarters.totals(self.session, window.from_ms, window.until_ms, app_ids):
            sums[row.quarter_at].update(good=row.succeeded, bad=row.failed, skipped=row.skipped)
        until_ms = min(window.until_ms, window.now_ms + HOUR_MS)
        if window.now_ms < until_ms:
            ahead = timeline.due_per_minute(
                self.session, app_ids, from_ms=window.now_ms, to_ms=until_ms
            )
            for minute, number in ahead.items():
                sums[quarter_of(window.now_ms + minute * MINUTE_MS)]["ahead"] += number
        most = max(
            (max(one["good"] + one["ahead"], one["bad"]) for one in sums.values()), default=0
        )
        return [
            QuarterBar(
                at_ms=at_ms,
                x=window.place(at_ms),
                width=max(window.place(at_ms + QUARTER_MS) - window.place(at_ms) - 2, 2),
                number=one,
                height={
                    name: max(round(one[name] * QUARTER_HEIGHT / most, 1), 1.5)
                    for name in ("good", "bad", "ahead")
                    if one[name]
                },
            )
            for at_ms, one in sorted(sums.items())
        ]

    def _most_urgent(
        self,
        runs: Iterable[DrawnRun],
        skipped: Iterable[SkipLine],
        due: Iterable[int],
        failed: Mapping[int, int],
    ) -> list[int]:
        """Return job ids: skipped ones, late, failed, busy ones, then those with due times.

        `failed` are failures by job before those in `runs`.
        """
        urgency: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for skip in skipped:
            if skip.job is not None:
                urgency[skip.job_id][0] -= skip.number
        for job_id, number in failed.items():
            urgency[job_id][2] -= number
        for run in runs:
            urgency[run.job_id][1] -= span(run, self.window.now_ms).is_late
            urgency[run.job_id][2] -= run.status in TROUBLE
            urgency[run.job_id][3] -= 1
        return list(dict.fromkeys((*sorted(urgency, key=urgency.__getitem__), *due)))

    def _of_jobs(self, job_ids: Sequence[int], seen: Sample) -> list[Row]:
        spans = timeline.of_jobs(
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
        runs: dict[int, dict[int, DrawnRun]] = {job_id: {} for job_id in job_ids}
        for run in (*spans, *seen.runs):
            if run.job_id in runs:
                runs[run.job_id][run.id] = run
        jobs = job_names.by_ids(self.session, job_ids)
        skipped: dict[int, list[SkipLine]] = defaultdict(list)
        for skip in history.skips_of_jobs(
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
        job: NamedJob | None,
        sample: Sample,
        skipped: Sequence[SkipLine],
    ) -> Row:
        window = self.window
        spans = [span(run, window.now_ms) for run in sample.runs]
        lower = overlapping(spans)
        upcoming = self._upcoming(job) if job is not None else ()
        ticks = list(islice(upcoming, ROW_TICKS + 1))
        overdue = int(job is not None and self._is_overdue(job))
        return Row(
            job_id=job_id,
            name=job.name if job else "",
            app=job.app if job else "",
            zone=(job.timezone or self.timezone) if job else None,
            bars=draw(spans, window, lower),
            ticks=ticks[:ROW_TICKS],
            marks=self._marks(ticks[:ROW_TICKS]),
            skips=skip_marks(skipped, window),
            tally=Tally.of(spans, window, lower, overdue=overdue, skips=skipped),
            unread=window.place(sample.complete_from_ms) if sample.complete_from_ms else 0,
            has_more_ticks=len(ticks) > ROW_TICKS,
        )

    def _of_apps(
        self,
        app_ids: Sequence[int],
        jobs: Mapping[int, NamedJob],
        seen: Sample,
        skipped: Iterable[SkipLine],
    ) -> list[Row]:
        names = {job.app_id: job.app for job in jobs.values()}
        by_app: dict[str | None, list[SkipLine]] = defaultdict(list)
        for skip in skipped:
            by_app[skip.app].append(skip)
        newest = timeline.of_apps(
            self.session,
            app_ids,
            from_ms=self.window.from_ms - EARLIER_MS,
            until_ms=self.window.until_ms,
            limit=self.limits.of_apps // max(len(app_ids), 1),
        )
        sampled: dict[int, list[DrawnRun]] = defaultdict(list)
        for run in seen.runs:
            sampled[run.app_id].append(run)
        return [
            self._of_app(
                app_id,
                names[app_id],
                _with_sample(
                    {run.id: run for run in (*own.runs, *sampled[app_id])},
                    own.complete_from_ms,
                    seen,
                ),
                jobs,
                by_app[names[app_id]],
            )
            for app_id, own in newest.items()
        ]

    def _of_app(
        self,
        app_id: int,
        name: str,
        sample: Sample,
        jobs: Mapping[int, NamedJob],
        skipped: Sequence[SkipLine],
    ) -> Row:
        # A flow's bar would only cover those of its nodes.
        flows = {run.flow_run_id for run in sample.runs}
        runs = [run for run in sample.runs if run.id not in flows]
        spans = [span(run, self.window.now_ms) for run in runs]
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
            bars=draw(spans, self.window, lower),
            ticks=ticks[:ROW_TICKS],
            marks=self._marks(ticks[:ROW_TICKS]),
            skips=skip_marks(skipped[:ROW_SKIPS], self.window),
            tally=Tally.of(spans, self.window, lower, overdue=overdue, skips=skipped),
            unread=self.window.place(sample.complete_from_ms) if sample.complete_from_ms else 0,
            has_more_ticks=len(mine) > APP_JOBS or len(ticks) > ROW_TICKS,
        )

    def _upcoming(self, job: NamedJob) -> Iterator[int]:
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

    def _is_overdue(self, job: NamedJob) -> bool:
        """Whether a due time has passed that no scheduler has planned."""
        return bool(job.is_enabled and 0 < job.next_tick_at < self.window.now_ms - SHOWN_LATE_MS)

    def _marks(self, ticks: Iterable[int]) -> list[int]:
        return list(dict.fromkeys(self.window.place(tick) for tick in ticks))


def _with_sample(
    runs: Mapping[int, DrawnRun], complete_from_ms: int | None, seen: Sample
) -> Sample:
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
    return {run_id for each in by_job.values() for run_id in overlapping(each)}


@dataclass(frozen=True, slots=True)
class Zoom:
    """The period that a page shows around its middle, and what lies between its grid lines."""

    before_ms: int
    after_ms: int
    line_ms: int


#: By the value of their choice, the widest first.
ZOOMS = {
    "24": Zoom(24 * HOUR_MS, 24 * HOUR_MS, 4 * HOUR_MS),
    "6": Zoom(6 * HOUR_MS, 6 * HOUR_MS, HOUR_MS),
    "recent": Zoom(6 * HOUR_MS, HOUR_MS, HOUR_MS),
    "1": Zoom(HOUR_MS, HOUR_MS, HOUR_MS // 4),
}
DEFAULT_ZOOM = "recent"
#: The linked list of a bar's runs starts this much before the first is due, and ends later.
_AROUND_MS = 60_000
#: Limits for the middle of the page: 2000 to 2200.
_FIRST_MS, _LAST_MS = 946_684_800_000, 7_258_118_400_000


class TimelineForm(ConsoleForm):
    """Asks for apps, kind of rows and window."""

    app = SelectField(lazy_gettext("App"), default="")
    rows = SelectField(
        lazy_gettext("Group by"),
        choices=select_choices(
            [(Grouping.JOB, lazy_gettext("job")), (Grouping.APP, lazy_gettext("app"))]
        ),
        default=Grouping.JOB.value,
    )
    zoom = SelectField(
        lazy_gettext("Window"),
        choices=select_choices(
            [
                ("24", lazy_gettext("± 24 h")),
                ("6", lazy_gettext("± 6 h")),
                ("recent", lazy_gettext("last 6 h, next 1 h")),
                ("1", lazy_gettext("± 1 h")),
            ]
        ),
        default=DEFAULT_ZOOM,
    )


@dataclass(frozen=True, slots=True)
class Line:
    """A grid line: its position and its label."""

    x: int
    text: str


class BarTexts:
    """Titles and links of bars; what hundreds of them have in common is looked up once."""

    def __init__(self, local_times: LocalTimes) -> None:
        self._local_times = local_times
        self._states = {status: str(state.word) for status, state in labels.STATUS.items()}
        self._all, self._some = gettext("%(n)s runs"), gettext("%(n)s %(state)s")
        self._late, self._overlaps = gettext("late"), gettext("overlaps")
        self._lists: dict[tuple[int, str], str] = {}

    def title(self, bar: Bar) -> str:
        """Return when its first run began, what became of its runs, and what is unusual."""
        first = self._states[bar.status]
        if bar.count == 1:
            parts = [first, self._local_times.duration(bar.until_ms - bar.from_ms)]
        elif len(bar.states) == 1:
            parts = [self._all % {"n": bar.count}, first]
        else:
            states = [(number, self._states[status]) for status, number in bar.states.most_common()]
            parts = [
                self._all % {"n": bar.count},
                *(self._some % {"n": number, "state": state} for number, state in states),
            ]
        if bar.is_late:
            parts.append(self._late)
        if bar.lane:
            parts.append(self._overlaps)
        return f"{self._local_times.format(bar.from_ms)} · {', '.join(parts)}"

    def url(self, row: Row, bar: Bar) -> str:
        """Return the URL of a bar's run, or of the list of its runs."""
        if bar.count == 1:
            return url_for("runs.show", run_id=bar.run_id)
        key = (row.job_id, row.app)
        if key not in self._lists:
            job = (row.name or f"#{row.job_id}") if row.job_id else None
            self._lists[key] = url_for("runs.index", app=row.app or None, job=job)
        since = quote(self._local_times.input(bar.due_ms - _AROUND_MS))
        until = quote(self._local_times.input(bar.until_ms + _AROUND_MS))
        return f"{self._lists[key]}&since={since}&until={until}"


class TimelinePages:
    """Past and future runs of the visitor's jobs."""

    name = "timeline"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._local_times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/timeline", Right.VIEW)
    def show(self) -> str | tuple[str, int]:
        """Show runs as bars and due times as marks."""
        known, form = visitor(), TimelineForm(request.args)
        apps = self._services.database.read(lambda s: ids_by_name(s, known.app_ids))
        form.app.choices = select_choices([ALL, *((app, app) for app in apps)])
        if not form.validate():
            return render_template("pages/timeline.html", form=form, found=None), 422
        mine = {apps[form.app.data]} if form.app.data else known.app_ids
        zoom, grouping = ZOOMS[form.zoom.data], Grouping(form.rows.data)
        window = self._window(zoom)
        timeline = self._services.database.read(
            lambda s: TimelineReader(s, window, self._services.timezone).read(mine, grouping)
        )
        return render_template(
            "pages/timeline.html",
            form=form,
            found=timeline,
            width=WIDTH,
            lines=list(self._lines(window, zoom.line_ms)),
            middle_ms=_middle_ms(),
            step_ms=(zoom.before_ms + zoom.after_ms) // 2,
            closer=_neighbour(form.zoom.data, 1),
            wider=_neighbour(form.zoom.data, -1),
            bar_texts=BarTexts(self._local_times),
        )

    def _window(self, zoom: Zoom) -> Window:
        now_ms = self._services.now_ms()
        middle_ms = _middle_ms() or now_ms
        return Window(middle_ms - zoom.before_ms, middle_ms + zoom.after_ms, now_ms)

    def _lines(self, window: Window, step_ms: int) -> Iterator[Line]:
        """Yield the grid lines of a window, at full hours in the viewer's zone."""
        zone = ZoneInfo(self._local_times.zone())
        shift = moment(window.from_ms, zone).utcoffset() or timedelta()
        shift_ms = int(shift.total_seconds() * 1000)
        first = -(-(window.from_ms + shift_ms) // step_ms) * step_ms - shift_ms
        for instant in range(first, window.until_ms, step_ms):
            local = moment(instant, zone)
            yield Line(
                window.place(instant),
                f"{local:%H:%M}" if local.hour or local.minute else f"{local:%m-%d}",
            )


def _neighbour(zoom: str, step: int) -> str:
    """Return the choice of the next closer or wider period; empty if there is none."""
    place = list(ZOOMS).index(zoom) + step
    return list(ZOOMS)[place] if 0 <= place < len(ZOOMS) else ""


def _middle_ms() -> int | None:
    """Return the middle of the window from the URL; None = now."""
    at = request.args.get("at", type=int)
    return at if at is not None and _FIRST_MS <= at <= _LAST_MS else None
