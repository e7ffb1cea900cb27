"""The pages of alarms and incidents, and tests of alarm targets from every form that has some.

A page asks until when somebody looks after jobs, and mutes their alarms.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from flask import Response as FlaskResponse
from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import SelectField, StringField
from wtforms.validators import Length, Optional

from warren.admin_web import exports
from warren.admin_web.forms.console_form import ALL, ConsoleForm, select_choices
from warren.admin_web.language import labels
from warren.admin_web.language.labels import problem_text
from warren.admin_web.links import came_from
from warren.admin_web.local_times import duration
from warren.admin_web.pages.bulk import ticked_ids
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, read_id, route
from warren.admin_web.visitors import visitor
from warren.resources.alarms import Alarm
from warren.resources.instant import to_builtins
from warren.scheduler.actor import Right
from warren.scheduler.alarms.addresses import without_secret
from warren.scheduler.alarms.events import (
    NO_TARGETS,
    NO_WEBHOOK,
    AlarmTargets,
    RunWebhook,
    from_text,
)
from warren.scheduler.alarms.message import MessageContext, message
from warren.scheduler.alarms.targets import channels_of, job_targets, targets_of
from warren.scheduler.commands.alarm_commands import MAX_REASON_LENGTH, AlarmCommands
from warren.scheduler.expectations import Rule
from warren.scheduler.problems import Problem, ProblemKind, Refused
from warren.scheduler.views.alarm_view import alarm_view, shown_target
from warren.scheduler.views.board_view import job_state
from warren.sql.alarms import alarm_listing, alarms, incidents
from warren.sql.alarms.alarm_listing import AlarmFilter, AlarmState, ListedAlarm
from warren.sql.alarms.alarms import MAIL, RUN_END, AlarmStatus
from warren.sql.alarms.incidents import ListedIncident
from warren.sql.board import listing
from warren.sql.instants import DAY_MS, HOUR_MS
from warren.sql.models import App, Job
from warren.sql.registry.apps import ids_by_name


class JobTarget(NamedTuple):
    """A target of a job's alarms, or of its webhook calls when runs end."""

    channel: str
    target: str
    is_of_app: bool

    @property
    def shown(self) -> str:
        """The target without what may be secret."""
        return self.target if self.channel == MAIL else without_secret(self.target)

    @property
    def key(self) -> str:
        """What a button sends to name this target, because not everyone may see an app's URL."""
        return hashlib.sha256(f"{self.channel} {self.target}".encode()).hexdigest()[:16]

    def parts(self) -> tuple[AlarmTargets, RunWebhook]:
        """Return the target as commands take it."""
        if self.channel == RUN_END:
            return NO_TARGETS, RunWebhook(url=self.target)
        if self.channel == MAIL:
            return AlarmTargets(emails=(self.target,)), NO_WEBHOOK
        return AlarmTargets(webhook=self.target, style=self.channel), NO_WEBHOOK


def read_targets(session: Session, job_id: int) -> list[JobTarget]:
    """Return a job's targets: its own, else its app's; the cluster's are not known here."""
    of_job = alarms.job_targets(session, [job_id])[job_id]
    own = targets_of(of_job.alarm_email, of_job.alarm_webhook, of_job.alarm_style)
    targets = [
        JobTarget(channel, target, not own)
        for channel, target in channels_of(job_targets(of_job, NO_TARGETS))
    ]
    url = session.get_one(Job, job_id).webhook_url
    if called := url or session.get_one(App, of_job.app_id).webhook_url:
        targets.append(JobTarget(RUN_END, called, not url))
    return targets


#: The targets with a button beside them, by the names of their form fields.
TESTED = ("emails", "webhook", "webhook_url")
#: The name of these buttons.
BUTTON = "test"
_NOTHING = lazy_gettext("Enter a target first.")
Test = Callable[[AlarmCommands], list[int]]
TypedTest = Callable[[AlarmCommands, AlarmTargets, RunWebhook], list[int]]


