"""Bulk actions on runs and jobs: ask about ticked or matching ones, start, show the progress.

They run in the background, one after the other.
"""

import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import urlencode

import structlog
from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web.forms.run_filter import JobFilterForm, RunFinder, read_query, wanted
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import LARGEST, read_id, route
from warren.admin_web.visitors import Visitor, has_rights_of, visitor
from warren.scheduler.actor import Actor, Right
from warren.scheduler.commands.bulk_commands import JobPreview
from warren.scheduler.commands.commands import Commands
from warren.scheduler.commands.reruns import Counts, Outcome, Part
from warren.scheduler.problems import Problem
from warren.sql.accounts.idempotency import FormKey
from warren.sql.errors import DatabaseUnavailable
from warren.sql.listings import job_search
from warren.sql.registry.apps import ids_by_name

#: The most rows that can be ticked on one page.
MAX_TICKED = 200
#: The most characters of a filter.
MAX_FILTER_LENGTH = 4_000
_UNDO = "-undo"
_KEY = re.compile(rf"[A-Za-z0-9_-]{{22}}(?:{_UNDO})?", re.ASCII)


class BulkAction(StrEnum):
    """What to do with all chosen jobs or runs; forms send these values."""

    START = "start"
    STOP = "stop"
    UNDO_STOP = "undo"
    TRIGGER = "trigger"
    DELETE = "delete"
    RUN_AGAIN = "again"
    KILL = "kill"


def fresh_key() -> str:
    """Return a new random key for a form."""
    return secrets.token_urlsafe(16)


def undo_key(key: str) -> str:
    """Return the key for undoing the work of another key; equal keys make undoing idempotent."""
    return key + _UNDO


def sent_key() -> str:
    """Return the key of the submitted form; abort with 400 if it has none."""
    key = request.form.get("key", "")
    if not _KEY.fullmatch(key):
        abort(400)
    return key


def ticked_ids() -> Sequence[int]:
    """Return the ticked ids without duplicates; abort with 400 if no page could have as many."""
    sent = request.values.getlist("id")
    if len(sent) > MAX_TICKED:
        abort(400)
    ids = (read_id(text) for text in sent)
    return list(dict.fromkeys(id_ for id_ in ids if id_ is not None))


def is_about_all() -> bool:
    """Return whether the form means everything that matches a filter."""
    return request.values.get("all") == "1" and "only" not in request.values


def wants_newest() -> bool:
    """Return whether the form means only the newest due time of each job."""
    return request.values.get("times") == "newest"


def wants_whole() -> bool:
    """Return whether the form means all that failed at the due times of the runs in it."""
    return request.values.get("times") == "whole"


def sent_filter() -> str:
    """Return the filter of the list that the form came from, as a query string."""
    query = request.values.get("filter", "")[:MAX_FILTER_LENGTH]
    return query if query.isprintable() else ""


def sent_action(allowed: Collection[BulkAction]) -> BulkAction:
    """Return the requested action; abort with 400 or, for a page, 404 if it is not allowed."""
    action = request.values.get("action", "")
    if action not in allowed:
        abort(400 if request.method == "POST" else 404)
    return BulkAction(action)


def list_url(endpoint: str) -> str:
    """Return the URL of a list with the filter in the request."""
    query = sent_filter()
    return url_for(endpoint) + (f"?{query}" if query else "")


def sent_number(name: str) -> int:
    """Return a number that the page wrote into the form; abort with 400 if it is not valid."""
    number = request.form.get(name, type=int)
    if number is None or not 0 <= number <= LARGEST:
        abort(400)
    return number


log = structlog.get_logger()

#: The most finished actions that are kept for each user, and the most problems of an action.
KNOWN, REASONS = 50, 10


