"""Home: the board. One sentence, the last 24 hours, the machine in a line, jobs in trouble."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from flask import render_template, request, url_for
from flask_babel import gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from warren.admin_web.board_drawing import (
    QUARTER_MS,
    Day,
    Mark,
    Point,
    Pool,
    Quarter,
    Span,
    Strip,
    day,
    pool,
    strip,
)
from warren.admin_web.cached_counts import FRESH_SECONDS, CachedCounts
from warren.admin_web.language.catalogues import ENGLISH, language
from warren.admin_web.language.labels import reason_text, stored_text
from warren.admin_web.links import link_to
from warren.admin_web.local_times import LocalTimes, duration
from warren.admin_web.pages.bulk import MAX_TICKED
from warren.admin_web.pages.dashboard import spread
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.broker.stored_reasons import from_json
from warren.resources.board import (
    FAILS,
    BoardEvent,
    DueTimeMark,
    JobOnBoard,
    Trouble,
)
from warren.scheduler.actor import Right
from warren.scheduler.membership.self_health import SelfIssue
from warren.scheduler.views import board_view
from warren.scheduler.views.board_view import MAX_JOBS, NOT_RUN, BoardView, job_state
from warren.scheduler.views.process_view import (
    SchedulersView,
    executor_views,
    node_view,
    schedulers_view,
)
from warren.sql import limits
from warren.sql.board import due_runs
from warren.sql.board import listing as board
from warren.sql.board.listing import BoardScope, OldestRun, OutlookRow
from warren.sql.instants import DAY_MS, HOUR_MS, epoch_ms
from warren.sql.jobs import history, job_names
from warren.sql.listings import dashboard
from warren.sql.registry import pauses, presence
from warren.sql.run_status import FAILURES, RunStatus

#: Jobs on one page of a tab.
PAGE = 100
#: The most jobs on the pages before one.
MAX_PLACE = 1_000_000
#: The most jobs of a group that are listed.
MAX_OF_GROUP = 10
_TABS = ("trouble", "recovered", "all")
#: So many late starts of an app in an hour are bad.
MANY_LATE = 5
#: The longest label of a bar over the chart.
_LABEL_LENGTH = 48
#: Hours that are marked below the day's chart.
_EVERY_HOURS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job in a list; `why` is its error or reason, and `run_url` the run that failed, if any."""

    state: JobOnBoard
    strip: Strip
    why: str
    trouble_words: str
    since_ms: int
    next_ms: int
    took_ms: int
    mute: str
    again_url: str
    log_url: str
    mute_url: str
    kill_url: str
    run_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs that fail with the same error; its buttons act on the first `acted_on` of them.

    `mutes` say who looks after them, each with the names of the jobs that it is about, or none if
    it is about all `rows`.
    """

    key: str
    error: str
    jobs: int
    acted_on: int
    since_ms: int
    first_job: str
    rows: Sequence[Row]
    mutes: Mapping[str, Sequence[str]]
    again_url: str
    log_url: str
    mute_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the machine: its tone, its state in words, and where to look."""

    tone: str
    name: str
    state: str
    href: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """Something that lasted, as a bar over the chart, and where more is told about it.

    `label` is short, `title` is all of it.
    """

    id: int
    label: str
    title: str
    note: str
    tone: str
    more_url: str
    since_ms: int
    until_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLine:
    """An app in the next hour; `pause_url` is empty if the visitor may not pause it."""

    app: str
    pause_url: str
    slots: int
    tone: str
    note: str
    drawn: Pool


