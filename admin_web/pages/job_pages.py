"""The pages that show jobs: the list, and one job with its past and future runs.

A job's page is read at once: settings, family graph, last and next runs. The family graph has one
column per generation, laid out for a template to draw.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from flask import render_template, request
from flask_babel import gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from warren.admin_web import charts, exports
from warren.admin_web.board_drawing import Strip
from warren.admin_web.charts import HeatMap
from warren.admin_web.exports import ListFiles
from warren.admin_web.flows import Picture, job_picture
from warren.admin_web.forms.job_fields import FORM_FIELDS, JobForm
from warren.admin_web.forms.run_filter import LINES, JobFilterForm, wanted
from warren.admin_web.language import job_labels
from warren.admin_web.language.job_labels import CALL_WHEN, GAPS, ON_HOLIDAY, OPTIONS, label_of
from warren.admin_web.language.labels import problem_text
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.pages.alarms import JobTarget, read_targets
from warren.admin_web.pages.board import strip_of, trouble_words
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.broker.reasons import Reason
from warren.resources.board import JobOnBoard, Trouble
from warren.scheduler.actor import Right
from warren.scheduler.alarms.watches import STAGES
from warren.scheduler.jobs.spec import AppSpec, Choice, Field, JobSpec, Number, Texts, Webhook
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.misfire import MisfirePolicy
from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.schedules.reading import (
    calendars_for,
    is_waiting,
    load_calendars,
    next_fire,
    next_fires,
    read_schedule,
)
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.scheduler.schedules.working_days import date_of
from warren.scheduler.views import blockers
from warren.scheduler.views.board_view import job_state
from warren.sql.accounts import preferences
from warren.sql.board import listing as board
from warren.sql.instants import moment
from warren.sql.jobs import history, job_links, job_names
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.jobs.history import SkipFilter, SkipLine
from warren.sql.listings import job_search, run_relations
from warren.sql.listings.job_search import JobFilter, ListedJob
from warren.sql.listings.run_relations import Family
from warren.sql.registry.apps import ids_by_name
from warren.sql.run_status import OPEN, RunStatus
from warren.sql.runs.run_rows import DetailedRun

BOX_WIDTH, BOX_HEIGHT, GAP, COLUMN_GAP = 190, 34, 10, 44
#: The most generations that fit on a page, shrunk if necessary.
MAX_SHRUNK = 4
#: Characters of a name that fit into a box, and boxes in a column at most.
MAX_NAME, MAX_BOXES = 21, 12


@dataclass(frozen=True, slots=True)
class Box:
    """A job; `job_id` 0 stands for all that do not fit."""

    job_id: int
    name: str
    x: int
    y: int
    width: int = BOX_WIDTH
    height: int = BOX_HEIGHT

    @property
    def short_name(self) -> str:
        """The end of the name, shortened to fit."""
        return self.name if len(self.name) <= MAX_NAME else f"…{self.name[1 - MAX_NAME :]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyGraph:
    """A drawing of `width` by `height` pixels; each arrow is an SVG path between two boxes.

    `relatives` are all boxes but the job's own. `is_cut`: the family is larger. `fits`: its texts
    can still be read when it is as narrow as its place.
    """

    width: int
    height: int
    relatives: tuple[Box, ...]
    job: Box
    arrows: tuple[str, ...]
    is_cut: bool
    fits: bool


def draw(job_id: int, family: Family) -> FamilyGraph | None:
    """Return the drawing of a job's family; None if it has no relatives."""
    if len(family.names) <= 1:
        return None
    ranks = generations(job_id, family.links)
    columns: dict[int, list[int]] = defaultdict(list)
    for each in sorted(family.names, key=lambda name: family.names[name]):
        columns[ranks.get(each, 0)].append(each)
    shown = [_boxed(columns[rank], family.names, job_id) for rank in sorted(columns)]
    height = max(len(column) for column in shown) * (BOX_HEIGHT + GAP) + GAP
    boxes = [
        box
        for place, column in enumerate(shown)
        for box in _column(column, 1 + place * (BOX_WIDTH + COLUMN_GAP), height)
    ]
    by_id = {box.job_id: box for box in boxes if box.job_id}
    return FamilyGraph(
        width=len(shown) * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP + 2,
        height=height,
        relatives=tuple(box for box in boxes if box.job_id != job_id),
        job=by_id[job_id],
        arrows=tuple(
            _arrow(by_id[parent], by_id[child])
            for parent, child in family.links
            if parent in by_id and child in by_id and parent != child
        ),
        is_cut=family.is_cut,
        fits=len(shown) <= MAX_SHRUNK,
    )