class WorkState(StrEnum):
    """The state of a bulk action."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    #: The user was disabled or has other rights than at the start.
    REVOKED = "REVOKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A bulk action on the objects with these ids, and its progress.

    `key` is that of the form that started it. `is_all` is False if more objects match. `undone` is
    the time of the action that this one undoes, if it does. `cancelled` is how many planned runs it
    has cancelled.
    """

    key: str
    action: BulkAction
    user_id: int
    ids: Sequence[int]
    began_at: int
    ended_at: int = 0
    is_all: bool = True
    undone: range = range(0)
    counts: Counts = field(default_factory=Counts)
    cancelled: int = 0
    problems: tuple[Problem, ...] = ()
    state: WorkState = WorkState.RUNNING

    @property
    def total(self) -> int:
        """How many objects it is about."""
        return len(self.ids)

    @property
    def form(self) -> FormKey:
        """The form that started it, by which commands recognize what it has done before."""
        return FormKey(user_id=self.user_id, key=self.key)

    @property
    def is_interrupted(self) -> bool:
        """Whether it ended before it was done."""
        return self.state in (WorkState.FAILED, WorkState.REVOKED)

    @property
    def time(self) -> range:
        """The milliseconds in which it ran; only once it has ended."""
        return range(self.began_at, self.ended_at + 1)

    @property
    def done(self) -> int:
        """How many objects were changed."""
        return self.counts[Outcome.DONE]

    @property
    def looked_at(self) -> int:
        """How many objects have been processed."""
        return self.counts.total()


#: Carries out an action part by part, with the commands of the user who started it.
Parts = Callable[[Commands, Work], Iterator[Part]]


class BulkWork:
    """The bulk actions of this console process; after a restart only the audit log has them."""

    def __init__(self, services: ConsoleServices, parts: Parts) -> None:
        self._services = services
        self._parts = parts
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._known: OrderedDict[str, Work] = OrderedDict()

    def start(self, work: Work, actor: Actor) -> bool:
        """Start an action; return False if its form was already sent, unless it was interrupted."""
        with self._lock:
            known = self._known.get(work.key)
            if known is not None and not (known.is_interrupted and known.user_id == work.user_id):
                return False
            self._keep(work)
        # A daemon thread: the console may stop in between, as each part is complete in itself.
        threading.Thread(target=self._do, args=(work, actor), name="bulk-work", daemon=True).start()
        return True

    def resume(self, key: str, visitor: Visitor) -> bool:
        """Start an interrupted action again from the beginning; it skips what was already done.

        It has the visitor's current rights, not those that the action began with.
        """
        known = self.find(key, visitor.user_id)
        if known is None:
            return False
        fresh = replace(known, counts=Counts(), problems=(), cancelled=0, state=WorkState.RUNNING)
        return self.start(fresh, visitor.actor)

    def add_done(self, work: Work) -> None:
        """Store a finished action, so that it can be undone."""
        with self._lock:
            self._keep(replace(work, state=WorkState.DONE, ended_at=self._services.now_ms()))

    def find(self, key: str, user_id: int) -> Work | None:
        """Return an action of this user; None if there is none."""
        with self._lock:
            known = self._known.get(key)
        return known if known is not None and known.user_id == user_id else None

    def _keep(self, work: Work) -> None:
        """Store an action as it is now, and forget the oldest finished ones of its user."""
        self._known[work.key] = work
        self._known.move_to_end(work.key)
        ended = [
            entry.key
            for entry in self._known.values()
            if entry.user_id == work.user_id and entry.state is not WorkState.RUNNING
        ]
        for key in ended[:-KNOWN]:
            del self._known[key]

    def _do(self, work: Work, actor: Actor) -> None:
        with self._turn:
            try:
                state = self._run(work, actor)
            except DatabaseUnavailable as error:
                log.warning("bulk_work_interrupted", error=str(error))
                state = WorkState.FAILED
            except Exception:
                log.exception("bulk_work_failed")
                state = WorkState.FAILED
            self._end(work.key, state)

    def _run(self, work: Work, actor: Actor) -> WorkState:
        """Do part after part while the user has the rights; return how it ended."""
        parts = self._parts(self._services.commands(actor), work)
        while self._services.database.read(
            lambda session: has_rights_of(session, work.user_id, actor)
        ):
            part = next(parts, None)
            if part is None:
                return WorkState.DONE
            self._add_part(work.key, part)
        return WorkState.REVOKED

    def _add_part(self, key: str, part: Part) -> None:
        with self._lock:
            work = self._known[key]
            problems = (*work.problems, *part.problems)[:REASONS]
            counts, cancelled = work.counts + part.counts, work.cancelled + part.cancelled
            self._keep(replace(work, counts=counts, problems=problems, cancelled=cancelled))

    def _end(self, key: str, state: WorkState) -> None:
        with self._lock:
            work = self._known[key]
            self._keep(replace(work, state=state, ended_at=self._services.now_ms()))