@dataclass(slots=True, kw_only=True)
class Page:
    """The board as its template reads it."""

    view: BoardView
    now_ms: int
    tab: str
    #: The event whose jobs are listed, instead of a tab.
    chosen: Lasting | None
    sentence: str
    details: list[str]
    day: Day
    spans: list[Lasting]
    machine: list[Part]
    groups: list[Group] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    more_url: str = ""
    #: How many jobs are not listed at the end of all, as they have never run.
    not_run: int = 0
    pools: list[PoolLine] = field(default_factory=list)

    @property
    def trouble_count(self) -> int:
        """How many jobs are in trouble."""
        shown = self.view.board
        return sum(number for name, number in shown.troubles.items() if name != Trouble.FINE)

    @property
    def title(self) -> str:
        """The page's title, with the number of jobs that fail."""
        number = self.view.board.failing
        if number == 1:
            return str(gettext("1 job fails"))
        return str(gettext("%(n)s jobs fail", n=number) if number else gettext("Board"))


class LocalClock(board_view.Clock):
    """Writes moments in the viewer's zone: only the time if they are of today."""

    def __init__(self, times: LocalTimes) -> None:
        self._times = times

    def short(self, at_ms: int) -> str:
        return self._times.short(at_ms)


class BoardPages:
    """What is wrong, since when, and why, in the visitor's apps."""

    name = "board"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._times = LocalTimes(services.cluster_zone, services.now_ms)
        self._numbers = CachedCounts(
            lambda session, apps: board_view.count(
                session, BoardScope(apps), now_ms=services.now_ms()
            )
        )
        self._lateness = CachedCounts(
            lambda session, apps: spread(
                dashboard.lateness(session, apps, now_ms=services.now_ms())
            )
        )

    @route("/", Right.VIEW)
    def show(self) -> str:
        known = visitor()
        tab = request.args.get("tab", "trouble")
        tab = tab if tab in _TABS else "trouble"
        page = self._services.database.read(lambda session: self._read(session, known, tab))
        # What ended a second ago may not be taken in yet.
        return render_template("pages/board.html", board=page, age=int(FRESH_SECONDS) + 1)

    @route("/board/icon.svg", Right.VIEW)
    def icon(self) -> Response:
        """Return the icon of the browser's tab, with the number of jobs that fail."""
        number = min(max(request.args.get("n", 0, type=int), 0), 99)
        drawn = render_template("pages/board_icon.html", number=number)
        return Response(drawn, mimetype="image/svg+xml")

    def _read(self, session: Session, known: Visitor, tab: str) -> Page:
        now_ms = self._services.now_ms()
        scope = board_view.scope_of(known.actor)
        is_shared = scope.job_ids is None
        view = board_view.read(
            session,
            known.actor,
            numbers=self._numbers.of(session, known.app_ids) if is_shared else None,
            now_ms=now_ms,
            clock=LocalClock(self._times),
            place=_place() if tab == "trouble" else 0,
            of_group=MAX_TICKED if tab == "trouble" else 1,
        )
        shown = view.board
        spans = _spans(session, scope, shown.events, now_ms)
        outlooks = board.outlooks(session, known.app_ids, since_ms=now_ms - HOUR_MS)
        event_id = request.args.get("event", 0, type=int)
        page = Page(
            view=view,
            now_ms=now_ms,
            tab=tab,
            chosen=next((span for span in spans if span.id == event_id), None),
            sentence=reason_text(view.sentence),
            details=[reason_text(detail) for detail in view.details],
            day=self._day(view, outlooks, spans, now_ms),
            spans=spans,
            machine=self._machine(session, known, now_ms),
            pools=_pools(session, known, outlooks),
        )
        if page.chosen is None:
            self._fill(session, scope, page)
            return page
        jobs = board_view.of_event(
            session, known.actor, event_id, now_ms=now_ms, limit=PAGE + 1, place=_place()
        )
        page.rows = self._rows(session, jobs[:PAGE])
        page.more_url = _more_url(jobs, event=event_id)
        return page

    def _fill(self, session: Session, scope: BoardScope, page: Page) -> None:
        """Read the jobs of the tab."""
        shown, now_ms = page.view.board, page.now_ms
        place = _place()
        if page.tab == "trouble":
            page.rows = self._rows(session, shown.jobs)
            if not place:
                page.groups = self._groups(session, page)
            if shown.more:
                page.more_url = f"{url_for('board.show')}?from={place + MAX_JOBS}"
            return
        if page.tab == "recovered":
            rows = board.recovered(
                session, scope, since_ms=now_ms - DAY_MS, limit=PAGE + 1, place=place
            )
        else:
            rows = board.everyone(session, scope, limit=PAGE + 1, place=place)
            page.not_run = max(0, shown.total - place - len(rows)) if len(rows) <= PAGE else 0
        page.more_url = _more_url(rows, tab=page.tab)
        page.rows = self._rows(session, [job_state(row, now_ms) for row in rows[:PAGE]])

    def _rows(self, session: Session, states: Sequence[JobOnBoard]) -> list[Row]:
        running = board.oldest_running(session, [state.id for state in states])
        causes = _causes(session, states, self._services.now_ms())
        return [
            self._row(state, running.get(state.id), causes.get(state.id, "")) for state in states
        ]

    def _groups(self, session: Session, page: Page) -> list[Group]:
        newest = page.view.in_groups
        listed = {key: [*jobs][:MAX_OF_GROUP] for key, jobs in newest.items()}
        rows = board.of_jobs(session, [id_ for ids in listed.values() for id_ in ids])
        running = board.oldest_running(session, rows)
        reasons = _reasons(session, (group.first_run for group in page.view.board.groups))
        found: list[Group] = []
        for group in page.view.board.groups:
            runs = newest.get(group.error_key, {})
            of_group = [
                self._row(job_state(rows[id_], page.now_ms), running.get(id_))
                for id_ in listed.get(group.error_key, ())
                if id_ in rows
            ]
            found.append(
                Group(
                    key=group.error_key,
                    error=stored_text(group.error, reasons.get(group.first_run)),
                    jobs=group.jobs,
                    acted_on=len(runs),
                    since_ms=_ms(group.since),
                    first_job=group.first_job,
                    rows=of_group,
                    mutes=_mutes(of_group),
                    again_url=_again_url([run_id for run_id in runs.values() if run_id]),
                    log_url=_log_url(group.first_run),
                    mute_url=_mute_url([*runs]),
                )
            )
        return found

    def _row(self, state: JobOnBoard, running: OldestRun | None = None, cause: str = "") -> Row:
        """Return the row of a job.

        `running` is the oldest run that is running, if one is; `cause` is why the job failed or
        was skipped.
        """
        fails, long = state.trouble in FAILS, running if state.trouble is Trouble.LONG else None
        log_url = _log_url(state.error_run if fails else state.newest_run)
        return Row(
            state=state,
            strip=strip_of(state, running, self._services.now_ms()),
            why=_why(state, self._times, cause),
            trouble_words=trouble_words(state.trouble),
            since_ms=_ms(state.trouble_since),
            next_ms=_ms(state.next_at),
            took_ms=int(state.took * 1000),
            mute=mute_words(state, self._times),
            again_url=_again_url([state.newest_run]) if fails and state.newest_run else "",
            log_url=_log_url_of(long) if long else log_url,
            mute_url=_mute_url([state.id]) if state.trouble is not Trouble.FINE else "",
            kill_url=_kill_url(long) if long else "",
            run_url=_run_url(state.newest_run) if fails else "",
        )

    def _day(
        self,
        view: BoardView,
        outlooks: Sequence[OutlookRow],
        spans: Sequence[Lasting],
        now_ms: int,
    ) -> Day:
        past = [
            Quarter(_ms(one.at), one.succeeded, one.failed, one.skipped)
            for one in view.board.quarters
        ]
        return day(
            past,
            _ahead(outlooks),
            [Span(one.since_ms, one.until_ms, f"{one.label} {one.note}") for one in spans],
            now_ms=now_ms,
            hours=_full_hours(now_ms, self._times.zone()),
        )

    def _machine(self, session: Session, known: Visitor, now_ms: int) -> list[Part]:
        """Return the parts of the machine, those in trouble first."""
        rows = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        schedulers = [node_view(row, now_ms) for row in rows]
        processes = dashboard.executors(session, known.app_ids)
        executors = executor_views(processes, {}, now_ms)
        ids = {f"{each.app}/{each.address}": each.id for each in processes}
        away = [executor for executor in executors if not executor.is_online]
        gone = [executor.address for executor in away]
        first_gone = next((ids[one.key] for one in away if one.key in ids), None)
        alive = sum(node.is_online for node in schedulers)
        there = len(executors) - len(gone)
        parts = [
            Part(
                tone="good" if alive else "bad",
                name=gettext("Schedulers"),
                state=gettext("%(n)s of %(all)s", n=alive, all=len(schedulers)),
                href=url_for("schedulers.index"),
            ),
            Part(
                tone="good" if not gone and executors else "bad",
                name=gettext("Executors"),
                state=gettext("%(n)s of %(all)s", n=there, all=len(executors)),
                href=url_for("executors.show", executor_id=first_gone)
                if first_gone
                else url_for("executors.index"),
                note=gettext("gone: %(names)s", names=", ".join(gone[:2])) if gone else "",
            ),
            *self._full_limits(session),
            *self._paused(session, known),
            *self._start_delay(session, known),
            *self._services_used(schedulers_view(rows, now_ms)),
        ]
        return sorted(parts, key=lambda part: ("bad", "warn", "good").index(part.tone))

    def _services_used(self, said: SchedulersView) -> Iterable[Part]:
        href = url_for("schedulers.index")
        broker, database = gettext("ok"), gettext("ok")  # without a database, there is no page
        if not self._services.is_broker_up():
            broker = gettext("unreachable")
        elif said.is_stalled:
            broker = gettext("confirms nothing")
        if SelfIssue.SERVER in said.ailments:
            database = gettext("replaced server still takes writes")
        for name, state in ((gettext("Broker"), broker), (gettext("Database"), database)):
            tone = "good" if state == gettext("ok") else "bad"
            yield Part(tone=tone, name=name, state=state, href=href)

    def _full_limits(self, session: Session) -> Iterable[Part]:
        rows = limits.all_named(session)
        room = limits.room(session, [row.id for row in rows]) if rows else {}
        for row in rows:
            held = room[row.id][1] if row.id in room else 0
            if row.at_once is not None and held >= row.at_once:
                yield Part(
                    tone="warn",
                    name=gettext("Limit"),
                    state=gettext("%(name)s full", name=row.name or ""),
                    href=url_for("limits.index"),
                )

    def _paused(self, session: Session, known: Visitor) -> Iterable[Part]:
        for pause in pauses.in_force(session, self._services.now_ms(), known.app_ids):
            yield Part(
                tone="warn",
                name=gettext("Paused"),
                state=pause.app or gettext("everything"),
                href=url_for("schedulers.index"),
                note=gettext("by %(who)s", who=pause.paused_by),
            )

    def _start_delay(self, session: Session, known: Visitor) -> Iterable[Part]:
        if (late := self._lateness.of(session, known.app_ids)) is not None:
            yield Part(
                tone="good",
                name=gettext("Start"),
                state=self._times.duration(late.middle),
                href=url_for("dashboard.show"),
            )


