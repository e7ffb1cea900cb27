"""The form that creates or edits a job, and the live preview of its schedule."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from warren.admin_web.flows import FlowPreview, read_flow
from warren.admin_web.flows import preview as preview_flow
from warren.admin_web.forms.job_fields import FLOW, JobForm
from warren.admin_web.forms.param_form import ParamInput, with_others
from warren.admin_web.language import job_labels
from warren.admin_web.language.catalogues import language
from warren.admin_web.language.labels import problem_text, reason_text
from warren.admin_web.local_times import weekday_names
from warren.admin_web.pages.alarms import BUTTON, AlarmTests
from warren.admin_web.pages.history import read_history, restored
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, route
from warren.admin_web.visitors import visitor
from warren.broker.messages import ScriptLanguage
from warren.broker.reasons import Reason
from warren.scheduler.actor import Right
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.commands.alarm_commands import AlarmCommands
from warren.scheduler.commands.job_edits import Applied, ChangeAction
from warren.scheduler.cron.wall_clock import load_zone
from warren.scheduler.jobs.records import PastSpec, fingerprint
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.jobs.typed_params import TypedParams
from warren.scheduler.problems import Code, Problem, ProblemKind, Refused
from warren.scheduler.schedules.explained import clock_notes
from warren.scheduler.schedules.reading import first_fires, load_calendars
from warren.scheduler.schedules.registry import has_schedule, hint
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.scheduler.schedules.working_days import NO_CALENDARS, Calendars
from warren.scheduler.views.job_warnings import HandlerCheck
from warren.scheduler.views.process_view import executor_views, living_handlers, read_catalogues
from warren.sql.instants import moment
from warren.sql.jobs.calendars import names as calendar_names
from warren.sql.jobs.job_file_rows import declared_places
from warren.sql.listings import dashboard
from warren.sql.registry.apps import ids_by_name

#: The most times that are shown.
FIRES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A schedule in words and its first times, or what is wrong with it.

    `hint` says which part is easily misread, `clock_notes` what the next clock changes do,
    `cancelled` how many planned runs saving cancels.
    """

    words: str = ""
    hint: str = ""
    clock_notes: Sequence[Reason] = ()
    fires: tuple[int, ...] = ()
    zone: str = ""
    wrong: str = ""
    cancelled: int = 0

    @property
    def shifts(self) -> dict[int, str]:
        """The first time after each clock change of the job's zone, with its new UTC offset."""
        offsets = {at: moment(at, ZoneInfo(self.zone)).isoformat()[-6:] for at in self.fires}
        return {
            after: offsets[after]
            for before, after in pairwise(self.fires)
            if offsets[before] != offsets[after]
        }


def preview(
    facts: ScheduleFacts, *, now_ms: int, calendars: Calendars = NO_CALENDARS
) -> Preview | None:
    """Return the preview of a schedule; None if nothing is typed."""
    kind, value, zone = facts.kind, facts.value, facts.timezone
    if not value and has_schedule(kind):
        return None
    try:
        load_zone(zone)
        cut = replace(facts, value=value[:1_000])
        fires = first_fires(cut, now_ms=now_ms, count=FIRES, calendars=calendars)
        notes = clock_notes(cut, now_ms=now_ms, calendars=calendars)
    except Problem as problem:
        return Preview(wrong=problem_text(problem))
    if not fires and has_schedule(kind):
        return Preview(wrong=gettext("It will not run again."))
    words = job_labels.schedule_words(kind, value)
    return Preview(
        words=words,
        hint=hint(kind, value, language()),
        clock_notes=notes,
        fires=tuple(fires),
        zone=zone,
    )


_CHANGED = lazy_gettext(
    "Someone else changed this job in the meantime. Nothing was saved. "
    "Check the job in another tab, then save again to overwrite it."
)
#: As they are written in cron expressions.
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_LINE_END = re.compile(r"\r\n?|\n")
#: The most handlers that are suggested.
SUGGESTED = 500
Page = Response | str | tuple[str, int]