MAX_JOBS = 10_000
JOB_ACTIONS = (BulkAction.START, BulkAction.STOP, BulkAction.TRIGGER, BulkAction.DELETE)
Page = Response | str | tuple[str, int]


@dataclass(frozen=True, slots=True)
class ChosenJobs:
    """The jobs that match; `is_all` is False if there are more than MAX_JOBS."""

    job_ids: Sequence[int]
    is_all: bool


class BulkJobPages:
    """Bulk actions on the jobs of the visitor's apps."""

    name = "bulk_jobs"

    def __init__(self, services: ConsoleServices, work: BulkWork) -> None:
        self._services = services
        self._work = work

    @route("/jobs/bulk/ask", Right.OPERATE)
    def ask(self) -> Page:
        """Show how many jobs match the filter, and ask for confirmation.

        The filter is in the URL, so a sign-in on the way leads back to it.
        """
        chosen = chosen_jobs(self._services)
        if not chosen.job_ids:
            flash(gettext("No matching jobs."), "error")
            return redirect(list_url("jobs.index"), 303)
        return render_template(
            "pages/bulk_jobs_ask.html",
            action=sent_action(JOB_ACTIONS),
            chosen=chosen,
            filter=sent_filter(),
            key=fresh_key(),
            back=list_url("jobs.index"),
        )

    @route("/jobs/bulk/start", Right.OPERATE, methods=("POST",))
    def start(self) -> Page:
        """Start the work, unless this form was already sent."""
        known, key = visitor(), sent_key()
        if self._work.find(key, known.user_id) is None:
            chosen, action = chosen_jobs(self._services), sent_action(JOB_ACTIONS)
            if len(chosen.job_ids) > sent_number("count"):
                flash(gettext("More jobs match now. Please check again."), "error")
                return ask_about_all(action)
            work = Work(
                key=key,
                action=action,
                user_id=known.user_id,
                ids=chosen.job_ids,
                began_at=self._services.now_ms(),
                is_all=chosen.is_all,
            )
            self._work.start(work, known.actor)
        return redirect(url_for("bulk_jobs.show", key=key), 303)

    @route("/jobs/bulk/work", Right.OPERATE)
    def show(self) -> Page:
        """Show the progress and the result."""
        key, user_id = request.args.get("key", ""), visitor().user_id
        work, undoing = (self._work.find(undo_key, user_id) for undo_key in (key, undo_key(key)))
        page = render_template("pages/bulk_jobs.html", work=work, undoing=undoing)
        return page, 200 if work else 404

    @route("/jobs/bulk/resume", Right.OPERATE, methods=("POST",))
    def resume(self) -> Response:
        """Continue work that was interrupted, with the visitor's current rights."""
        key = sent_key()
        self._work.resume(key, visitor())
        return redirect(url_for("bulk_jobs.show", key=key), 303)

    @route("/jobs/bulk/undo", Right.OPERATE, methods=("POST",))
    def undo(self) -> Response:
        """Restart the jobs that a bulk stop has stopped; works once."""
        known, key = visitor(), sent_key()
        stop = self._work.find(key, known.user_id)
        if stop is None or stop.action is not BulkAction.STOP or stop.state is not WorkState.DONE:
            return redirect(url_for("bulk_jobs.show", key=key), 303)
        undo = Work(
            key=undo_key(key),
            action=BulkAction.UNDO_STOP,
            user_id=known.user_id,
            ids=stop.ids,
            began_at=self._services.now_ms(),
            undone=stop.time,
        )
        if not self._work.start(undo, known.actor):
            flash(gettext("This was undone already. Nothing was started again."), "error")
        return redirect(url_for("bulk_jobs.show", key=undo.key), 303)