_TROUBLE_WORDS = {
    Trouble.FAILING: lambda: gettext("failing"),
    Trouble.LOST: lambda: gettext("lost with its executor"),
    Trouble.SKIPPED: lambda: gettext("skipped"),
    Trouble.WAITING: lambda: gettext("waiting"),
    Trouble.SLOW: lambda: gettext("much slower than usual"),
    Trouble.LONG: lambda: gettext("running beyond usual"),
    Trouble.FINE: lambda: gettext("fine"),
}


def _place() -> int:
    """Return how many jobs are on the pages before this one."""
    return min(max(0, request.args.get("from", 0, type=int)), MAX_PLACE)


def _more_url(found: Sequence[object], **choice: Any) -> str:
    """Return the URL of the page after this one, of those with a choice; empty for the last."""
    if len(found) <= PAGE:
        return ""
    return f"{url_for('board.show', **choice)}&from={_place() + PAGE}"


def _ms(instant: datetime | None) -> int:
    return 0 if instant is None else epoch_ms(instant)


def strip_of(state: JobOnBoard, running: OldestRun | None, now_ms: int) -> Strip:
    """Return the drawing of a job's last due times, with its oldest run that is running, if any."""
    points = [_point(mark) for mark in state.strip]
    if running is not None:
        points.append(Point(Mark.RUNNING, max(0, now_ms - running.started_at)))
    return strip(points)