class JobFormPages:
    """Creates and edits jobs of the visitor's apps."""

    name = "jobs"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._tests = AlarmTests(services)

    @route("/jobs/new", Right.OPERATE)
    def new(self) -> str:
        """Show the form of a new job, or of a deleted one to restore."""
        if deleted_id := id_argument("restore"):
            spec = self._past(deleted_id)
            form = self._filled(self._values(spec))
            return self._form(form, action=url_for("jobs.create"))
        given = {"author": visitor().name, "app": request.args.get("app", "")}
        return self._form(self._filled(given), action=url_for("jobs.create"))

    @route("/jobs/create", Right.OPERATE, methods=("POST",), form="jobs.new")
    def create(self) -> Page:
        form = self._filled()
        source = form.script_source or template_for(form.language.data or "")
        return self._make(form, url_for("jobs.create"), source)

    @route("/jobs/<id:job_id>/copy", Right.OPERATE)
    def copy(self, job_id: int) -> str:
        """Show the form of a new job with the values of another."""
        spec = self._stored(job_id)
        name = gettext("%(name)s copy", name=spec.name)
        form = self._filled(self._values(spec) | {"name": name, "author": visitor().name})
        return self._form(form, action=url_for("jobs.create_copy", job_id=job_id), origin=spec)

    @route("/jobs/<id:job_id>/copy/create", Right.OPERATE, methods=("POST",))
    def create_copy(self, job_id: int) -> Page:
        """Create a copy of a job, with its script."""
        origin, form = self._stored(job_id), self._filled()
        source = origin.script_source
        if form.language.data != origin.script_language:
            source = template_for(form.language.data or "")
        action = url_for("jobs.create_copy", job_id=job_id)
        return self._make(form, action, source, origin=origin)

    @route("/jobs/<id:job_id>/edit", Right.OPERATE)
    def edit(self, job_id: int) -> str:
        spec = self._stored(job_id)
        shown = self._past(job_id) if id_argument("version") else spec
        form = self._filled(self._values(shown) | {"seen": fingerprint(spec)}, app=spec.app)
        return self._form(form, action=url_for("jobs.save", job_id=job_id), job_id=job_id)

    @route("/jobs/<id:job_id>/save", Right.OPERATE, methods=("POST",), form="jobs.edit")
    def save(self, job_id: int) -> Page:
        stored = self._stored(job_id)
        form = self._filled(app=stored.app, language=_type_of(stored))
        action = url_for("jobs.save", job_id=job_id)
        spec = _as_typed(form.read(), stored)
        if form.params.is_switch:
            return self._form(form, action=action, job_id=job_id)
        if BUTTON in request.form:
            self._test(form, spec, job_id)
            return self._form(form, action=action, job_id=job_id)
        if not self._is_to_be_saved(form, spec, job_id):
            return self._form(form, action=action, job_id=job_id), _code()
        try:
            commands = self._services.commands(visitor().actor)
            done = commands.jobs.update(job_id, spec, seen=form.seen.data or "")
        except Refused as refused:
            if refused.problems[0].code is Code.JOB_CHANGED:
                form.add_error(str(_CHANGED))
                form.seen.data = fingerprint(self._stored(job_id))
            else:
                _show(refused, form)
        else:
            flash(_saved(done))
            self._warn(spec)
            return redirect(url_for("jobs.show", job_id=job_id), 303)
        return self._form(form, action=action, job_id=job_id), 422

    @route("/jobs/flow-preview", Right.OPERATE, methods=("POST",), form="jobs.new")
    def preview_flow(self) -> str:
        """Show the graph of a flow, or what is wrong with it, while it is being typed."""
        flow_preview = self._flow_preview(self._filled())
        return render_template("pages/jobs_flow_preview.html", flow=flow_preview)

    @route("/jobs/preview", Right.VIEW)
    def preview(self) -> str:
        """Show a schedule in words with its next times, while it is being typed."""
        trigger_preview = self._preview(JobForm(request.args), id_argument("job") or 0)
        return render_template("pages/jobs_preview.html", preview=trigger_preview)

    def _make(
        self, form: JobForm, action: str, source: str, *, origin: JobSpec | None = None
    ) -> Page:
        spec = form.read()
        if form.params.is_switch:
            return self._form(form, action=action, origin=origin)
        if spec.script_language:
            spec = replace(spec, script_source=source)
            if not visitor().may(Right.EDIT_GLUE):
                form.language.errors = (gettext("You are not allowed to edit scripts."),)
        if BUTTON in request.form:
            self._test(form, spec)
            return self._form(form, action=action, origin=origin)
        if not self._is_to_be_saved(form, spec):
            return self._form(form, action=action, origin=origin), _code()
        try:
            job_id = self._services.commands(visitor().actor).jobs.create(spec)
        except Refused as refused:
            _show(refused, form)
            return self._form(form, action=action, origin=origin), 422
        flash(gettext("Job created."))
        self._warn(spec)
        return redirect(url_for("jobs.show", job_id=job_id), 303)

    def _warn(self, spec: JobSpec) -> None:
        """Flash what may be wrong with a saved job's handler."""
        now_ms = self._services.now_ms()
        check = self._services.database.read(lambda s: HandlerCheck.read(s, [spec.app], now_ms))
        if why := check.of(spec):
            flash(reason_text(why), "warning")

    def _test(self, form: JobForm, spec: JobSpec, job_id: int = 0) -> None:
        """Send a test to a target that was typed; until the job is saved, on behalf of its app."""
        apps = self._services.database.read(lambda s: ids_by_name(s, visitor().app_ids))

        def send(commands: AlarmCommands, targets: AlarmTargets, webhook: RunWebhook) -> list[int]:
            if job_id:
                return commands.test_job(job_id, targets, webhook)
            return commands.test_app(apps.get(spec.app, 0), targets, webhook)

        targets = AlarmTargets(
            emails=spec.alarm_emails, webhook=spec.alarm_webhook, style=spec.alarm_style
        )
        webhook = RunWebhook(url=spec.webhook_url)
        form.show_problems(self._tests.send_typed(form, targets, webhook, send))

    def _is_to_be_saved(self, form: JobForm, spec: JobSpec, job_id: int = 0) -> bool:
        """Return whether to save the form; if not, show all problems in it at once."""
        if "preview" in request.form:
            return False
        faults = form.params.faults()
        if not form.errors and not faults:
            return True
        others = self._services.commands(visitor().actor).jobs.problems(spec, job_id)
        form.show_problems(with_others(faults, others))
        return False

    def _form(
        self, form: JobForm, *, action: str, job_id: int = 0, origin: JobSpec | None = None
    ) -> str:
        return render_template(
            "pages/jobs_form.html",
            job_labels=job_labels,
            form=form,
            action=action,
            job_id=job_id,
            declared_in=self._declared_in(job_id) if job_id else None,
            origin=origin,
            preview=self._preview(form, job_id),
            flow=self._flow_preview(form) if form.is_flow else None,
            weekdays=zip(WEEKDAYS, weekday_names(), strict=True),
            handlers=self._services.database.read(self._handlers),
        )

    def _handlers(self, session: Session) -> dict[str, list[str]]:
        """Return the handlers of online executors, each with the apps that have it."""
        rows = dashboard.executors(session, visitor().app_ids)
        catalogues = read_catalogues(session, rows)
        views = executor_views(rows, {}, self._services.now_ms(), catalogues)
        handlers_by_app: dict[str, list[str]] = {}
        for app, names in sorted(living_handlers(views).items()):
            for name in sorted(names):
                handlers_by_app.setdefault(name, []).append(app)
        # Those for jobs without code first: they would be hard to find among others.
        ordered = sorted(
            handlers_by_app.items(), key=lambda item: item[0] not in job_labels.WITHOUT_CODE
        )
        return dict(islice(ordered, SUGGESTED))

    def _values(self, spec: JobSpec) -> dict[str, object]:
        values = JobForm.values_of(spec) | {"language": _type_of(spec)}
        if spec.flow is not None and self._services.flow_texts:
            values["flow"] = self._services.flow_texts.write(spec.flow.to_mapping())
        return values

    def _flow_preview(self, form: JobForm) -> FlowPreview | None:
        """Return the preview of a flow; None if nothing is typed."""
        if not form.typed_flow or not (form.flow.data or "").strip():
            return None
        typed, place = form.typed_flow, (form.app.data or "", form.name.data or "")
        known = visitor()
        return self._services.database.read(
            lambda s: preview_flow(s, typed, place, ids_by_name(s, known.app_ids))
        )

    def _filled(
        self,
        given: Mapping[str, object] | None = None,
        *,
        app: str = "",
        language: str | None = None,
    ) -> JobForm:
        """Return the form with the given values, or as it was sent.

        The form cannot change the `app` and the `language` of a job that exists, whatever was sent.
        """
        form = JobForm(None if given is not None else request.form, data=given)
        if language is not None:
            form.app.data, form.language.data = app, language
        if form.is_flow and self._services.flow_texts:
            form.typed_flow = read_flow(self._services.flow_texts, form.flow.data or "")
            if given is None:
                form.flow.errors = tuple(problem.text for problem in form.typed_flow.problems)
        schemas = self._schemas(app or form.app.data or "", form.handler.data or "")
        if given is None:
            form.params = ParamInput.sent(schemas, request.form)
        else:
            form.params = ParamInput.stored(schemas, form.param.data or "")
        form.param.data = form.params.text
        known = visitor()
        apps, calendars = self._services.database.read(
            lambda s: (list(ids_by_name(s, known.app_ids)), calendar_names(s))
        )
        form.set_choices(
            apps=apps,
            routes=self._services.added_routes,
            zone=self._services.timezone,
            types=self._job_types(form),
            calendars=calendars,
        )
        return form

    def _job_types(self, form: JobForm) -> set[str]:
        """Return the job types to choose from, beside a handler."""
        types = {form.language.data or ""}
        if visitor().may(Right.EDIT_GLUE):
            types |= set(job_labels.LANGUAGES)
        return types | ({FLOW} if self._services.flow_texts else set())

    def _schemas(self, app: str, handler: str) -> Sequence[str]:
        """Return what online executors tell of the params of a handler."""
        if not (app and handler):
            return ()
        now_ms = self._services.now_ms()
        typed = self._services.database.read(lambda s: TypedParams.read(s, [app], now_ms))
        return typed.of(app, handler.strip()).schemas

    def _preview(self, form: JobForm, job_id: int = 0) -> Preview | None:
        kind, value, zone = form.schedule
        options = form.options
        facts = ScheduleFacts(kind, value, zone or self._services.timezone, options.to_json() or "")
        known = self._services.database.read(lambda s: load_calendars(s, [options.calendar]))
        shown = preview(facts, now_ms=self._services.now_ms(), calendars=known)
        if shown is None or shown.wrong or not (job_id and visitor().may(Right.OPERATE)):
            return shown
        jobs = self._services.commands(visitor().actor).jobs
        try:
            return replace(shown, cancelled=jobs.foresee(job_id, facts, zone))
        except Problem:
            return shown  # what is wrong is said once it is saved

    def _past(self, job_id: int) -> JobSpec:
        """Return a job as it was in the requested version; flash which fields are missing."""
        known = visitor()
        commands = self._services.commands(known.actor)

        def read(session: Session) -> PastSpec:
            history = read_history(session, commands, known, job_id)
            version = history.find(id_argument("version"))
            if version is None:
                abort(404)
            return restored(session, history, version, known)

        past_spec = self._services.database.read(read)
        flash(gettext("This is an earlier version of the job. Nothing changes until you save."))
        if past_spec.missing:
            names = ", ".join(past_spec.missing)
            flash(gettext("The audit log has no full record of: %(names)s", names=names), "error")
        return past_spec.spec

    def _declared_in(self, job_id: int) -> str | None:
        return self._services.database.read(lambda s: declared_places(s, [job_id])).get(job_id)

    def _stored(self, job_id: int) -> JobSpec:
        jobs = self._services.commands(visitor().actor).jobs
        return self._services.database.read(lambda s: jobs.read(s, job_id)[1])


