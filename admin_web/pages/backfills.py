"""The pages of backfills: the list, one with its dates as a grid, and the forms that make them."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from werkzeug.wrappers import Response
from wtforms import BooleanField, IntegerField, SelectField, StringField
from wtforms.validators import InputRequired, Length, NumberRange, Optional

from warren.admin_web.forms.console_form import (
    REQUIRED,
    ConsoleForm,
    DayField,
    select_choices,
    sent_once,
)
from warren.admin_web.language.labels import State, problem_text, reason_text
from warren.admin_web.links import came_from
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, read_id, route
from warren.admin_web.visitors import visitor
from warren.resources.backfills import MAX_AT_ONCE, BackfillDueTime
from warren.scheduler.actor import Right
from warren.scheduler.backfills.draft import BackfillRequest
from warren.scheduler.backfills.kept_schedule import DueTimeState
from warren.scheduler.commands.backfill_commands import BackfillCommands, Made, Preview
from warren.scheduler.problems import Problem, ProblemKind, Refused
from warren.scheduler.schedules.registry import has_schedule
from warren.scheduler.schedules.run_date import zone_or_utc
from warren.scheduler.views.backfill_view import (
    FilledState,
    backfill_view,
    filled_ticks,
)
from warren.sql.jobs import history
from warren.sql.jobs.history import SkipFilter, SkipLine
from warren.sql.listings import job_search
from warren.sql.listings.job_search import ListedJob
from warren.sql.models.job_tables import BackfillState, Selection
from warren.sql.runs import backfills
from warren.sql.runs.backfills import BackfillFilter

#: What became of a due time.
FILLED: Mapping[str, State] = {
    FilledState.TO_COME: State(lazy_gettext("to come"), "quiet", "ring"),
    FilledState.LEFT_OUT: State(lazy_gettext("left out"), "quiet", "minus"),
    FilledState.OPEN: State(lazy_gettext("open"), "busy", "play"),
    FilledState.SUCCEEDED: State(lazy_gettext("succeeded"), "good", "check"),
    FilledState.SKIPPED: State(lazy_gettext("nothing to do"), "quiet", "minus"),
    FilledState.FAILED: State(lazy_gettext("failed"), "bad", "cross"),
    FilledState.CANCELLED: State(lazy_gettext("cancelled"), "quiet", "minus"),
    FilledState.CLEARED: State(lazy_gettext("cleared"), "quiet", "minus"),
}
#: The states of a backfill.
STATES: Mapping[str, State] = {
    BackfillState.OPEN: State(lazy_gettext("open"), "busy", "play"),
    BackfillState.PAUSED: State(lazy_gettext("paused"), "warn", "pause"),
    BackfillState.DONE: State(lazy_gettext("done"), "good", "check"),
    BackfillState.CANCELLED: State(lazy_gettext("cancelled"), "quiet", "minus"),
}
#: A date with several due times shows the first of these states that one of them has.
_GRAVITY = (
    FilledState.FAILED,
    FilledState.OPEN,
    FilledState.TO_COME,
    FilledState.SUCCEEDED,
    FilledState.SKIPPED,
    FilledState.CANCELLED,
    FilledState.CLEARED,
    FilledState.LEFT_OUT,
)


class Cell(NamedTuple):
    """A run date: its state, how many due times it has, and the run that its state is from."""

    run_date: date
    state: str
    ticks: int
    run_id: int | None

    @property
    def day(self) -> str:
        """The day of the month."""
        return f"{self.run_date:%d}"


class Month(NamedTuple):
    """The dates of a month, such as 2026-11."""

    name: str
    cells: list[Cell]


def months(ticks: Iterable[BackfillDueTime]) -> list[Month]:
    """Return the dates of a backfill by month, in order."""
    by_date = sorted(ticks, key=lambda tick: (tick.run_date, tick.scheduled_at))
    cells = [
        _cell(run_date, list(of_date))
        for run_date, of_date in groupby(by_date, lambda tick: tick.run_date)
    ]
    return [
        Month(name, list(of_month))
        for name, of_month in groupby(cells, lambda cell: str(cell.run_date)[:7])
    ]


def _cell(run_date: date, ticks: list[BackfillDueTime]) -> Cell:
    worst = min(ticks, key=lambda tick: _GRAVITY.index(FilledState(tick.state)))
    return Cell(run_date, worst.state, len(ticks), worst.run_id)


LINES = 50


class BackfillPages:
    """Backfills of the visitor's apps, for everyone; operators control them."""

    name = "backfills"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/backfills", Right.VIEW)
    def index(self) -> str:
        """Show backfills, newest first."""
        wanted = BackfillFilter(
            app_ids=visitor().app_ids,
            job_id=id_argument("job"),
            before_id=id_argument("before"),
            limit=LINES + 1,
        )
        now_ms = self._services.now_ms()
        rows = self._services.database.read(lambda session: backfills.listing(session, wanted))
        return render_template(
            "pages/backfills.html",
            rows=[(row, backfill_view(row, now_ms=now_ms)) for row in rows[:LINES]],
            older=rows[LINES - 1].backfill.id if len(rows) > LINES else None,
            states=STATES,
        )

    @route("/backfills/<id:backfill_id>", Right.VIEW)
    def show(self, backfill_id: int) -> str:
        app_ids, database = visitor().app_ids, self._services.database
        listed = database.read(
            lambda session: backfills.show(session, backfill_id, app_ids=app_ids)
        )
        ticks = database.read(lambda session: filled_ticks(session, listed.backfill))
        return render_template(
            "pages/backfills_show.html",
            listed=listed,
            backfill=listed.backfill,
            view=backfill_view(listed, now_ms=self._services.now_ms(), ticks=ticks),
            months=months(ticks),
            states=STATES,
            filled=FILLED,
        )

    @route("/backfills/<id:backfill_id>/pause", Right.OPERATE, methods=("POST",))
    def pause(self, backfill_id: int) -> Response:
        """Let a backfill plan no more runs until it is resumed."""
        words = gettext("Backfill %(id)s is paused.", id=backfill_id)
        return self._steer(backfill_id, words, self._commands.pause)

    @route("/backfills/<id:backfill_id>/resume", Right.OPERATE, methods=("POST",))
    def resume(self, backfill_id: int) -> Response:
        """Let a paused backfill go on."""
        words = gettext("Backfill %(id)s continues.", id=backfill_id)
        return self._steer(backfill_id, words, self._commands.resume)

    @route("/backfills/<id:backfill_id>/cancel", Right.OPERATE, methods=("POST",))
    def cancel(self, backfill_id: int) -> Response:
        """Cancel a backfill, and end its open runs if asked."""
        kill = request.form.get("kill") == "1"
        words = gettext("Backfill %(id)s is cancelled.", id=backfill_id)
        return self._steer(
            backfill_id, words, lambda its_id: self._commands.cancel(its_id, kill=kill)
        )

    @property
    def _commands(self) -> BackfillCommands:
        return self._services.commands(visitor().actor).backfills

    def _steer(self, backfill_id: int, words: str, act: Callable[[int], object]) -> Response:
        try:
            act(backfill_id)
        except Refused as refused:
            if any(problem.code.kind is ProblemKind.UNKNOWN for problem in refused.problems):
                raise
            for problem in refused.problems:
                flash(problem_text(problem), "error")
        else:
            flash(words)
        back = came_from() or url_for("backfills.show", backfill_id=backfill_id)
        return redirect(back, 303)


