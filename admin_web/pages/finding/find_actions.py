"""What can be done with what the search box found, as links to the pages that ask or do it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from flask import url_for
from flask_babel import gettext
from sqlalchemy.orm import Session

from warren.admin_web.visitors import Visitor
from warren.scheduler.actor import Right
from warren.scheduler.jobs.script_cache import language_of
from warren.scheduler.views.process_view import executor_view
from warren.sql.listings.run_lines import RunLine
from warren.sql.models import Job, Registration
from warren.sql.registry import pauses
from warren.sql.registry.liveness import ProcessState
from warren.sql.run_status import OPEN, RunStatus


@dataclass(frozen=True, slots=True)
class Choice:
    """A search result: a link with its icon and the kind and name of its target."""

    icon: str
    kind: str
    name: str
    url: str


def of_run(known: Visitor, run: RunLine, words: str) -> Iterator[Choice]:
    """Yield what a visitor may do with a run; `words` name it."""
    if not known.may(Right.OPERATE):
        return
    kind, ask = gettext("Run"), partial(url_for, "bulk_runs.ask", id=run.id)
    is_open = RunStatus(run.status) in OPEN
    if run.job and not is_open:
        yield Choice("arrow", kind, gettext("Run %(name)s again", name=words), ask(action="again"))
    if is_open:
        yield Choice("square", kind, gettext("Kill %(name)s", name=words), ask(action="kill"))


def of_job(session: Session, known: Visitor, job_id: int, name: str) -> Iterator[Choice]:
    """Yield what a visitor may do with a job."""
    kind = gettext("Job")
    runs = gettext("Runs of %(name)s", name=name)
    yield Choice("runs", kind, runs, url_for("runs.index", job=name))
    history = gettext("History of %(name)s", name=name)
    yield Choice("clock", kind, history, url_for("job_history.show", job_id=job_id))
    has_script = bool(language_of(session.get_one(Job, job_id).script_type))
    if has_script:
        script = gettext("Script of %(name)s", name=name)
        yield Choice("script", kind, script, url_for("glue.show", job_id=job_id))
    if not known.may(Right.OPERATE):
        return
    once = gettext("Run %(name)s once", name=name)
    yield Choice("arrow", kind, once, url_for("job_actions.ask_trigger", job_id=job_id))
    edit = gettext("Edit %(name)s", name=name)
    yield Choice("script", kind, edit, url_for("jobs.edit", job_id=job_id))
    if not has_script or known.may(Right.EDIT_GLUE):
        copy = gettext("Copy %(name)s", name=name)
        yield Choice("plus", kind, copy, url_for("jobs.copy", job_id=job_id))
    delete = gettext("Delete %(name)s", name=name)
    yield Choice("square", kind, delete, url_for("job_actions.ask_delete", id=job_id))


def of_app(
    session: Session, known: Visitor, app_id: int, name: str, now_ms: int
) -> Iterator[Choice]:
    """Yield what a visitor may do with an app."""
    kind = gettext("App")
    runs = gettext("Runs of %(name)s", name=name)
    yield Choice("runs", kind, runs, url_for("runs.index", app=name))
    executors = gettext("Executors of %(name)s", name=name)
    yield Choice("executors", kind, executors, url_for("executors.index", app=name))
    if known.may(Right.OPERATE):
        ask = url_for("pauses.ask_app", app_id=app_id)
        if pauses.of(session, app_id, now_ms):
            yield Choice("play", kind, gettext("Resume app %(name)s", name=name), ask)
        else:
            yield Choice("pause", kind, gettext("Pause app %(name)s", name=name), ask)
    if known.may(Right.ADMINISTER):
        edit = gettext("Edit %(name)s", name=name)
        yield Choice("script", kind, edit, url_for("apps.edit", app_id=app_id))


def of_executor(known: Visitor, one: Registration, name: str, now_ms: int) -> Iterator[Choice]:
    """Yield what a visitor may do with an executor."""
    kind = gettext("Executor")
    runs = gettext("Runs of %(name)s", name=name)
    url = url_for("runs.index", app=one.app, address=one.address)
    yield Choice("runs", kind, runs, url)
    if known.may(Right.OPERATE) and executor_view(one, now_ms, {}).state is ProcessState.ALIVE:
        drain = gettext("Drain %(name)s", name=name)
        url = url_for("executors.show", executor_id=one.id, _anchor="drain")
        yield Choice("square", kind, drain, url)