def _show(refused: Refused, form: JobForm) -> None:
    """Show the problems in the form; raise those that its input cannot cause."""
    if refused.problems[0].code.kind in (ProblemKind.UNKNOWN, ProblemKind.FORBIDDEN):
        raise refused
    form.show_problems(refused.problems)


def _as_typed(spec: JobSpec, stored: JobSpec) -> JobSpec:
    """Return the job in a form, with what the form does not have, or browsers change.

    They show and send any end of a line as the same.
    """
    kept: dict[str, Any] = {
        "script_source": stored.script_source,
        "script_remark": stored.script_remark,
    }
    for name in ("param", "param_template"):
        before = getattr(stored, name)
        if "\r" in before and getattr(spec, name) == "\n".join(_LINE_END.split(before)):
            kept[name] = before
    return replace(spec, **kept)


def _saved(done: Applied) -> str:
    """Return what saving a job has changed."""
    if done.action is ChangeAction.UNCHANGED:
        words = gettext("Nothing to save.")
    elif not done.cancelled:
        words = gettext("Saved.")
    else:
        words = gettext(
            "Saved. Planned runs cancelled because they are not in the new schedule: %(n)s",
            n=done.cancelled,
        )
    return str(words)


def _type_of(spec: JobSpec) -> str:
    return FLOW if spec.flow is not None else spec.script_language


def _code() -> int:
    return 200 if "preview" in request.form else 422


_TEMPLATES = {
    ScriptLanguage.SHELL: """\
#!/bin/sh
echo "param: $1"
echo "shard: $2 of $3"
""",
    ScriptLanguage.PYTHON: """\
import sys

param, shard, total = sys.argv[1:4]
print("param:", param)
print("shard:", shard, "of", total)
""",
    ScriptLanguage.NODEJS: """\
const [param, shard, total] = process.argv.slice(2);
console.log("param:", param);
console.log("shard:", shard, "of", total);
""",
    ScriptLanguage.PHP: """\
<?php
[, $param, $shard, $total] = $argv;
echo "param: $param\\n";
echo "shard: $shard of $total\\n";
""",
    ScriptLanguage.POWERSHELL: """\
param($param, $shard, $total)
Write-Output "param: $param"
Write-Output "shard: $shard of $total"
""",
    ScriptLanguage.GROOVY: """\
println "param: ${args[0]}"
println "shard: ${args[1]} of ${args[2]}"
""",
}


def template_for(language: str) -> str:
    """Return the template for a language; empty if the language is unknown."""
    return next((text for known, text in _TEMPLATES.items() if known == language), "")