def trouble_words(trouble: Trouble) -> str:
    """Return what is wrong with a job, in words."""
    return str(_TROUBLE_WORDS[trouble]())


def _point(mark: DueTimeMark) -> Point:
    if mark.status == NOT_RUN:
        return Point(Mark.SKIPPED, count=mark.count)
    status, took_ms = RunStatus(mark.status), int(mark.took * 1000)
    if status is RunStatus.SUCCEEDED:
        return Point(Mark.GOOD, took_ms)
    if status is RunStatus.LOST:
        return Point(Mark.LOST, took_ms)
    if status in FAILURES:
        return Point(Mark.BAD, took_ms)
    return Point(Mark.NONE)


def mute_words(state: JobOnBoard, times: LocalTimes) -> str:
    """Return who looks after a job, until when and why; empty if nobody does."""
    if state.mute is None:
        return ""
    until = times.short(_ms(state.mute.until))
    words = gettext("muted until %(time)s by %(who)s", time=until, who=state.mute.by)
    if not state.mute.silent:
        words = gettext("acknowledged until %(time)s by %(who)s", time=until, who=state.mute.by)
    return f"{words}: {state.mute.why}" if state.mute.why else words


def _mutes(rows: Sequence[Row]) -> dict[str, Sequence[str]]:
    """Return the mutes of some jobs, each with the names of its jobs; with none if it has all."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if row.mute:
            names.setdefault(row.mute, []).append(row.state.job)
    return {words: of if len(of) < len(rows) else () for words, of in names.items()}


def _causes(session: Session, states: Sequence[JobOnBoard], now_ms: int) -> dict[int, str]:
    """Return why jobs that are listed for it fail, or why their newest due time was skipped."""
    failing = [state for state in states if state.trouble in FAILS]
    reasons = _reasons(session, (state.error_run for state in failing))
    causes = {
        state.id: stored_text(state.error, reasons.get(state.error_run or 0)) for state in failing
    }
    job_ids = [state.id for state in states if state.trouble is Trouble.SKIPPED]
    lines = history.skips_of_jobs(session, job_ids, from_ms=0, until_ms=now_ms, limit=1)
    return causes | {line.job_id: stored_text(line.reason, line.why) for line in lines}


def _reasons(session: Session, run_ids: Iterable[int | None]) -> Mapping[int, str]:
    """Return the stored reasons of runs that have failed; none are needed in English."""
    return {} if language() == ENGLISH else due_runs.reasons(session, filter(None, run_ids))


def _why(state: JobOnBoard, times: LocalTimes, cause: str) -> str:
    """Return the newest error of a job, or the reason why it is listed."""
    if state.trouble in FAILS:
        return cause or state.error
    spans = (state.took, state.usual, state.last_week)
    took, usual, week = (times.duration(int((seconds or 0) * 1000)) for seconds in spans)
    reasons: Mapping[Trouble, Callable[[], str]] = {
        Trouble.SKIPPED: lambda: ": ".join(
            part for part in (gettext("%(n)s skipped", n=state.count), cause) if part
        ),
        Trouble.WAITING: lambda: (
            gettext("1 run waits")
            if state.count == 1
            else gettext("%(n)s runs wait", n=state.count)
        ),
        Trouble.SLOW: lambda: _slow(took, usual, week if state.last_week else ""),
        Trouble.LONG: lambda: gettext("still running, usually %(usual)s", usual=usual),
    }
    return reasons[state.trouble]() if state.trouble in reasons else ""


def _slow(took: str, usual: str, week: str) -> str:
    if week:
        return str(
            gettext(
                "took %(took)s, usually %(usual)s, a week ago %(week)s",
                took=took,
                usual=usual,
                week=week,
            )
        )
    return str(gettext("took %(took)s, usually %(usual)s", took=took, usual=usual))


def _again_url(run_ids: Sequence[int]) -> str:
    if not run_ids or not visitor().may(Right.OPERATE):
        return ""
    # Of a broadcast, several shards may have failed.
    return url_for("bulk_runs.ask", action="again", times="whole", id=list(run_ids))


def _run_url(run_id: int | None) -> str:
    return url_for("runs.show", run_id=run_id) if run_id else ""


def _log_url(run_id: int | None) -> str:
    return url_for("runs.log", run_id=run_id) if run_id else ""


def _log_url_of(running: OldestRun) -> str:
    """Return the page with the log of a run; of a broadcast, with the logs of all shards."""
    if running.shard_total == 1:
        return _log_url(running.id)
    return url_for("broadcasts.show", run_id=running.id)


def _kill_url(running: OldestRun) -> str:
    """Return the page that asks whether to kill a run, or all shards of a broadcast."""
    if not visitor().may(Right.OPERATE):
        return ""
    page = "runs.show" if running.shard_total == 1 else "broadcasts.show"
    return url_for(page, run_id=running.id, _anchor="kill")


def _mute_url(job_ids: Sequence[int]) -> str:
    return link_to("mutes.ask", id=list(job_ids)) if visitor().may(Right.OPERATE) else ""


def _spans(
    session: Session, scope: board.BoardScope, events: Sequence[BoardEvent], now_ms: int
) -> list[Lasting]:
    """Return events in words; an outage's error in those of the newest run that has it."""
    keys = {event.error_key for event in events if event.error_key}
    newest: Mapping[str, int] = {}
    if keys and language() != ENGLISH:
        newest = board.newest_runs_with(session, scope, keys, since_ms=now_ms - DAY_MS)
    reasons = _reasons(session, newest.values())
    return [
        _lasting(event, reason_text(from_json(reasons.get(run_id)) or event.subject))
        for event in events
        for run_id in [newest.get(event.error_key, 0)]
    ]