def generations(job_id: int, links: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return each relative's longest distance from the job: children 1, parents -1."""
    down = _distances(job_id, links)
    up = _distances(job_id, [(child, parent) for parent, child in links])
    return {each: -steps for each, steps in up.items()} | down


def _distances(start: int, links: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the longest path to each job; ends even if there is a cycle, which no rule allows."""
    children: dict[int, list[int]] = defaultdict(list)
    for parent, child in links:
        children[parent].append(child)
    distances, edge = {start: 0}, {start}
    for steps in range(1, len(children) + 1):
        edge = {child for parent in edge for child in children[parent]} - {start}
        distances |= dict.fromkeys(edge, steps)
    return distances


def _boxed(job_ids: Sequence[int], names: dict[int, str], job_id: int) -> list[tuple[int, str]]:
    """Return the jobs of a column; if there are too many, the first ones and the job itself."""
    first = sorted(job_ids, key=lambda job_id_: job_id_ != job_id)
    if len(job_ids) <= MAX_BOXES:
        return [(box, names[box]) for box in job_ids]
    kept = [(box, names[box]) for box in first[: MAX_BOXES - 1]]
    return [*kept, (0, f"+ {len(job_ids) - MAX_BOXES + 1}")]


def _column(jobs: Sequence[tuple[int, str]], x: int, height: int) -> tuple[Box, ...]:
    top = (height - len(jobs) * (BOX_HEIGHT + GAP) + GAP) // 2
    return tuple(
        Box(job_id, name, x, top + rank * (BOX_HEIGHT + GAP))
        for rank, (job_id, name) in enumerate(jobs)
    )


def _arrow(start: Box, end: Box) -> str:
    x1, y1 = start.x + BOX_WIDTH, start.y + BOX_HEIGHT // 2
    x2, y2 = end.x - 7, end.y + BOX_HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"


#: Fields that the page shows elsewhere.
_ELSEWHERE = frozenset({"name", "app", "schedule_kind", "timezone", "language", "enabled"})


class Setting(NamedTuple):
    """A row of the list; `look` are its CSS classes."""

    label: str
    value: str
    look: str


def read_settings(spec: JobSpec, *, may_see_secrets: bool) -> list[Setting]:
    """Return a job's settings in the order of the form, without empty ones.

    For a secret that the visitor may not see, only that it is set.
    """
    form = JobForm()
    settings = [
        Setting(
            str(form[name].label.text),
            shown_setting(field, getattr(spec, field.name), may_see_secrets=may_see_secrets),
            _look(field),
        )
        for name, field in FORM_FIELDS.items()
        if name not in _ELSEWHERE and not _is_unused(field, spec)
    ]
    settings = [*_options(form, spec.schedule_options), *settings]
    return [setting for setting in settings if setting.value]


def _options(form: JobForm, options: ScheduleOptions) -> list[Setting]:
    words = {"on_holiday": ON_HOLIDAY, "gap": GAPS}
    values = {name: getattr(options, name) for name in form.option_fields}
    return [
        Setting(
            str(form[name].label.text),
            str(words.get(name, {}).get(value, value)) if value else "",
            "",
        )
        for name, value in values.items()
    ]


def _calendar_ends(session: Session, facts: ScheduleFacts, now_ms: int) -> str:
    """Return the last day that a schedule's calendar knows, if that stops its job soon."""
    try:
        calendar = ScheduleOptions.from_json(facts.options).calendar
        ticks = read_schedule(facts, load_calendars(session, [calendar]))
    except Problem:
        return ""
    day = ticks.ends_with_calendar()
    if day is None or date_of(day) > moment(now_ms).date() + timedelta(days=STAGES[0]):
        return ""
    return date_of(day).isoformat()


def _is_unused(field: Field, spec: JobSpec) -> bool:
    """Whether a field is about catching up, in a job that does not catch up."""
    return field.kind.group == "catch_up" and spec.misfire != MisfirePolicy.CATCH_UP


def shown_setting(field: Field, value: Any, *, may_see_secrets: bool) -> str:
    """Return the value of a job's field in words; empty for none."""
    kind = field.kind
    if isinstance(kind, Number):
        return str(value or "")
    if field.name == "webhook_when":
        return str(CALL_WHEN.get(value, value)) if value else ""
    if kind.is_secret and value and not may_see_secrets:
        return str(gettext("yes"))
    if isinstance(kind, Choice):
        return label_of(OPTIONS.get(field.name, {}), value)
    return kind.shown(value)


def _look(field: Field) -> str:
    if isinstance(field.kind, Webhook):
        return "wrap"
    is_code = field.name in ("handler", "param") and not isinstance(field.kind, Choice | Texts)
    return "mono wrap" if is_code else ""


#: Runs in the list, and runs that the statistics and the chart include.
LISTED, LOOKED_AT = 10, 100
FIRES = 5
#: Runs at times of their own that are listed.
ASKED_FOR = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    """A job, its last runs and its next ones; its graph, and the `flows` whose node it is.

    `calendar_ends` is the last day that its calendar knows, if that is near. `asked_for` are the
    first planned runs that were triggered for later.
    """

    now_ms: int
    job: ListedJob
    spec: JobSpec
    zone: str
    fires: Sequence[int]
    asked_for: Sequence[DetailedRun]
    has_more_asked_for: bool
    is_waiting: bool
    wrong: str
    runs: list[DetailedRun]
    skips: list[SkipLine]
    days: HeatMap
    family: FamilyGraph | None
    hidden_children: int
    is_favourite: bool
    blockers: list[Reason]
    calendar_ends: str
    targets: list[JobTarget]
    flow: Picture | None
    flows: Mapping[int, str]

    @property
    def calendar(self) -> str:
        return self.spec.schedule_options.calendar

    @property
    def listed(self) -> list[DetailedRun | SkipLine]:
        """The last runs and, between them, the due times that were skipped, latest first.

        A due time that was planned and then skipped has a cancelled run, which says why.
        """
        cancelled = {run.due_at for run in self.runs if run.status == RunStatus.CANCELLED}
        unseen = [item for item in self.skips if item.number > 1 or item.from_at not in cancelled]
        both: list[DetailedRun | SkipLine] = [*self.runs, *unseen]
        if len(self.runs) == LOOKED_AT:  # earlier skips lie between runs that were not read
            both = [item for item in both if _due_ms(item) >= self.runs[-1].due_at]
        return sorted(both, key=_due_ms, reverse=True)[:LISTED]

    @property
    def ended(self) -> list[DetailedRun]:
        """The last runs that ended and did something, newest first."""
        neither = {*OPEN, RunStatus.CANCELLED, RunStatus.SKIPPED}
        return [run for run in self.runs if run.status not in neither]

    @property
    def succeeded(self) -> int:
        """How many of the ended runs succeeded."""
        return sum(run.status == RunStatus.SUCCEEDED for run in self.ended)

    @property
    def measured(self) -> list[DetailedRun]:
        """The ended runs that have a duration."""
        return [run for run in self.ended if run.lasted_ms is not None]

    @property
    def median_ms(self) -> int | None:
        """The median of these durations; None if there are none."""
        durations = sorted(run.lasted_ms for run in self.ended if run.lasted_ms is not None)
        return durations[len(durations) // 2] if durations else None


def read_details(
    session: Session, services: ConsoleServices, visitor: Visitor, job_id: int
) -> JobDetails:
    """Return what a job's page shows.

    Raises:
        NotFound: there is no such job, or the visitor may not see it.

    """
    now_ms = services.now_ms()
    stored, spec, hidden = services.commands(visitor.actor).jobs.read(session, job_id)
    asked_for = job_search.asked_for(session, job_id, after_ms=now_ms, limit=ASKED_FOR + 1)
    fires: Sequence[int] = ()
    wrong = ""
    try:
        fires = next_fires(
            stored,
            now_ms=now_ms,
            count=FIRES,
            timezone=services.timezone,
            calendars=calendars_for(session, [stored]),
        )
    except Problem as problem:
        wrong = problem_text(problem)
    return JobDetails(
        now_ms=now_ms,
        job=job_search.show(session, job_id, visitor.app_ids, now_ms=now_ms),
        spec=spec,
        zone=spec.timezone or services.timezone,
        fires=fires,
        asked_for=asked_for[:ASKED_FOR],
        has_more_asked_for=len(asked_for) > ASKED_FOR,
        is_waiting=is_waiting(stored),
        wrong=wrong,
        runs=job_search.last_runs(session, job_id, now_ms=now_ms, limit=LOOKED_AT),
        skips=history.skip_lines(session, SkipFilter(job_id=job_id, limit=LISTED)),
        days=charts.heat_map(session, job_id, now_ms=now_ms, zone=services.timezone),
        family=draw(job_id, run_relations.read(session, job_id, visitor.app_ids)),
        hidden_children=len(hidden),
        is_favourite=preferences.is_favourite(session, visitor.user_id, job_id),
        blockers=_blockers(session, services, stored.app_id, spec),
        calendar_ends=_calendar_ends(
            session, ScheduleFacts.of(stored, spec.timezone or services.timezone), now_ms
        ),
        targets=read_targets(session, job_id),
        flow=_picture(session, spec, job_id),
        flows=job_search.names(
            session, job_links.flows_with(session, [job_id]).get(job_id, ()), visitor.app_ids
        ),
    )


def _picture(session: Session, spec: JobSpec, job_id: int) -> Picture | None:
    if spec.flow is None or not spec.flow.nodes:
        return None
    node_ids = job_links.nodes_of(session, [job_id]).get(job_id, ())
    ids = {(job.app, job.name): job.id for job in job_names.by_ids(session, node_ids).values()}
    return job_picture(spec.flow, spec.app, ids)


def _due_ms(run_line: DetailedRun | SkipLine) -> int:
    return run_line.due_at if isinstance(run_line, DetailedRun) else run_line.to_at


def _blockers(
    session: Session, services: ConsoleServices, app_id: int, spec: JobSpec
) -> list[Reason]:
    times = LocalTimes(services.cluster_zone, services.now_ms)
    job_blockers = blockers.read(
        session, [app_id], now_ms=services.now_ms(), format_time=times.format
    )
    return job_blockers.of_spec(spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """How a job in the list is doing: its last due times, and its duration against others.

    `change` is against a week ago and `share` of the time between due times, in percent; None = it
    is not known.
    """

    strip: Strip
    trouble: Trouble
    trouble_words: str
    took_ms: int
    usual_ms: int
    change: int | None
    share: int | None


def _listed(
    session: Session, asked: JobFilter, now_ms: int
) -> tuple[Sequence[ListedJob], Mapping[int, JobLine]]:
    """Return a page of jobs, and how those are doing that have run, by id."""
    jobs = job_search.search(session, asked, now_ms=now_ms)
    rows = board.of_jobs(session, [job.id for job in jobs])
    running = board.oldest_running(session, rows)
    lines = {}
    for job in jobs:
        if job.id in rows:
            state = job_state(rows[job.id], now_ms)
            drawn = strip_of(state, running.get(job.id), now_ms)
            lines[job.id] = _line(state, job, drawn)
    return jobs, lines


def _line(state: JobOnBoard, job: ListedJob, drawn: Strip) -> JobLine:
    usual, week, last_at = state.usual, state.last_week, job.stored.last_tick_at
    period_ms = job.next_tick_at - last_at if last_at and job.next_tick_at < PARKED_MS else 0
    return JobLine(
        strip=drawn,
        trouble=state.trouble,
        trouble_words=trouble_words(state.trouble),
        took_ms=int(state.took * 1000),
        usual_ms=int((usual or 0) * 1000),
        change=round((usual - week) * 100 / week) if usual and week else None,
        share=round(usual * 100_000 / period_ms) if usual and period_ms > 0 else None,
    )


Page = Response | str | tuple[str, int]


class JobPages:
    """Jobs of the visitor's apps."""

    name = "jobs"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._files = ListFiles(services)

    @route("/jobs", Right.VIEW)
    def index(self) -> Page:
        known, now_ms = visitor(), self._services.now_ms()
        form = JobFilterForm(request.args)
        apps, saved = self._services.database.read(
            lambda s: (
                list(ids_by_name(s, known.app_ids)),
                preferences.filters(s, known.user_id, "jobs"),
            )
        )
        form.set_choices(apps)
        if not form.validate():
            facts = {"form": form, "saved": saved}
            return render_template("pages/jobs.html", **facts, jobs=[], further=None), 422
        asked = wanted(form, known)
        if exports.is_asked():
            return self._files.jobs(asked)
        jobs, lines = self._services.database.read(lambda s: _listed(s, asked, now_ms))
        further = job_search.place(jobs[LINES - 1], asked.order) if len(jobs) > LINES else None
        return render_template(
            "pages/jobs.html",
            job_labels=job_labels,
            form=form,
            saved=saved,
            jobs=jobs[:LINES],
            lines=lines,
            further=further,
            next_fire=self._next_fire(jobs),
            is_waiting=is_waiting,
        )

    @route("/jobs/<id:job_id>", Right.VIEW)
    def show(self, job_id: int) -> str:
        details = self._details(job_id)
        return render_template(
            "pages/jobs_show.html",
            job_labels=job_labels,
            details=details,
            settings=read_settings(details.spec, may_see_secrets=visitor().may(Right.OPERATE)),
            yaml=self._yaml(details.spec),
        )

    @route("/jobs/<id:job_id>/yaml", Right.OPERATE)
    def export(self, job_id: int) -> Response:
        """Return a job as a job file."""
        spec = self._details(job_id).spec
        headers = {"Content-Disposition": f'attachment; filename="job-{job_id}.yaml"'}
        return Response(self._yaml(spec), mimetype="application/yaml", headers=headers)

    def _details(self, job_id: int) -> JobDetails:
        known = visitor()
        return self._services.database.read(
            lambda s: read_details(s, self._services, known, job_id)
        )

    def _yaml(self, spec: JobSpec) -> str:
        """Return the job as a job file, if the visitor may see its webhooks; else nothing."""
        if self._services.job_file is None or not visitor().may(Right.OPERATE):
            return ""
        lines = self._services.job_file([AppSpec(name=spec.app)], [spec], (), ())
        return "".join(f"{line}\n" for line in lines)

    def _next_fire(self, jobs: Sequence[ListedJob]) -> Callable[[ListedJob], int | None]:
        """Return what gives the next tick of each of these jobs."""
        calendars = self._services.database.read(lambda s: calendars_for(s, jobs))
        return partial(
            next_fire,
            now_ms=self._services.now_ms(),
            timezone=self._services.timezone,
            calendars=calendars,
        )