def job_parts(commands: Commands, work: Work) -> Iterator[Part]:
    """Carry out a bulk action, and return the outcomes part by part."""
    jobs, ids = commands.bulk_jobs, work.ids
    ways: dict[BulkAction, Callable[[], Iterator[Part]]] = {
        BulkAction.START: lambda: jobs.start(ids),
        BulkAction.STOP: lambda: jobs.stop(ids),
        BulkAction.UNDO_STOP: lambda: jobs.undo_stop(ids, work.undone),
        BulkAction.TRIGGER: lambda: jobs.trigger(ids, work.form),
        BulkAction.DELETE: lambda: jobs.delete(ids),
    }
    return ways[work.action]()


def ask_about_all(action: BulkAction) -> Response:
    """Redirect to the page that asks for confirmation, with the form's filter."""
    return redirect(url_for("bulk_jobs.ask", action=action, filter=sent_filter()), 303)


def chosen_jobs(services: ConsoleServices) -> ChosenJobs:
    """Return the jobs that match the filter of the form."""
    known, form = visitor(), JobFilterForm(read_query(sent_filter()))
    apps = services.database.read(lambda session: list(ids_by_name(session, known.app_ids)))
    form.set_choices(apps)
    if not form.validate():
        abort(400)
    asked = wanted(form, known)
    job_ids = services.database.read(
        lambda session: job_search.ids(session, asked, most=MAX_JOBS + 1)
    )
    return ChosenJobs(job_ids[:MAX_JOBS], len(job_ids) <= MAX_JOBS)


RUN_ACTIONS = (BulkAction.RUN_AGAIN, BulkAction.KILL)


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """The chosen runs; `is_all` is False if there are more."""

    run_ids: Sequence[int]
    is_all: bool

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.run_ids)


