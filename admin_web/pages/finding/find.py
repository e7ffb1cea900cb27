"""The search box for pages, jobs, run ids, apps and executors, with links to their actions.

All results are links: actions are confirmed on their own pages.
"""

from collections.abc import Iterator

from flask import render_template, request, url_for
from flask_babel import gettext
from sqlalchemy.orm import Session

from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.menu import menu_entries
from warren.admin_web.pages.finding import find_actions
from warren.admin_web.pages.finding.find_actions import Choice
from warren.admin_web.url_ids import LARGEST
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right
from warren.sql.accounts import preferences
from warren.sql.listings import dashboard, job_search, run_choices, run_lines
from warren.sql.registry.apps import ids_by_name

#: Results of each kind, and how many of a kind may match for their actions to be listed.
EACH, WITH_ACTIONS = 7, 2
LONGEST = 200


class FindPages:
    """Finds what the visitor may see."""

    name = "find"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/find", Right.VIEW)
    def show(self) -> str:
        """Show the results; only the list itself for the box on every page."""
        known, text = visitor(), " ".join(request.args.get("q", "").split())[:LONGEST]
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
    yield from _jobs(session, known, text)
    yield from _pages(known, text)
    yield from _apps(session, known, text, now_ms)
    yield from _executors(session, known, text, now_ms)


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
            yield from find_actions.of_run(known, run, words)


def _jobs(session: Session, known: Visitor, text: str) -> Iterator[Choice]:
    ids = run_choices.jobs_with(session, text, known.app_ids, limit=EACH)
    names = job_search.names(session, ids, known.app_ids)
    for job_id, name in names.items():
        yield Choice("jobs", gettext("Job"), name, url_for("jobs.show", job_id=job_id))
        if len(names) <= WITH_ACTIONS:
            yield from find_actions.of_job(session, known, job_id, name)


def _apps(session: Session, known: Visitor, text: str, now_ms: int) -> Iterator[Choice]:
    ids = ids_by_name(session, known.app_ids)
    fitting = [name for name in ids if text.lower() in name.lower()]
    for name in fitting[:EACH]:
        yield Choice("apps", gettext("App"), name, url_for("jobs.index", app=name))
        if len(fitting) <= WITH_ACTIONS:
            yield from find_actions.of_app(session, known, ids[name], name, now_ms)


def _executors(session: Session, known: Visitor, text: str, now_ms: int) -> Iterator[Choice]:
    registered = dashboard.executors(session, known.app_ids)
    fitting = [one for one in registered if text.lower() in one.address.lower()]
    kind = gettext("Executor")
    for one in fitting[:EACH]:
        name = f"{one.app}/{one.address}"
        yield Choice("executors", kind, name, url_for("executors.show", executor_id=one.id))
        if len(fitting) <= WITH_ACTIONS:
            yield from find_actions.of_executor(known, one, name, now_ms)