class AlarmTests:
    """Sends test alarms on behalf of the visitor."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    def send(self, test: Test) -> None:
        """Send tests, and flash the result of each.

        Raises:
            Refused: a test cannot be sent.

        """
        commands = self._services.commands(visitor().actor).alarms
        for alarm in commands.wait_for_tests(test(commands), self._services.test_wait_seconds):
            flash(_result_text(alarm), "message" if alarm.status == AlarmStatus.SENT else "error")

    def send_typed(
        self, form: ConsoleForm, targets: AlarmTargets, webhook: RunWebhook, send: TypedTest
    ) -> Iterable[Problem]:
        """Test the target typed beside the pressed button; return the problem if it is refused."""
        field = request.form.get(BUTTON, "")
        if field not in TESTED:
            abort(400)
        targets, webhook = _typed(field, targets, webhook)
        if not targets and not webhook:
            form[field].errors = (str(_NOTHING),)
            return ()
        try:
            self.send(lambda commands: send(commands, targets, webhook))
        except Refused as refused:
            return refused.problems
        return ()


def _typed(
    field: str, targets: AlarmTargets, webhook: RunWebhook
) -> tuple[AlarmTargets, RunWebhook]:
    """Return the targets in a form that the button beside a field tests."""
    if field == "emails":
        return AlarmTargets(emails=targets.emails), NO_WEBHOOK
    if field == "webhook":
        return AlarmTargets(webhook=targets.webhook, style=targets.style), NO_WEBHOOK
    return NO_TARGETS, RunWebhook(url=webhook.url)


def _result_text(test: ListedAlarm) -> str:
    target = shown_target(test)
    if test.status == AlarmStatus.SENT:
        answer = test.answer or ""
        return str(
            gettext("Test delivered to %(target)s: %(answer)s", target=target, answer=answer)
        )
    if test.status == AlarmStatus.GIVEN_UP:
        error = test.error or ""
        return str(
            gettext("Test not delivered to %(target)s: %(error)s", target=target, error=error)
        )
    return str(
        gettext(
            "No answer from %(target)s yet. See the page Alarms for the outcome.", target=target
        )
    )


LINES = 50
_SHORT = [Optional(), Length(max=255, message=lazy_gettext("Too long."))]


class AlarmFilterForm(ConsoleForm):
    state = SelectField(
        lazy_gettext("State"),
        choices=select_choices(
            [ALL, *((state.value, item.word) for state, item in labels.ALARM_STATE.items())]
        ),
        default="",
    )
    app = SelectField(lazy_gettext("App"), default="")
    job = StringField(lazy_gettext("Job"), _SHORT)


class AlarmPages:
    """Alarms of the visitor's apps, for everyone; operators send them again or dismiss them."""

    name = "alarms"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._tests = AlarmTests(services)

    @route("/alarms", Right.VIEW)
    def index(self) -> FlaskResponse | str | tuple[str, int]:
        """Show alarms, newest first."""
        form, apps = self._form()
        if not form.validate():
            return render_template("pages/alarms.html", form=form, alarms=[], older=None), 422
        wanted = self._wanted(form, apps)
        if exports.is_asked():
            return exports.answer("alarms", Alarm.__struct_fields__, self._rows(wanted))
        now_ms = self._services.now_ms()
        listed = self._services.database.read(
            lambda session: alarm_listing.listing(session, wanted, now_ms=now_ms)
        )
        return render_template(
            "pages/alarms.html",
            form=form,
            alarms=listed[:LINES],
            older=listed[LINES - 1].id if len(listed) > LINES else None,
            view=alarm_view,
            text=self._text,
            state=partial(ListedAlarm.state, now_ms=now_ms),
            undelivered=AlarmState.UNDELIVERED,
            has_undelivered=any(alarm.state(now_ms) is AlarmState.UNDELIVERED for alarm in listed),
        )

    @route("/alarms/resend", Right.OPERATE, methods=("POST",), form="alarms.index")
    def resend(self) -> Response:
        """Send one undelivered alarm again, or all that the filter shows."""
        count = self._commands.send_again(self._chosen())
        flash(
            gettext("Alarms sent again: %(n)s.", n=count)
            if count
            else gettext("There are no undelivered alarms any more.")
        )
        return redirect(came_from() or url_for("alarms.index"), 303)

    @route("/alarms/dismiss", Right.OPERATE, methods=("POST",), form="alarms.index")
    def dismiss(self) -> Response:
        """Dismiss one undelivered alarm, or all that the filter shows."""
        count = self._commands.dismiss(self._chosen())
        flash(
            gettext("Alarms dismissed: %(n)s.", n=count)
            if count
            else gettext("There are no undelivered alarms any more.")
        )
        return redirect(came_from() or url_for("alarms.index"), 303)

    @route("/jobs/<id:job_id>/alarms/test", Right.OPERATE, methods=("POST",), form="jobs.show")
    def test_job(self, job_id: int) -> Response:
        """Send a test to one target of a job."""
        known, key = visitor().actor, request.form.get("key")

        def read(session: Session) -> list[JobTarget]:
            self._services.commands(known).jobs.read(session, job_id)
            return read_targets(session, job_id)

        test_targets = self._services.database.read(read)
        wanted = next((alarm for alarm in test_targets if alarm.key == key), None)
        if wanted is None:
            flash(gettext("This target has changed in the meantime."), "error")
            return redirect(url_for("jobs.show", job_id=job_id), 303)
        targets, webhook = wanted.parts()
        try:
            self._tests.send(lambda commands: commands.test_job(job_id, targets, webhook))
        except Refused as refused:
            for problem in refused.problems:
                flash(problem_text(problem), "error")
        return redirect(url_for("jobs.show", job_id=job_id), 303)

    @property
    def _commands(self) -> AlarmCommands:
        return self._services.commands(visitor().actor).alarms

    def _form(self, given: object = None) -> tuple[AlarmFilterForm, dict[str, int]]:
        apps = self._services.database.read(lambda s: dict(ids_by_name(s, visitor().app_ids)))
        form = AlarmFilterForm(request.args if given is None else given)
        form.app.choices = select_choices([ALL, *((app, app) for app in apps)])
        return form, apps

    def _chosen(self) -> AlarmFilter:
        """Return the alarms that a button is for: one, or those that the list's filter shows."""
        if (alarm_id := read_id(request.form.get("id", ""))) is not None:
            return AlarmFilter(limit=1, alarm_id=alarm_id)
        form, apps = self._form(request.form)
        return self._wanted(form, apps) if form.validate() else abort(400)

    def _wanted(self, form: AlarmFilterForm, apps: dict[str, int]) -> AlarmFilter:
        return AlarmFilter(
            state=AlarmState(form.state.data) if form.state.data else None,
            app_ids=visitor().app_ids,
            app_id=apps.get(form.app.data or ""),
            job_name=(form.job.data or "").strip() or None,
            before_id=id_argument("before"),
            limit=LINES + 1,
        )

    def _text(self, alarm: ListedAlarm) -> str:
        """Return what the alarm says; empty if its row was changed in the database."""
        try:
            news = from_text(alarm.content)
        except ValueError:
            return ""
        return message(news, MessageContext(self._services.timezone)).text

    def _rows(self, wanted: AlarmFilter) -> Iterator[exports.Row]:
        now_ms = self._services.now_ms()

        def read(place: int | None, limit: int) -> tuple[list[exports.Row], int | None]:
            asked = replace(wanted, before_id=place, limit=limit)
            listed = self._services.database.read(
                lambda session: alarm_listing.listing(session, asked, now_ms=now_ms)
            )
            rows: list[exports.Row] = [to_builtins(alarm_view(alarm)) for alarm in listed]
            return rows, listed[-1].id if len(listed) == limit else None

        return exports.pages(read)