Page: TypeAlias = Response | str | tuple[str, int]
#: The recorded skips that one form offers.
SKIPS = 200
_SELECTIONS = [
    (Selection.MISSING.value, lazy_gettext("those for which nothing ran")),
    (Selection.FAILED.value, lazy_gettext("those that are unresolved")),
    (Selection.ALL.value, lazy_gettext("all")),
]


class OptionsForm(ConsoleForm):
    """How the runs of a backfill are made."""

    at_once = IntegerField(
        lazy_gettext("At once"),
        [
            InputRequired(REQUIRED),
            NumberRange(1, MAX_AT_ONCE, lazy_gettext("Enter a number from 1 to 100.")),
        ],
        default=1,
    )
    newest_first = BooleanField(lazy_gettext("Newest first"))
    stop_on_failure = BooleanField(lazy_gettext("Pause after a failure"))
    children = BooleanField(lazy_gettext("Start the job's children after successes"), default=True)

    def options(self) -> dict[str, Any]:
        """Return the values as arguments of a request."""
        return {
            "at_once": self.at_once.data or 1,
            "newest_first": self.newest_first.data,
            "stop_on_failure": self.stop_on_failure.data,
            "children": self.children.data,
        }


class RangeForm(OptionsForm):
    """A range of run dates, and which of its due times run."""

    from_date = DayField(lazy_gettext("From date"), [InputRequired(REQUIRED)])
    to_date = DayField(lazy_gettext("To date"), [InputRequired(REQUIRED)])
    dates = BooleanField(lazy_gettext("Run once per date, whatever the schedule"))
    selection = SelectField(
        lazy_gettext("Due times"),
        choices=select_choices(_SELECTIONS),
        default=Selection.MISSING.value,
    )
    instead = BooleanField(lazy_gettext("Stop the job's schedule until it is over"))
    param = StringField(lazy_gettext("Parameter"), [Optional(), Length(max=50_000)])

    def request(self) -> BackfillRequest:
        return BackfillRequest(
            from_date=self.from_date.data,
            to_date=self.to_date.data,
            dates=self.dates.data,
            selection=Selection(self.selection.data),
            instead=self.instead.data,
            param=self.param.data or None,
            **self.options(),
        )

    def add_problem(self, problem: Problem) -> None:
        """Show a refusal at its field."""
        field = self._fields.get(
            {"from": "from_date", "to": "to_date"}.get(problem.field, problem.field)
        )
        if field is None:
            self.add_error(problem_text(problem))
        else:
            field.errors = [*field.errors, problem_text(problem)]