def _lasting(event: BoardEvent, error: str) -> Lasting:
    """Return an event in words; `error` is that of an outage."""
    label, note, tone, more = _told(event, error)
    return Lasting(
        id=event.id,
        label=label,
        title=error if event.kind == "OUTAGE" else label,
        note=note,
        tone=tone,
        more_url=more,
        since_ms=_ms(event.since),
        until_ms=None if event.until is None else _ms(event.until),
    )


def _told(event: BoardEvent, error: str) -> tuple[str, str, str, str]:
    """Return the label of an event, its note, its tone, and where more is told about it."""
    match event.kind:
        case "OUTAGE":
            more = url_for("runs.index", status="unresolved")
            return short_error(error), _of_outage(event), "bad", more
        case "NO_SCHEDULER":
            several = gettext("%(n)s due times skipped", n=event.count)
            skipped = _counted(event.count, gettext("1 due time skipped"), several)
            label = gettext("no scheduler")
            if event.until is not None:
                time = duration(_ms(event.until) - _ms(event.since))
                label = gettext("no scheduler for %(time)s", time=time)
            return label, skipped, "ring", url_for("timeline.show")
        case "EXECUTOR_GONE":
            several = gettext("%(n)s runs lost", n=event.count)
            lost = _counted(event.count, gettext("1 run lost"), several)
            label = gettext("executor %(name)s gone", name=event.subject)
            return label, lost, "warn", url_for("executors.index")
        case "PAUSE":
            label = gettext("%(what)s paused", what=event.app or gettext("everything"))
            return label, event.subject, "pause", url_for("schedulers.index")
        case "LIMIT_FULL":
            several = gettext("%(n)s runs waited", n=event.count)
            waited = _counted(event.count, gettext("1 run waited"), several)
            label = gettext("limit %(name)s full", name=event.subject)
            return label, waited, "warn", url_for("queue.index")
    return event.subject, "", "warn", url_for("timeline.show")


