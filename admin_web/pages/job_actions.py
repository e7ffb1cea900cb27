"""Actions on jobs: start, stop, trigger, delete; and a preview of what a trigger would do now.

The preview sends and stores nothing. Other runs may start and end before the run is sent.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import SelectMultipleField, TextAreaField

from warren.admin_web.access.gate import local_path
from warren.admin_web.forms.console_form import ConsoleForm, select_choices, sent_once
from warren.admin_web.forms.param_form import ParamInput
from warren.admin_web.language import job_labels
from warren.admin_web.language.labels import problem_text, reason_text
from warren.admin_web.pages import bulk
from warren.admin_web.pages.bulk import BulkAction, BulkWork, Work, ask_about_all
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import read_id, route
from warren.admin_web.visitors import visitor
from warren.broker.messages import Block
from warren.broker.reasons import Reason
from warren.scheduler.actor import Right
from warren.scheduler.commands.commands import Commands
from warren.scheduler.commands.triggers import Trigger
from warren.scheduler.jobs.new_run import calendars_for_runs, sample_param
from warren.scheduler.jobs.param_schema import check_param
from warren.scheduler.jobs.typed_params import TypedParams
from warren.scheduler.problems import Code, Problem, Refused
from warren.scheduler.views.process_view import ExecutorView, executor_views
from warren.sql.listings import dashboard, job_search
from warren.sql.listings.job_search import ListedJob
from warren.sql.models import App
from warren.sql.registry import apps
from warren.sql.registry.presence import ProcessState
from warren.sql.runs import queries


class Effect(StrEnum):
    """What would happen to a run at an executor."""

    START = "START"
    QUEUE = "QUEUE"
    SKIP = "SKIP"
    REPLACE = "REPLACE"


_WHEN_BUSY: Mapping[str, Effect] = {
    Block.SERIAL_EXECUTION: Effect.QUEUE,
    Block.DISCARD_LATER: Effect.SKIP,
    Block.COVER_EARLY: Effect.REPLACE,
}


class Candidate(NamedTuple):
    """An executor that the run may go to, and how many open runs of the job it has."""

    address: str
    open_runs: int
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerPreview:
    """What would be sent, and where.

    Attributes:
        unchecked: why a parameter other than the job's own could not be checked; else None.
        json: a message about the parameter as JSON, if any.

    """

    param: str
    unchecked: Reason | None
    json: str
    is_json_wrong: bool
    candidates: Sequence[Candidate]


def read_preview(
    session: Session, job: ListedJob, param: str, wanted: Collection[str], *, now_ms: int
) -> TriggerPreview:
    """Return what a trigger would do; `wanted` limits it to these executors.

    Raises:
        Problem: the parameter is too long, or an address is neither registered nor listed.
        Refused: no executor that is online accepts the parameter.

    """
    check_param(param)
    typed = TypedParams.read(session, [job.app], now_ms).of(job.app, job.handler or "")
    if job.handler and (problems := typed.problems(param)):
        raise Refused(problems)
    listed = apps.split(session.get_one(App, job.app_id).address_list)
    lists = {job.app: tuple(listed)} if listed else {}
    views = executor_views(dashboard.executors(session, [job.app_id]), lists, now_ms)
    known = {view.address for view in views}
    for address in wanted:
        if address not in known:
            raise Problem(Code.WANTED_ADDRESS, "addresses", app=job.app, got=address)
    open_runs = queries.in_flight_of_job(session, job.app_id, job.id)
    wrong = _json_fault(param)
    is_json_expected = _is_json(job.stored.param or "") or param.lstrip()[:1] in ("{", "[")
    return TriggerPreview(
        param=param,
        unchecked=typed.unchecked if job.handler and param != (job.stored.param or "") else None,
        json=(wrong or str(gettext("Valid JSON."))) if is_json_expected else "",
        is_json_wrong=bool(is_json_expected and wrong),
        candidates=[
            _candidate(view.address, open_runs.get(view.address, 0), job)
            for view in _routable(views, wanted)
        ],
    )


def _routable(views: Sequence[ExecutorView], wanted: Collection[str]) -> list[ExecutorView]:
    """Return the executors that the run may go to: those with problems only if all have some."""
    live = [
        view
        for view in views
        if view.state is ProcessState.ALIVE
        and (view.address in wanted if wanted else view.listed is not False)
    ]
    return [view for view in live if not view.is_hindered] or live


def _candidate(address: str, open_runs: int, job: ListedJob) -> Candidate:
    is_free = open_runs < max(1, job.stored.concurrency)
    return Candidate(address, open_runs, Effect.START if is_free else _WHEN_BUSY[job.stored.block])


def _is_json(param: str) -> bool:
    return param.lstrip()[:1] in ("{", "[") and not _json_fault(param)


def _json_fault(param: str) -> str:
    """Return why a parameter is not JSON; empty if it is."""
    try:
        json.loads(param, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        place = {"line": error.lineno, "column": error.colno}
        return str(gettext("Not valid JSON: line %(line)s, column %(column)s.", **place))
    except (ValueError, RecursionError):
        return str(gettext("Not valid JSON."))
    return ""


def _refuse(constant: str) -> Any:
    """Refuse NaN and infinities, which Python accepts although JSON has none."""
    raise ValueError(constant)


#: The most jobs that one form acts on.
MAX_JOBS = 200

T = TypeVar("T")


class TriggerForm(ConsoleForm):
    """Asks for the parameter and executors of one run."""

    param = TextAreaField(lazy_gettext("Parameter"))
    addresses = SelectMultipleField(lazy_gettext("Executors"), validate_choice=False)


class JobActions:
    """Acts on one job or on the ticked ones; only deleting is one transaction for all."""

    name = "job_actions"

    def __init__(self, services: ConsoleServices, work: BulkWork) -> None:
        self._services = services
        self._work = work

    @route("/jobs/start", Right.OPERATE, methods=("POST",))
    def start(self) -> Response | str:
        if bulk.is_about_all():
            return ask_about_all(BulkAction.START)
        started, wrong = self._each(self._commands.jobs.start, self._chosen())
        done = len(started)
        flash(gettext("1 job started") if done == 1 else gettext("%(n)s jobs started", n=done))
        return self._back(wrong)

    @route("/jobs/stop", Right.OPERATE, methods=("POST",))
    def stop(self) -> Response | str:
        if bulk.is_about_all():
            return ask_about_all(BulkAction.STOP)
        began_at, chosen = self._services.now_ms(), self._chosen()
        stopped, wrong = self._each(self._commands.jobs.stop, chosen)
        done = len(stopped)
        words = gettext("1 job stopped") if done == 1 else gettext("%(n)s jobs stopped", n=done)
        words = job_labels.with_cancelled(words, sum(job.cancelled for job in stopped if job))
        if done > 1:
            flash(words, f"undo {self._undoable_stop(list(chosen), began_at)}")
        else:
            flash(words)
        return self._back(wrong)

    @route("/jobs/trigger", Right.OPERATE, methods=("POST",))
    def trigger(self) -> Response | str:
        """Run jobs once, each with its own parameter; a form sent twice runs them once."""
        if bulk.is_about_all():
            return ask_about_all(BulkAction.TRIGGER)
        once = sent_once(visitor().user_id)

        def act(job_id: int) -> object:
            own = once and replace(once, key=f"{once.key}:job/{job_id}")
            return self._commands.runs.trigger_once(job_id, once=own)

        done, wrong = self._each(act, self._chosen())
        flash(gettext("Runs queued: %(n)s", n=len(done)))
        return self._back(wrong)

    @route("/jobs/<id:job_id>/ask-<any(start, stop):action>", Right.OPERATE)
    def ask_switch(self, job_id: int, action: str) -> str:
        """Ask for confirmation before starting or stopping a job's schedule."""
        return render_template("pages/jobs_switch.html", job=self._job(job_id), action=action)

    @route("/jobs/ask-delete", Right.OPERATE)
    def ask_delete(self) -> str | Response:
        """Ask for confirmation before deleting jobs.

        The selection is in the URL, so a sign-in on the way leads back to it.
        """
        if bulk.is_about_all():
            return ask_about_all(BulkAction.DELETE)
        return render_template("pages/jobs_delete.html", jobs=self._chosen(), back=_came_from())

    @route("/jobs/delete", Right.OPERATE, methods=("POST",))
    def delete(self) -> Response:
        """Delete jobs, all or none."""
        try:
            deleted = self._commands.jobs.delete(self._chosen())
        except Problem as problem:
            return self._back([problem_text(problem)])
        words = gettext("Deleted: %(names)s", names=", ".join(deleted))
        flash(job_labels.with_cancelled(words, sum(deleted.values())))
        # The page of a deleted job cannot be shown again.
        return redirect(_came_from(url_for("jobs.index")), 303)

    @route("/jobs/<id:job_id>/trigger", Right.OPERATE)
    def ask_trigger(self, job_id: int) -> str:
        """Show the form to trigger a job with a parameter and executors."""
        job = self._job(job_id)
        param = self._own_param(job)
        form = self._with_choices(TriggerForm(data={"param": param}), job)
        params = ParamInput.stored(self._schemas(job), param)
        return render_template("pages/jobs_trigger.html", form=form, job=job, params=params)

    def _own_param(self, job: ListedJob) -> str:
        """Return the job's parameter, or the one that its template makes now."""
        now_ms, zone = self._services.now_ms(), self._services.timezone
        try:
            known = self._services.database.read(lambda s: calendars_for_runs(s, [job.stored]))
            return sample_param(job.stored, now_ms, app=job.app, zone=zone, calendars=known)
        except Problem as problem:
            flash(problem_text(problem), "error")
            return ""

    @route("/jobs/<id:job_id>/trigger/preview", Right.OPERATE, methods=("POST",))
    def preview_trigger(self, job_id: int) -> str | tuple[str, int]:
        """Show what a run would receive and where it could go; nothing is run."""
        job, now_ms = self._job(job_id), self._services.now_ms()
        form, params = self._sent(job)
        if params.is_switch:
            return render_template("pages/jobs_trigger.html", form=form, job=job, params=params)
        wanted = form.addresses.data or ()
        try:
            params.check()
            shown = self._services.database.read(
                lambda session: read_preview(session, job, params.text, wanted, now_ms=now_ms)
            )
        except Refused as refused:
            return _refused(refused, form, job, params)
        return render_template(
            "pages/jobs_trigger.html",
            form=form,
            job=job,
            params=params,
            preview=shown,
            job_labels=job_labels,
        )

    @route("/jobs/<id:job_id>/trigger/run", Right.OPERATE, methods=("POST",))
    def trigger_one(self, job_id: int) -> Response | tuple[str, int]:
        """Run a job once."""
        job = self._job(job_id)
        form, params = self._sent(job)
        try:
            params.check()
            made = self._commands.runs.trigger_once(
                job_id,
                Trigger(param=params.text, addresses=form.addresses.data or ()),
                once=sent_once(visitor().user_id),
            )
        except Refused as refused:
            return _refused(refused, form, job, params)
        if made.unchecked is None:
            flash(gettext("Run %(id)s is queued.", id=made.run_id))
        else:
            why = reason_text(made.unchecked)
            flash(gettext("Run %(id)s is queued; %(why)s.", id=made.run_id, why=why))
        page = "runs.log" if job.stored.flow is None else "runs.show"  # a flow has no log
        return redirect(url_for(page, run_id=made.run_id), 303)

    @property
    def _commands(self) -> Commands:
        return self._services.commands(visitor().actor)

    def _undoable_stop(self, job_ids: Sequence[int], began_at: int) -> str:
        """Store which jobs were stopped together; return the key to undo it."""
        stop = Work(
            key=bulk.fresh_key(),
            action=BulkAction.STOP,
            user_id=visitor().user_id,
            ids=job_ids,
            began_at=began_at,
        )
        self._work.add_done(stop)
        return stop.key

    def _each(self, act: Callable[[int], T], job_ids: Iterable[int]) -> tuple[list[T], list[str]]:
        """Act on each job; return the results where something changed, and all problems."""
        done: list[T] = []
        wrong: list[str] = []
        for job_id in job_ids:
            try:
                result = act(job_id)
            except Refused as refused:
                wrong += map(problem_text, refused.problems)
            else:
                done += [result] if result else []
        return done, wrong

    def _chosen(self) -> dict[int, str]:
        """Return the selected jobs as APP/NAME; `only` is the button of one row."""
        sent = request.values.getlist("only") or request.values.getlist("id")
        wanted = {job_id for text in sent[:MAX_JOBS] if (job_id := read_id(text)) is not None}
        known = visitor()
        names = self._services.database.read(
            lambda session: job_search.names(session, wanted, known.app_ids)
        )
        if sent and not names:
            abort(404)
        return names

    def _job(self, job_id: int) -> ListedJob:
        known, now_ms = visitor(), self._services.now_ms()
        return self._services.database.read(
            lambda session: job_search.show(session, job_id, known.app_ids, now_ms=now_ms)
        )

    def _sent(self, job: ListedJob) -> tuple[TriggerForm, ParamInput]:
        """Return the form that was sent, and its parameter."""
        form = self._with_choices(TriggerForm(request.form), job)
        params = ParamInput.sent(self._schemas(job), request.form)
        form.param.data = params.text
        return form, params

    def _schemas(self, job: ListedJob) -> Sequence[str]:
        """Return what online executors report about the params of the job's handler."""
        now_ms = self._services.now_ms()
        typed = self._services.database.read(
            lambda session: TypedParams.read(session, [job.app], now_ms)
        )
        return typed.of(job.app, job.handler).schemas if job.handler else ()

    def _with_choices(self, form: TriggerForm, job: ListedJob) -> TriggerForm:
        def unit(session: Session) -> list[str]:
            listed = apps.split(session.get_one(App, job.app_id).address_list)
            registered = [row.address for row in dashboard.executors(session, [job.app_id])]
            return list(dict.fromkeys([*registered, *listed]))

        form.addresses.choices = select_choices(
            (app, app) for app in self._services.database.read(unit)
        )
        return form

    def _back(self, wrong: list[str]) -> Response:
        for words in wrong[:10]:
            flash(words, "error")
        return redirect(_came_from(), 303)


def _refused(
    refused: Refused, form: TriggerForm, job: ListedJob, params: ParamInput
) -> tuple[str, int]:
    """Return the form with each problem beside its field; raise one that belongs to none."""
    for problem in params.show(refused.problems):
        field = form[problem.field.partition("/")[0]] if problem.field else None
        if field is None:
            raise refused
        field.errors = (*field.errors, problem_text(problem))
    return render_template("pages/jobs_trigger.html", form=form, job=job, params=params), 422


def _came_from(otherwise: str = "") -> str:
    """Return the path of the page that the form came from; by default, the list of jobs."""
    sent = request.values.get("back", "")
    if not sent.startswith(url_for("jobs.index")):
        return otherwise or url_for("jobs.index")
    return local_path(sent)