class BackfillForms:
    name = "backfill_forms"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/jobs/<id:job_id>/backfill", Right.OPERATE)
    def ask(self, job_id: int) -> str:
        """Show the form for a range of dates: at first those of the last week."""
        job = self._job(job_id)
        today = self._today(job)
        form = RangeForm(data={"from_date": today - timedelta(days=7), "to_date": today})
        form.dates.data = not has_schedule(job.schedule_kind)
        return _page(form, job)

    @route("/jobs/<id:job_id>/backfill/preview", Right.OPERATE, methods=("POST",))
    def preview(self, job_id: int) -> Page:
        """Show what a backfill would do; nothing is made."""
        job, form = self._job(job_id), RangeForm(request.form)
        if not form.validate():
            return _page(form, job), 422
        try:
            preview = self._commands.preview(job_id, form.request())
        except Refused as refused:
            return _refused(refused, form, job)
        return _page(form, job, preview=preview)

    @route("/jobs/<id:job_id>/backfill/make", Right.OPERATE, methods=("POST",))
    def make(self, job_id: int) -> Page:
        job, form = self._job(job_id), RangeForm(request.form)
        if not form.validate():
            return _page(form, job), 422
        try:
            once = sent_once(visitor().user_id)
            made = self._commands.make(job_id, form.request(), once=once)
        except Refused as refused:
            return _refused(refused, form, job)
        return _made(made)

    @route("/jobs/<id:job_id>/gaps", Right.OPERATE)
    def gaps(self, job_id: int) -> str:
        """Show the recorded skips of a job, to be ticked."""
        return self._gaps(self._job(job_id), OptionsForm())

    @route("/jobs/<id:job_id>/gaps/fill", Right.OPERATE, methods=("POST",))
    def fill(self, job_id: int) -> Page:
        """Make a backfill of the skips that are ticked."""
        job, form = self._job(job_id), OptionsForm(request.form)
        ticked = [skip_id for text in request.form.getlist("skip") if (skip_id := read_id(text))]
        if not ticked:
            form.add_error(gettext("Select what should run."))
        if not form.validate() or form.problems:
            return self._gaps(job, form), 422
        try:
            once, wanted = sent_once(visitor().user_id), BackfillRequest(**form.options())
            made = self._commands.make(job_id, wanted, skips=ticked, once=once)
        except Refused as refused:
            if any(problem.code.kind is ProblemKind.UNKNOWN for problem in refused.problems):
                raise
            for problem in refused.problems:
                form.add_error(problem_text(problem))
            return self._gaps(job, form), 422
        return _made(made)

    @property
    def _commands(self) -> BackfillCommands:
        return self._services.commands(visitor().actor).backfills

    def _gaps(self, job: ListedJob, form: OptionsForm) -> str:
        wanted = SkipFilter(job_id=job.id, limit=SKIPS)
        listed: list[SkipLine] = self._services.database.read(
            lambda session: history.skip_lines(session, wanted)
        )
        return render_template("pages/backfills_gaps.html", job=job, form=form, skips=listed)

    def _job(self, job_id: int) -> ListedJob:
        known, now_ms = visitor(), self._services.now_ms()
        return self._services.database.read(
            lambda session: job_search.show(session, job_id, known.app_ids, now_ms=now_ms)
        )

    def _today(self, job: ListedJob) -> date:
        zone = zone_or_utc(job.timezone or self._services.timezone)
        return datetime.fromtimestamp(self._services.now_ms() / 1_000, zone).date()


def _made(made: Made) -> Response:
    for notice in made.notices:
        flash(reason_text(notice), "warning")
    flash(gettext("Backfill %(id)s is planned.", id=made.id))
    return redirect(url_for("backfills.show", backfill_id=made.id), 303)


def _refused(refused: Refused, form: RangeForm, job: ListedJob) -> Page:
    if any(problem.code.kind is ProblemKind.UNKNOWN for problem in refused.problems):
        raise refused
    for problem in refused.problems:
        form.add_problem(problem)
    return _page(form, job), 422


def _page(form: RangeForm, job: ListedJob, *, preview: Preview | None = None) -> str:
    return render_template(
        "pages/backfills_form.html",
        form=form,
        job=job,
        preview=preview,
        months=months(_as_filled(preview)) if preview else [],
        filled=FILLED,
        running=sum(tick.runs for tick in preview.ticks) if preview else 0,
    )


def _as_filled(preview: Preview) -> list[BackfillDueTime]:
    """Return the due times of a preview as they would be filled in: those to come would run."""
    return [
        BackfillDueTime(
            number=number,
            scheduled_at=tick.scheduled_at,
            run_date=tick.run_date,
            state=FilledState.TO_COME if tick.runs else _so_far(tick.state),
            run_id=None,
        )
        for number, tick in enumerate(preview.ticks, 1)
    ]


def _so_far(state: str) -> FilledState:
    return FilledState.LEFT_OUT if state == DueTimeState.MISSING else FilledState(state)
