"""The search box for pages, jobs, run ids, apps and executors, with links to their actions.

All results are links: actions are confirmed on their own pages.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from flask import render_template, request, url_for
from flask_babel import gettext
from sqlalchemy.orm import Session

from admin_web.console_services import ConsoleServices
from admin_web.menu import menu_entries
from admin_web.url_ids import LARGEST
from admin_web.url_routes import route
from admin_web.visitors import Visitor, visitor
from scheduler.actor import Right
from sql.accounts import preferences
from sql.listings import dashboard, job_search, run_choices, run_lines
from sql.listings.run_lines import RunLine
from sql.registry.apps import ids_by_name
from sql.run_status import OPEN, RunStatus

#: Results of each kind, and how many of a kind may match for their actions to be listed.
EACH, WITH_ACTIONS = 7, 2
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Choice:
    """A search result: a link with its icon and the kind and name of its target."""

    icon: str
    kind: str
    name: str
    url: str


class FindPages:
    """Finds what the visitor may see."""

    name = "find"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/find", Right.VIEW)
    def show(self) -> str:
        """Show the results; only the list itself for the box on every page."""
        known, text = visitor(), " ".join(request.args.get("q", "").split())[:LONGEST]
        choices = self._services.database.read(lambda session: [*_choices(session, known, text)])
        page = "find_choices" if request.args.get("part") else "find"
        return render_template(f"pages/{page}.html", choices=choices, text=text)


def _choices(session: Session, known: Visitor, text: str) -> Iterator[Choice]:
    if not text:
        yield from _favourites(session, known)
        yield from _pages(known, "")
        return
    yield from _run(session, known, text)
    yield from _jobs(session, known, text)
    yield from _pages(known, text)
    yield from _apps(session, known, text)
    yield from _executors(session, known, text)


def _pages(known: Visitor, text: str) -> Iterator[Choice]:
    found = [("gauge", gettext("Dashboard"), url_for("dashboard.show"))]
    found += [(one.icon, str(one.text), url_for(one.endpoint)) for one in menu_entries(known)]
    found.append(("runs", gettext("Errors"), url_for("run_errors.show")))
    found.append(("person", gettext("Account"), url_for("account.show")))
    if known.may(Right.OPERATE):
        found.append(("plus", gettext("New job"), url_for("jobs.new")))
        found.append(("runs", gettext("Clear runs"), url_for("clearing.show")))
    if known.may(Right.ADMINISTER):
        found.append(("pause", gettext("Pause dispatch"), url_for("pauses.ask")))
    for icon, name, url in found:
        if text.lower() in name.lower():
            yield Choice(icon, gettext("Page"), name, url)


def _favourites(session: Session, known: Visitor) -> Iterator[Choice]:
    ids = session.execute(preferences.favourites(known.user_id)).scalars().all()
    names = job_search.names(session, ids, known.app_ids)
    for job_id, name in [*names.items()][:EACH]:
        yield Choice("star", gettext("Job"), name, url_for("jobs.show", job_id=job_id))


def _run(session: Session, known: Visitor, text: str) -> Iterator[Choice]:
    number = text.removeprefix("#")
    if not (number.isascii() and number.isdecimal() and int(number) <= LARGEST):
        return
    for run in run_lines.by_ids(session, [int(number)]):
        if known.app_ids is None or run.app in ids_by_name(session, known.app_ids):
            words = f"{run.id} · {run.job or run.job_id}"
            yield Choice("runs", gettext("Run"), words, url_for("runs.show", run_id=run.id))
            log = gettext("Log of %(name)s", name=words)
            yield Choice("trail", gettext("Run"), log, url_for("runs.log", run_id=run.id))
            yield from _run_actions(known, run, words)


def _run_actions(known: Visitor, run: RunLine, words: str) -> Iterator[Choice]:
    if not known.may(Right.OPERATE):
        return
    kind, ask = gettext("Run"), partial(url_for, "bulk_runs.ask", id=run.id)
    if run.job:
        yield Choice("arrow", kind, gettext("Run %(name)s again", name=words), ask(action="again"))
    if RunStatus(run.status) in OPEN:
        yield Choice("square", kind, gettext("Kill %(name)s", name=words), ask(action="kill"))


def _jobs(session: Session, known: Visitor, text: str) -> Iterator[Choice]:
    ids = run_choices.jobs_with(session, text, known.app_ids, limit=EACH)
    names = job_search.names(session, ids, known.app_ids)
    for job_id, name in names.items():
        yield Choice("jobs", gettext("Job"), name, url_for("jobs.show", job_id=job_id))
        if len(names) <= WITH_ACTIONS:
            yield from _actions(known, job_id, name)


def _actions(known: Visitor, job_id: int, name: str) -> Iterator[Choice]:
    kind = gettext("Job")
    runs = gettext("Runs of %(name)s", name=name)
    yield Choice("runs", kind, runs, url_for("runs.index", job=name))
    history = gettext("History of %(name)s", name=name)
    yield Choice("clock", kind, history, url_for("job_history.show", job_id=job_id))
    if known.may(Right.OPERATE):
        once = gettext("Run %(name)s once", name=name)
        yield Choice("arrow", kind, once, url_for("job_actions.ask_trigger", job_id=job_id))
        edit = gettext("Edit %(name)s", name=name)
        yield Choice("script", kind, edit, url_for("jobs.edit", job_id=job_id))


def _apps(session: Session, known: Visitor, text: str) -> Iterator[Choice]:
    ids = ids_by_name(session, known.app_ids)
    fitting = [name for name in ids if text.lower() in name.lower()]
    for name in fitting[:EACH]:
        yield Choice("apps", gettext("App"), name, url_for("jobs.index", app=name))
        if len(fitting) <= WITH_ACTIONS:
            yield from _app_actions(known, ids[name], name)


def _app_actions(known: Visitor, app_id: int, name: str) -> Iterator[Choice]:
    kind = gettext("App")
    runs = gettext("Runs of %(name)s", name=name)
    yield Choice("runs", kind, runs, url_for("runs.index", app=name))
    executors = gettext("Executors of %(name)s", name=name)
    yield Choice("executors", kind, executors, url_for("executors.index", app=name))
    if known.may(Right.OPERATE):
        pause = gettext("Pause app %(name)s", name=name)
        yield Choice("pause", kind, pause, url_for("pauses.ask_app", app_id=app_id))
    if known.may(Right.ADMINISTER):
        edit = gettext("Edit %(name)s", name=name)
        yield Choice("script", kind, edit, url_for("apps.edit", app_id=app_id))


def _executors(session: Session, known: Visitor, text: str) -> Iterator[Choice]:
    registered = dashboard.executors(session, known.app_ids)
    fitting = [one for one in registered if text.lower() in one.address.lower()]
    kind = gettext("Executor")
    for one in fitting[:EACH]:
        name = f"{one.app}/{one.address}"
        yield Choice("executors", kind, name, url_for("executors.show", executor_id=one.id))
        if len(fitting) <= WITH_ACTIONS:
            runs = gettext("Runs of %(name)s", name=name)
            url = url_for("runs.index", app=one.app, address=one.address)
            yield Choice("runs", kind, runs, url)