def short_error(text: str) -> str:
    """Return the last part of an error's text that says something: what tells errors apart."""
    parts = [part.strip() for part in text.split(": ")]
    spoken = [part for part in parts if " " in part and part[0] not in "'\""]
    short = spoken[-1] if spoken else text
    return short if len(short) <= _LABEL_LENGTH else f"{short[: _LABEL_LENGTH - 1].rstrip()}…"


def _of_outage(event: BoardEvent) -> str:
    jobs = str(gettext("%(n)s jobs", n=event.count))
    if not event.recovered:
        return jobs
    return f"{jobs} · {gettext('%(n)s recovered', n=event.recovered)}"


def _counted(number: int, one: str, several: str) -> str:
    """Return the words that fit a number; none for 0."""
    return "" if not number else one if number == 1 else several


def _ahead(outlooks: Sequence[OutlookRow]) -> list[Quarter]:
    """Return how many due times there are in each quarter of the next hour."""
    numbers: Counter[int] = Counter()
    for row in outlooks:
        for place, number in enumerate(row.content.get("quarters", [])):
            numbers[place] += number
    made_at = max((row.made_at for row in outlooks), default=0)
    return [
        Quarter(made_at + place * QUARTER_MS, succeeded=number)
        for place, number in sorted(numbers.items())
        if number
    ]


