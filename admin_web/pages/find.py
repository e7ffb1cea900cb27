"""The search box: finds pages, jobs, apps, executors, runs, errors, users and tokens, with actions.

An action leads to the page that asks about it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from flask import render_template, request, url_for
from flask_babel import gettext
from sqlalchemy.orm import Session

from warren.admin_web.language import labels
from warren.admin_web.links import menu_entries
from warren.admin_web.pages.bulk import BulkAction
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import LARGEST, route
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right
from warren.scheduler.jobs.script_cache import language_of
from warren.scheduler.schedules.registry import has_schedule
from warren.scheduler.views.account_view import read_tokens
from warren.scheduler.views.process_view import executor_view
from warren.sql import run_status
from warren.sql.accounts import preferences, users
from warren.sql.accounts.users import UserFilter
from warren.sql.instants import DAY_MS
from warren.sql.jobs import job_names
from warren.sql.listings import dashboard, job_search, run_messages, run_search
from warren.sql.listings.run_search import RunSearch
from warren.sql.models import Job, Registration
from warren.sql.registry import pauses
from warren.sql.registry.apps import ids_by_name
from warren.sql.registry.presence import ProcessState
from warren.sql.run_status import OPEN, RunStatus
from warren.sql.runs.run_rows import DetailedRun


@dataclass(frozen=True, slots=True)
class Choice:
    """A search result: a link with its icon and the kind and name of its target."""

    icon: str
    kind: str
    name: str
    url: str


def of_run(known: Visitor, run: DetailedRun, words: str) -> Iterator[Choice]:
    """Yield what a visitor may do with a run, which is shown as `words`."""
    if not known.may(Right.OPERATE):
        return
    kind, ask = gettext("Run"), partial(url_for, "bulk_runs.ask", id=run.id)
    is_open = RunStatus(run.status) in OPEN
    if run.job and not is_open:
        yield Choice("arrow", kind, gettext("Run %(name)s again", name=words), ask(action="again"))
    if is_open:
        yield Choice("square", kind, gettext("Kill %(name)s", name=words), ask(action="kill"))


def _switch(job: Job, name: str) -> Iterator[Choice]:
    """Yield how to start or stop the schedule of a job, if it has one."""
    kind = gettext("Job")
    if job.is_enabled:
        stop = url_for("job_actions.ask_switch", job_id=job.id, action=BulkAction.STOP)
        yield Choice("pause", kind, gettext("Stop %(name)s", name=name), stop)
    elif has_schedule(job.schedule_kind):
        start = url_for("job_actions.ask_switch", job_id=job.id, action=BulkAction.START)
        yield Choice("play", kind, gettext("Start %(name)s", name=name), start)


def of_job(
    session: Session, known: Visitor, job_id: int, name: str, now_ms: int
) -> Iterator[Choice]:
    """Yield what a visitor may do with a job."""
    kind = gettext("Job")
    if known.may(Right.OPERATE):
        once = gettext("Run %(name)s now", name=name)
        yield Choice("arrow", kind, once, url_for("job_actions.ask_trigger", job_id=job_id))
        yield from _switch(session.get_one(Job, job_id), name)
    for run in job_search.last_runs(session, job_id, now_ms=now_ms, limit=MAX_RUNS):
        words = f"{run.id} · {name} · {labels.STATUS[RunStatus(run.status)].word}"
        yield Choice("runs", gettext("Run"), words, url_for("runs.show", run_id=run.id))
        if RunStatus(run.status) in OPEN:
            yield from of_run(known, run, f"{run.id} · {name}")
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


def of_executor(
    known: Visitor, registration: Registration, name: str, now_ms: int
) -> Iterator[Choice]:
    """Yield what a visitor may do with an executor."""
    kind = gettext("Executor")
    runs = gettext("Runs of %(name)s", name=name)
    url = url_for("runs.index", app=registration.app, address=registration.address)
    yield Choice("runs", kind, runs, url)
    if (
        known.may(Right.OPERATE)
        and executor_view(registration, now_ms, {}).state is ProcessState.ALIVE
    ):
        drain = gettext("Drain %(name)s", name=name)
        url = url_for("executors.show", executor_id=registration.id, _anchor="drain")
        yield Choice("square", kind, drain, url)


#: How many results of each kind are listed, and up to how many matches their actions too.
MAX_RESULTS, MAX_WITH_ACTIONS = 7, 2
#: The newest runs of a job that are listed.
MAX_RUNS = 2
#: How many failures are searched for a text, how far back, and from how many characters on.
FAILURES, FAILURES_MS, ERROR_LENGTH = 500, 7 * DAY_MS, 3
MAX_LENGTH = 200
#: The most characters of an error.
MAX_SAID = 100


class FindPages:
    """Finds what the visitor may see."""

    name = "find"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/find", Right.VIEW)
    def show(self) -> str:
        """Show the results; for the box on every page, only the list."""
        known, text = visitor(), " ".join(request.args.get("q", "").split())[:MAX_LENGTH]
        now_ms = self._services.now_ms()
        choices = self._services.database.read(
            lambda session: [*_choices(session, known, text, now_ms)]
        )
        page = "find_choices" if request.args.get("part") else "find"
        return render_template(f"pages/{page}.html", choices=choices, text=text)


def _choices(session: Session, known: Visitor, text: str, now_ms: int) -> Iterator[Choice]:
    if not text:
        yield from _favourites(session, known)
        yield from _pages(known, "")
        return
    yield from _run(session, known, text)
    yield from _jobs(session, known, text, now_ms)
    yield from _pages(known, text)
    yield from _apps(session, known, text, now_ms)
    yield from _executors(session, known, text, now_ms)
    yield from _people(session, known, text, now_ms)
    yield from _errors(session, known, text, now_ms)


def _pages(known: Visitor, text: str) -> Iterator[Choice]:
    choices = [
        (entry.icon, str(page.text), url_for(page.endpoint, kind=entry.kind or None))
        for entry in menu_entries()
        for page in entry.pages(known)
    ]
    choices.append(("person", gettext("Account"), url_for("account.show")))
    if known.may(Right.OPERATE):
        choices.append(("plus", gettext("New job"), url_for("jobs.new")))
        choices.append(("runs", gettext("Delete old runs"), url_for("clearing.show")))
    if known.may(Right.ADMINISTER):
        choices.append(("pause", gettext("Pause dispatch"), url_for("pauses.ask")))
    for icon, name, url in choices:
        if text.lower() in name.lower():
            yield Choice(icon, gettext("Page"), name, url)


def _favourites(session: Session, known: Visitor) -> Iterator[Choice]:
    ids = session.execute(preferences.favourites(known.user_id)).scalars().all()
    names = job_search.names(session, ids, known.app_ids)
    for job_id, name in [*names.items()][:MAX_RESULTS]:
        yield Choice("star", gettext("Job"), name, url_for("jobs.show", job_id=job_id))


def _run(session: Session, known: Visitor, text: str) -> Iterator[Choice]:
    number = text.removeprefix("#")
    if not (number.isascii() and number.isdecimal() and int(number) <= LARGEST):
        return
    for run in run_messages.by_ids(session, [int(number)]):
        if known.app_ids is None or run.app in ids_by_name(session, known.app_ids):
            words = f"{run.id} · {run.job or run.job_id}"
            yield Choice("runs", gettext("Run"), words, url_for("runs.show", run_id=run.id))
            log = gettext("Log of %(name)s", name=words)
            yield Choice("trail", gettext("Run"), log, url_for("runs.log", run_id=run.id))
            yield from of_run(known, run, words)


def _jobs(session: Session, known: Visitor, text: str, now_ms: int) -> Iterator[Choice]:
    ids = job_names.ids_with(session, text, known.app_ids, limit=MAX_RESULTS)
    names = job_search.names(session, ids, known.app_ids)
    for job_id, name in names.items():
        yield Choice("jobs", gettext("Job"), name, url_for("jobs.show", job_id=job_id))
        if len(names) <= MAX_WITH_ACTIONS:
            yield from of_job(session, known, job_id, name, now_ms)


def _apps(session: Session, known: Visitor, text: str, now_ms: int) -> Iterator[Choice]:
    ids = ids_by_name(session, known.app_ids)
    fitting = [name for name in ids if text.lower() in name.lower()]
    for name in fitting[:MAX_RESULTS]:
        yield Choice("apps", gettext("App"), name, url_for("jobs.index", app=name))
        if len(fitting) <= MAX_WITH_ACTIONS:
            yield from of_app(session, known, ids[name], name, now_ms)


def _executors(session: Session, known: Visitor, text: str, now_ms: int) -> Iterator[Choice]:
    registered = dashboard.executors(session, known.app_ids)
    fitting = [
        registration for registration in registered if text.lower() in registration.address.lower()
    ]
    kind = gettext("Executor")
    for registration in fitting[:MAX_RESULTS]:
        name = f"{registration.app}/{registration.address}"
        yield Choice(
            "executors", kind, name, url_for("executors.show", executor_id=registration.id)
        )
        if len(fitting) <= MAX_WITH_ACTIONS:
            yield from of_executor(known, registration, name, now_ms)


def _people(session: Session, known: Visitor, text: str, now_ms: int) -> Iterator[Choice]:
    """Yield users, for administrators, and the tokens that the visitor may see."""
    is_administrator = known.may(Right.ADMINISTER)
    if is_administrator:
        for row in users.filtered(session, UserFilter(name=text, limit=MAX_RESULTS)):
            url = url_for("users.show", user_id=row.user.id)
            yield Choice("person", gettext("User"), row.user.name, url)
    user_ids = None if is_administrator else [known.user_id]
    tokens = read_tokens(session, now_ms=now_ms, user_ids=user_ids, app_ids=known.app_ids)
    fitting = [(id_, token) for id_, token in tokens.items() if text.lower() in token.name.lower()]
    for token_id, token in fitting[:MAX_RESULTS]:
        url = url_for("tokens.index", _anchor=f"token-{token_id}")
        yield Choice("key", gettext("Token"), f"{token.name} · {token.owner}", url)


def _errors(session: Session, known: Visitor, text: str, now_ms: int) -> Iterator[Choice]:
    """Yield the newest failure of each job whose message has the text, and where there are more."""
    if len(text) < ERROR_LENGTH:
        return
    wanted = RunSearch(
        app_ids=known.app_ids,
        statuses=run_status.FAILURES,
        text=text,
        since_ms=now_ms - FAILURES_MS,
        limit=FAILURES,
        looked_at=FAILURES,
    )
    newest: dict[int, DetailedRun] = {}
    page = run_search.page(session, wanted)
    for run in page.runs:
        newest.setdefault(run.job_id, run)
    for run in [*newest.values()][:MAX_RESULTS]:
        said = labels.stored_text(run.message, run.message_why).strip().partition("\n")[0]
        # Its end tells it from others.
        end = said if len(said) <= MAX_SAID else f"…{said[1 - MAX_SAID :]}"
        words = f"{end} · {run.job or run.job_id}"
        yield Choice("cross", gettext("Error"), words, url_for("runs.show", run_id=run.id))
    if newest or page.is_cut:
        every = gettext("All errors with “%(text)s”", text=text)
        yield Choice("runs", gettext("Error"), every, url_for("run_errors.show", text=text))