class BulkRunPages:
    """Bulk actions on the runs of the visitor's apps."""

    name = "bulk_runs"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._finder = RunFinder(services)
        self._work = BulkWork(services, _run_parts)

    @route("/runs/bulk/ask", Right.OPERATE)
    def ask(self) -> Page:
        """Show how many runs are chosen, and ask for confirmation.

        The selection is in the URL, so a sign-in on the way leads back to it.
        """
        now_ms = self._services.now_ms()
        selected = self._selected(now_ms)
        chosen = self._of_wanted_times(selected)
        if not chosen.run_ids:
            flash(gettext("No run was selected."), "error")
            return redirect(list_url("runs.index"), 303)
        action = sent_action(RUN_ACTIONS)
        preview = self._preview(chosen) if action is BulkAction.RUN_AGAIN else []
        return render_template(
            "pages/bulk_runs_ask.html",
            action=action,
            preview=preview,
            unknown=len(chosen.run_ids) - sum(line.counts.total() for line in preview),
            chosen=chosen,
            selected=selected,
            newest=self._of_newest_times(selected) if action is BulkAction.RUN_AGAIN else selected,
            wants_newest=wants_newest(),
            all_url=_same_question(),
            newest_url=_same_question(times="newest"),
            is_about_all=is_about_all(),
            filter=sent_filter(),
            key=fresh_key(),
            asked_at=now_ms,
            back=list_url("runs.index"),
        )

    @route("/runs/bulk/start", Right.OPERATE, methods=("POST",))
    def start(self) -> Page:
        """Start the work, unless this form was already sent."""
        known, key, asked_at = visitor(), sent_key(), sent_number("asked_at")
        if self._work.find(key, known.user_id) is None:
            chosen = self._of_wanted_times(self._selected(asked_at))
            action = sent_action(RUN_ACTIONS)
            if len(chosen) > sent_number("count"):
                flash(gettext("More runs match now. Please check again."), "error")
                again = url_for(
                    "bulk_runs.ask",
                    action=action,
                    all=1,
                    filter=sent_filter(),
                    times="newest" if wants_newest() else None,
                )
                return redirect(again, 303)
            work = Work(
                key=key,
                action=action,
                user_id=known.user_id,
                ids=chosen.run_ids,
                began_at=self._services.now_ms(),
                is_all=chosen.is_all,
            )
            self._work.start(work, known.actor)
        return redirect(url_for("bulk_runs.show", key=key), 303)

    @route("/runs/bulk/work", Right.OPERATE)
    def show(self) -> Page:
        """Show the progress and the result."""
        key = request.args.get("key", "")
        work = self._work.find(key, visitor().user_id)
        return render_template("pages/bulk_runs.html", work=work), 200 if work else 404

    @route("/runs/bulk/resume", Right.OPERATE, methods=("POST",))
    def resume(self) -> Response:
        """Continue work that was interrupted, with the visitor's current rights."""
        key = sent_key()
        self._work.resume(key, visitor())
        return redirect(url_for("bulk_runs.show", key=key), 303)

    def _preview(self, chosen: ChosenRuns) -> list[JobPreview]:
        commands = self._services.commands(visitor().actor).bulk_runs
        return self._services.database.read(
            lambda session: commands.preview(session, chosen.run_ids)
        )

    def _of_wanted_times(self, selected: ChosenRuns) -> ChosenRuns:
        return self._of_newest_times(selected) if wants_newest() else selected

    def _of_newest_times(self, selected: ChosenRuns) -> ChosenRuns:
        commands = self._services.commands(visitor().actor).bulk_runs
        newest = self._services.database.read(
            lambda session: commands.of_newest_times(session, selected.run_ids)
        )
        return ChosenRuns(newest, selected.is_all)

    def _of_whole_times(self, ticked: Sequence[int]) -> ChosenRuns:
        commands = self._services.commands(visitor().actor).bulk_runs
        whole = self._services.database.read(
            lambda session: commands.of_whole_times(session, ticked)
        )
        return ChosenRuns(whole[:MAX_TICKED], len(whole) <= MAX_TICKED)

    def _selected(self, asked_at: int) -> ChosenRuns:
        if not is_about_all():
            ticked = ticked_ids()
            return self._of_whole_times(ticked) if wants_whole() else ChosenRuns(ticked, True)
        asked = self._finder.ask(read_query(sent_filter()))
        if not asked.is_valid:
            abort(400)
        # Do not run again what running others again has created since.
        is_again = sent_action(RUN_ACTIONS) is BulkAction.RUN_AGAIN
        swept = self._finder.all(asked, until_ms=asked_at if is_again else None)
        return ChosenRuns(swept.run_ids, swept.is_all)


def _same_question(**times: str) -> str:
    """Return the URL of this question about the same runs, with other due times of them."""
    kept = [item for item in request.args.items(multi=True) if item[0] != "times"]
    return f"{url_for('bulk_runs.ask')}?{urlencode([*kept, *times.items()])}"


def _run_parts(commands: Commands, work: Work) -> Iterator[Part]:
    """Carry out a bulk action on runs, and return the outcomes part by part."""
    if work.action is BulkAction.KILL:
        return commands.bulk_runs.kill(work.ids)
    return commands.bulk_runs.again(work.ids, work.form)