def _pools(session: Session, known: Visitor, outlooks: Sequence[OutlookRow]) -> list[PoolLine]:
    """Return what is expected in each app in the next hour."""
    found = [(row, row.content) for row in outlooks]
    first_late = {content["late"][0]["job_id"] for _, content in found if content["late"]}
    may_pause = known.may(Right.OPERATE)
    # By their names alone: a job that has never run has no state.
    names = {id_: job.name for id_, job in job_names.by_ids(session, first_late).items()}
    lines = []
    for row, content in found:
        late, count, held = content["late"], content["late_count"], content.get("held", 0)
        due = f"> {content['due']}" if content.get("is_cut") else str(content["due"])
        if not late:
            note = (
                gettext("%(n)s due, all start on time", n=due)
                if due != "1"
                else gettext("1 due, and it starts on time")
            )
        else:
            job = names.get(late[0]["job_id"], "")
            most = duration(content.get("latest_ms", 0))
            if content.get("stays_late"):
                most = f"> {most}"
            note = (
                gettext(
                    "1 of %(all)s due starts %(most)s late: %(job)s", all=due, most=most, job=job
                )
                if count == 1
                else gettext(
                    "%(n)s of %(all)s due start up to %(most)s late, the first: %(job)s",
                    n=count,
                    all=due,
                    most=most,
                    job=job,
                )
            )
        if held:
            words = gettext("paused, %(n)s due meanwhile", n=held)
            note = f"{words}; {note}" if content["due"] else words
        lines.append(
            PoolLine(
                app=row.app,
                pause_url=url_for("pauses.ask_app", app_id=row.app_id) if may_pause else "",
                slots=content["slots"],
                tone="bad" if count > MANY_LATE else "warn" if late or held else "",
                note=note,
                drawn=pool(content["minutes"], content["waiting"], content["slots"]),
            )
        )
    return lines


def _full_hours(now_ms: int, zone: str) -> list[int]:
    """Return the full hours of the last day that are marked: every third one of the local day."""
    now = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(zone))
    last = int(now.replace(minute=0, second=0, microsecond=0).timestamp() * 1000)
    hours = [last - back * HOUR_MS for back in range(24)]
    return [
        hour
        for hour in reversed(hours)
        if datetime.fromtimestamp(hour / 1000, ZoneInfo(zone)).hour % _EVERY_HOURS == 0
    ]