#: What is wrong, by rule.
BROKEN = {
    Rule.START_WITHIN: lazy_gettext("not started in time"),
    Rule.FINISH_BY: lazy_gettext("not succeeded in time"),
    Rule.LONGEST: lazy_gettext("runs too long"),
    Rule.SUCCESS_EVERY: lazy_gettext("no success for too long"),
    Rule.WAITING: lazy_gettext("runs wait too long"),
    incidents.DATABASE: lazy_gettext("the database has gone back or moved"),
    incidents.SERVER: lazy_gettext("a replaced database server still takes writes"),
}
#: For how many hours an acknowledged incident may stay silent; 0 = until it closes.
SILENT_HOURS = (0, 1, 4, 24)


def by_cause(listed: Sequence[ListedIncident]) -> dict[str, list[ListedIncident]]:
    """Return incidents by the rule that is broken, the rule of the most incidents first."""
    causes: dict[str, list[ListedIncident]] = defaultdict(list)
    for incident in listed:
        causes[incident.rule].append(incident)
    return dict(sorted(causes.items(), key=lambda cause: -len(cause[1])))


class IncidentPages:
    """Incidents of the visitor's apps, for everyone; operators acknowledge them."""

    name = "incidents"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/incidents", Right.VIEW)
    def index(self) -> str:
        """Show open incidents, or all of them, newest first."""
        every = request.args.get("all") == "1"
        listed = self._services.database.read(
            lambda session: incidents.listing(
                session,
                app_ids=visitor().app_ids,
                only_open=not every,
                limit=LINES + 1,
                before_id=id_argument("before"),
            )
        )
        return render_template(
            "pages/incidents.html",
            causes=by_cause(listed[:LINES]),
            older=listed[LINES - 1].id if len(listed) > LINES else None,
            every=every,
            broken=BROKEN,
            hours=SILENT_HOURS,
        )

    @route(
        "/incidents/<id:incident_id>/ack", Right.OPERATE, methods=("POST",), form="incidents.index"
    )
    def ack(self, incident_id: int) -> Response:
        """Acknowledge an open incident, with a note and for some hours."""
        hours = request.form.get("hours", 0, type=int)
        until_ms = self._services.now_ms() + hours * HOUR_MS if hours in SILENT_HOURS[1:] else None
        note = request.form.get("note", "").strip()
        commands = self._services.commands(visitor().actor).incidents
        try:
            commands.acknowledge(incident_id, note=note, until_ms=until_ms)
        except Refused as refused:
            if any(problem.code.kind is ProblemKind.UNKNOWN for problem in refused.problems):
                raise
            for problem in refused.problems:
                flash(problem_text(problem), "error")
        else:
            flash(gettext("Incident %(id)s is acknowledged.", id=incident_id))
        return redirect(came_from() or url_for("incidents.index"), 303)


#: How long a mute may last, by the word of its choice.
SPANS = {"1h": HOUR_MS, "4h": 4 * HOUR_MS, "1d": DAY_MS, "7d": 7 * DAY_MS, "30d": 30 * DAY_MS}
DEFAULT = "1d"


class MutePages:
    """Mutes of the jobs of the visitor's apps."""

    name = "mutes"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/mutes/ask", Right.OPERATE)
    def ask(self) -> str | Response:
        """Ask until when; the jobs are in the URL, so a sign-in on the way leads back to it."""
        known, now_ms = visitor(), self._services.now_ms()
        rows = self._services.database.read(
            lambda session: listing.of_jobs(session, ticked_ids()).values()
        )
        jobs = [
            job_state(row, now_ms) for row in rows if known.actor.knows_job(row.app_id, row.job_id)
        ]
        if not jobs:
            flash(gettext("No job was selected."), "error")
            return redirect(url_for("board.show"), 303)
        return render_template(
            "pages/mutes_ask.html",
            jobs=jobs,
            spans=SPANS,
            span_words=duration,
            chosen=DEFAULT,
            longest=MAX_REASON_LENGTH,
        )

    @route("/mutes", Right.OPERATE, methods=("POST",), form="board.show")
    def start(self) -> Response:
        """Mute the jobs, or end their mutes."""
        commands = self._services.commands(visitor().actor).mutes
        job_ids = ticked_ids()
        span = SPANS.get(request.form.get("span", ""), SPANS[DEFAULT])
        until_ms = self._services.now_ms() + span
        try:
            for job_id in job_ids:
                if "end" in request.form:
                    commands.unmute(job_id)
                else:
                    commands.mute(
                        job_id,
                        until_ms=until_ms,
                        why=request.form.get("why", "").strip(),
                        silent=request.form.get("silent") == "1",
                    )
        except Problem as problem:
            flash(problem_text(problem), "error")
            return redirect(url_for("mutes.ask", id=job_ids), 303)
        if "end" in request.form:
            flash(gettext("Ended."))
        else:
            flash(gettext("Acknowledged: %(n)s.", n=len(job_ids)))
        return redirect(url_for("board.show"), 303)
