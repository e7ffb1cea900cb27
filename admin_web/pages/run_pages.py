"""The pages of runs: list, details, result, kill, re-run, logs, and failures by message."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from flask import Response, current_app, flash, redirect, render_template, request, url_for
from flask_babel import LazyString, gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as AnyResponse

from warren.admin_web import exports
from warren.admin_web.exports import ListFiles
from warren.admin_web.flows import run_graph
from warren.admin_web.forms.console_form import NO_TIME, sent_once
from warren.admin_web.forms.run_filter import (
    MAX_GROUPED,
    MAX_RUNS,
    PERIODS,
    Asked,
    MoveForm,
    RunFinder,
    place_of,
)
from warren.admin_web.language import labels
from warren.admin_web.language.labels import problem_text, stored_text
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.pages.board import mute_words
from warren.admin_web.pages.glue import difference
from warren.admin_web.run_logs import (
    COMPARED_LINES,
    LogPages,
    LogPlaceView,
    LogReader,
    log_place,
)
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.broker.log_lines import shown_text, whole_lines
from warren.broker.messages import result_value
from warren.broker.reasons import Why
from warren.resources.board import FAILS, JobOnBoard
from warren.resources.runs import KillOutcome
from warren.scheduler.actor import Right
from warren.scheduler.board.error_text import ErrorText, error_of
from warren.scheduler.commands.reruns import RerunOptions
from warren.scheduler.commands.triggers import When
from warren.scheduler.flows.graph import NAME_LENGTH
from warren.scheduler.flows.judge import FlowPart
from warren.scheduler.problems import Code, Problem
from warren.scheduler.views import run_view
from warren.scheduler.views.board_view import job_state
from warren.scheduler.views.limit_view import waits_for
from warren.scheduler.views.run_view import run_progress
from warren.sql.accounts import audit_log, preferences
from warren.sql.board import listing
from warren.sql.instants import epoch_ms
from warren.sql.jobs import history, job_names
from warren.sql.jobs.history import SkipLine
from warren.sql.listings import job_search, recent, run_messages, run_relations, run_search
from warren.sql.listings.error_groups import ErrorGroup, ErrorGroups
from warren.sql.listings.run_search import RunCount, RunPage, RunSearch
from warren.sql.registry.apps import ids_by_name
from warren.sql.run_status import FAILURES, FINAL, OPEN, Kind, RunStatus
from warren.sql.runs.run_rows import DetailedRun

#: Results that are nested deeper or have more parts are shown as text; the last is the most columns
#: of a table.
MAX_DEPTH = 12
MAX_PARTS = 2_000
MAX_COLUMNS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A part of a tree: its key or number, and its own text or its parts."""

    name: str
    text: str = ""
    parts: tuple["Branch", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """A result: a table with a row for each of its `columns`, else a tree, else `text`."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    tree: tuple[Branch, ...] = ()
    text: str = ""


def result_view(result: str | None, message: str) -> ResultView | None:
    """Return how to show a result; None if there is none, or the message says the same."""
    value = result_value(result)
    if value is None or (isinstance(value, str) and message.startswith(value)):
        return None
    if not isinstance(value, dict | list) or not value:
        return None if _text(value) == message else ResultView(text=_text(value))
    if columns := _columns(value):
        rows = tuple(tuple(_text(row.get(name, "")) for name in columns) for row in value)
        return ResultView(columns=columns, rows=rows)
    if _parts(value, MAX_DEPTH) <= MAX_PARTS:
        return ResultView(tree=tuple(_branches(value)))
    return ResultView(text=result or "")


def _columns(value: Any) -> tuple[str, ...]:
    """Return the columns of a list of flat objects; none if a value is not one."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        return ()
    if any(isinstance(cell, dict | list) for row in value for cell in row.values()):
        return ()
    columns = tuple(dict.fromkeys(name for row in value for name in row))
    return columns if len(columns) <= MAX_COLUMNS and len(value) <= MAX_PARTS else ()


def _parts(value: Any, depth: int) -> int:
    """Return how many parts a value has; more than may be shown if it is nested too deep."""
    if not isinstance(value, dict | list):
        return 1
    if not depth:
        return MAX_PARTS + 1
    return 1 + sum(_parts(part, depth - 1) for _, part in _items(value))


def _branches(value: Any) -> Iterable[Branch]:
    for name, part in _items(value):
        if isinstance(part, dict | list) and part:
            yield Branch(name=name, parts=tuple(_branches(part)))
        else:
            yield Branch(name=name, text=_text(part))


def _items(value: dict[str, Any] | list[Any]) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return value.items()
    return ((str(number), part) for number, part in enumerate(value, start=1))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_KILLED = {
    KillOutcome.CANCELLED: lazy_gettext("The run has been cancelled; it was not sent."),
    KillOutcome.REQUESTED: lazy_gettext("Kill requested."),
}

LINES = 50
#: The most jobs that are suggested while a name is typed.
SUGGESTED = 12


class RunPages:
    """Runs of the visitor's apps."""

    name = "runs"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._times = LocalTimes(services.cluster_zone, services.now_ms)
        self._finder = RunFinder(services)
        self._files = ListFiles(services)
        self._logs = LogPages(services, LogReader(services.requester, stored=services.stored_logs))

    @route("/runs", Right.VIEW)
    def index(self) -> Response | str | tuple[str, int]:
        """Show runs, newest first."""
        asked = self._finder.ask(request.args)
        if not asked.is_valid:
            return self._list(asked, RunPage(runs=[])), 422
        if exports.is_asked():
            return self._files.runs(self._finder.search(asked))
        before = place_of(request.args.get("before"))
        wanted = self._finder.search(asked, before=before, limit=LINES)

        def read(session: Session) -> tuple[RunPage, list[SkipLine]]:
            found = run_search.page(session, wanted)
            between = asked.form.skips(wanted, found.older)
            return found, history.skip_lines(session, between) if between else []

        return self._list(asked, *self._services.database.read(read))

    @route("/runs/jobs", Right.VIEW)
    def job_names(self) -> str:
        """Return suggestions for a job's name as options of a datalist."""
        text, app = request.args.get("job", "").strip()[:255], request.args.get("app", "")
        known = visitor()

        def read(session: Session) -> list[str]:
            mine = ids_by_name(session, known.app_ids)
            wanted = [mine[app]] if app in mine else known.app_ids
            return job_names.names_with(session, text, wanted, limit=SUGGESTED)

        names = self._services.database.read(read) if text else []
        return render_template("pages/runs_jobs.html", names=names)

    @route("/runs/<id:run_id>", Right.VIEW)
    def show(self, run_id: int) -> str:
        """Show everything about a run."""
        known, now_ms = visitor(), self._services.now_ms()
        facts = self._services.database.read(lambda session: _facts(session, known, run_id, now_ms))
        run, flow = facts["run"], facts.pop("flow_view")
        return render_template(
            "pages/run.html",
            **facts,
            now_ms=now_ms,
            flow=run_graph(flow, run, self._times, now_ms) if flow else None,
            asked_node=request.args.get("node", ""),
            is_open=run.status in OPEN,
            is_upcoming=_is_upcoming(run, now_ms),
            move_form=MoveForm(zone=self._times.zone(), run=run),
            steps=steps(run, now_ms, is_flow=flow is not None),
            shares=shares(run, now_ms),
            progress=run_progress(run, now_ms),
            cause=labels.CAUSE.get(run.kind, ""),
            result=labels.RESULT[run.status],
            returned=result_view(run.result, run.message),
            tail="\n".join(
                self._logs.in_zone(shown_text(whole_lines(run.log_tail or "")).split("\n"))
            ),
            job_url=_job_url(run),
            log_place=self._log_place(run, now_ms),
        )

    def _log_place(self, run: DetailedRun, now_ms: int) -> LogPlaceView | None:
        if self._services.stored_logs is None:
            return None
        return self._services.database.read(lambda session: log_place(session, run, now_ms))

    @route("/runs/<id:run_id>/kill", Right.OPERATE, methods=("POST",))
    def kill(self, run_id: int) -> AnyResponse:
        """Kill a run, wherever it is."""
        try:
            outcome = self._services.commands(visitor().actor).runs.kill(run_id)
        except Problem as problem:
            if problem.code is not Code.RUN_OVER:
                raise
            flash(gettext("The run has already ended."), "error")
        else:
            flash(_KILLED[outcome])
        page = "runs.log" if "log" in request.form else "runs.show"
        return redirect(url_for(page, run_id=run_id), 303)

    @route("/runs/<id:run_id>/move", Right.OPERATE, methods=("POST",))
    def move(self, run_id: int) -> AnyResponse:
        """Give a run that was triggered for later another due time."""
        form = MoveForm(request.form, zone=self._times.zone())
        at_ms = form.at_ms
        known = visitor()
        if at_ms is None:
            self._services.database.read(lambda s: recent.run(s, run_id, known.app_ids))
            flash(NO_TIME, "error")
            return redirect(url_for("runs.show", run_id=run_id), 303)
        try:
            self._services.commands(known.actor).runs.move(run_id, When(at_ms=at_ms))
        except Problem as problem:
            if problem.code is Code.NO_RUN:
                raise
            flash(problem_text(problem), "error")
        else:
            flash(gettext("The run is due at %(time)s.", time=self._times.format(at_ms)))
        return redirect(url_for("runs.show", run_id=run_id), 303)

    @route("/runs/<id:run_id>/again", Right.OPERATE, methods=("POST",))
    def again(self, run_id: int) -> AnyResponse:
        """Run a run again for its due time; show the new run."""
        known = visitor()
        children = request.form.getlist("children")
        part, node = request.form.get("part"), request.form.get("node", "")[:NAME_LENGTH]
        options = RerunOptions(
            current="current" in request.form,
            children="yes" in children if children else None,
            failed=part == FlowPart.FAILED,
            from_node=node if part == FlowPart.FROM else "",
            only_node=node if part == FlowPart.ONLY else "",
        )
        try:
            planned, _is_new = self._services.commands(known.actor).runs.rerun(
                [run_id], options, once=sent_once(known.user_id)
            )
        except Problem as problem:
            if problem.code is Code.NO_RUN:
                raise
            flash(problem_text(problem), "error")
            return redirect(url_for("runs.show", run_id=run_id), 303)
        flash(gettext("New run queued. This is its page."))
        return redirect(url_for("runs.show", run_id=planned[0]), 303)

    @route("/runs/<id:run_id>/log", Right.VIEW)
    def log(self, run_id: int) -> str:
        return self._logs.show(visitor(), run_id)

    @route("/runs/<id:run_id>/log/difference", Right.VIEW)
    def log_difference(self, run_id: int) -> AnyResponse | str:
        """Show in what the end of a failed run's log differs from that of the last success."""
        known = visitor()

        def read(session: Session) -> tuple[DetailedRun, DetailedRun | None]:
            run = recent.run(session, run_id, known.app_ids)
            return run, _last_success(session, known, run)

        run, good = self._services.database.read(read)
        if good is None:
            return redirect(url_for("runs.log", run_id=run_id), 303)
        logs = [(one, self._logs.compared(one)) for one in (good, run)]
        old, new = (log.text for _, log in logs)
        return render_template(
            "pages/run_log_difference.html",
            run=run,
            good=good,
            logs=logs,
            found=difference(old, new),
            most=COMPARED_LINES,
        )

    @route("/runs/<id:run_id>/log/lines", Right.VIEW)
    def log_lines(self, run_id: int) -> Response:
        """Return the lines from `from` on, for the script that follows a log."""
        return self._logs.lines(visitor(), run_id)

    @route("/runs/<id:run_id>/log/search", Right.VIEW)
    def search_log(self, run_id: int) -> Response:
        """Return the numbers of the log's lines that contain the words."""
        return self._logs.search(visitor(), run_id)

    @route("/runs/<id:run_id>/log/download", Right.VIEW)
    def download_log(self, run_id: int) -> Response:
        """Return a whole log as a text file."""
        return self._logs.download(visitor(), run_id)

    def _list(self, asked: Asked, run_page: RunPage, skipped: Sequence[SkipLine] = ()) -> str:
        of_nodes = [run.id for run in run_page.runs if run.flow_run_id]

        def read(session: Session) -> tuple[Any, Any]:
            saved = preferences.filters(session, visitor().user_id, "runs")
            places = (
                run_relations.flow_places(session, of_nodes, visitor().app_ids) if of_nodes else {}
            )
            return saved, places

        saved, flows = self._services.database.read(read)
        return render_template(
            "pages/runs.html",
            form=asked.form,
            periods=PERIODS,
            saved=saved,
            flows=flows,
            found=run_page,
            listed=_with_skips(run_page.runs, skipped),
            older="-".join(map(str, run_page.older)) if run_page.older else "",
            is_first=place_of(request.args.get("before")) is None,
            now_ms=self._services.now_ms(),
        )


def _with_skips(
    runs: Sequence[DetailedRun], skipped: Sequence[SkipLine]
) -> list[DetailedRun | SkipLine]:
    """Return runs, and at their due times what was skipped, newest first.

    A due time that was planned and then skipped has a cancelled run, which says why.
    """
    told = {(run.job_id, run.due_at) for run in runs if run.status == RunStatus.CANCELLED}
    unseen = [
        skip for skip in skipped if skip.number > 1 or (skip.job_id, skip.from_at) not in told
    ]
    both: list[DetailedRun | SkipLine] = [*runs, *unseen]
    return sorted(both, key=_due_ms, reverse=True)


def _due_ms(item: DetailedRun | SkipLine) -> int:
    return item.to_at if isinstance(item, SkipLine) else item.due_at


#: How many successes are read to find one of the same shard.
SUCCESSES = 20


def _is_upcoming(run: DetailedRun, now_ms: int) -> bool:
    """Whether a run was triggered for later, and is not due yet."""
    is_asked_for = run.origin_id == run.id and not run.attempt
    return is_asked_for and run.status == RunStatus.PLANNED and run.due_at > now_ms


def _facts(session: Session, known: Visitor, run_id: int, now_ms: int) -> dict[str, Any]:
    run = recent.run(session, run_id, known.app_ids)
    relations = run_relations.relations(session, run, known.app_ids)
    attempts = sorted({row.attempt for row in relations.tick})
    shards: dict[int, dict[int, Any]] = {}
    for row in relations.tick:
        shards.setdefault(row.shard_index, {})[row.attempt] = row
    is_cut = len(relations.tick) >= run_relations.MAX_TICK_RUNS
    waits = waits_for(session, [run], known.actor, now_ms=now_ms).get(run.id)
    return {
        "run": run,
        "last_success": _last_success(session, known, run),
        "triggered_by": _triggered_by(session, run),
        "relations": relations,
        "flow_view": run_view.read(session, run, known.actor.knows_job),
        "flow_place": run_relations.flow_places(session, [run.id], known.app_ids).get(run.id),
        "attempts": attempts,
        "shards": shards,
        "is_cut": is_cut,
        "waits_for": Why.WAITS_FOR(limits=tuple(waits)) if waits else None,
    }


def _last_success(session: Session, known: Visitor, run: DetailedRun) -> DetailedRun | None:
    """Return the last success of a failed run's job and shard before it, if it is not far back."""
    if run.status not in FAILURES or run.job is None:
        return None
    wanted = RunSearch(
        app_ids=known.app_ids,
        job_id=run.job_id,
        statuses=frozenset({RunStatus.SUCCEEDED}),
        until_ms=run.due_at,
        limit=SUCCESSES,
    )
    found = [
        one.id
        for one in run_search.page(session, wanted).runs
        if (one.shard_index, one.shard_total) == (run.shard_index, run.shard_total)
    ]
    return next(iter(recent.by_ids(session, found[:1])), None)


def _triggered_by(session: Session, run: DetailedRun) -> str:
    """Return who triggered a run's tick; empty if no one did or it is unknown."""
    if run.origin_id in (0, run.backfill_id) or run.kind == Kind.PARENT:
        return ""
    is_again = run.kind == Kind.RERUN
    run_id, at_ms = (run.id, run.due_at) if is_again else (run.origin_id, run.scheduled_at)
    return audit_log.trigger_of(session, run.job_id, run_id, at_ms) or ""


def _job_url(run: DetailedRun) -> str:
    """Return the URL of a run's job; empty if the job is deleted or there is no such page."""
    if run.job is None or "jobs.show" not in current_app.view_functions:
        return ""
    return url_for("jobs.show", job_id=run.job_id)


_STEPS = (
    ("due_at", lazy_gettext("due")),
    ("routed_at", lazy_gettext("routed")),
    ("sent_at", lazy_gettext("sent")),
    ("started_at", lazy_gettext("started")),
    ("finished_at", lazy_gettext("finished")),
)


_SENDING = ("routed_at", "sent_at")


class Stage(StrEnum):
    """The state of a step."""

    DONE = "done"
    NOW = "now"
    AHEAD = "ahead"
    #: It did not happen, or a later step was recorded first.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: its time in epoch milliseconds, and the time since the step before it."""

    word: LazyString
    stage: Stage
    at_ms: int | None = None
    gap_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How long a run waited and worked so far, in milliseconds."""

    waited_ms: int
    worked_ms: int

    @property
    def total_ms(self) -> int:
        """The total, at least 1 so that it can be divided by."""
        return max(1, self.waited_ms + self.worked_ms)


#: Up to this much, a step before the one that it follows is the difference of two clocks.
CLOCKS_MS = 100


def in_order(at_ms: int, before_ms: int | None) -> int:
    """Return when a step happened: not before the step that it follows, if only clocks differ."""
    if before_ms is not None and 0 < before_ms - at_ms <= CLOCKS_MS:
        return before_ms
    return at_ms


def steps(run: DetailedRun, now_ms: int, *, is_flow: bool = False) -> list[Step]:
    """Return a run's steps in order; that of a flow is not sent anywhere."""
    known_steps = [step for step in _STEPS if not is_flow or step[0] not in _SENDING]
    times = [getattr(run, column) for column, _ in known_steps]
    if run.status == RunStatus.PLANNED and run.due_at > now_ms:
        times[0] = None
    last = max((number for number, at in enumerate(times) if at), default=-1)
    run_steps: list[Step] = []
    known: int | None = None
    for number, (stored, (_, word)) in enumerate(zip(times, known_steps, strict=True)):
        if stored:
            at = in_order(stored, known)
            gap = max(0, at - known) if known is not None else None
            run_steps.append(Step(word=word, stage=Stage.DONE, at_ms=at, gap_ms=gap))
            known = at
        else:
            stage = _missing(number, last, is_over=run.status in FINAL)
            at_ms = run.due_at if number == 0 else None
            run_steps.append(Step(word=word, stage=stage, at_ms=at_ms))
    return run_steps


def shares(run: DetailedRun, now_ms: int) -> Shares | None:
    """Return how long a run waited and worked; None before it is due."""
    end = run.finished_at or (now_ms if run.status not in FINAL else None)
    if end is None or end <= run.due_at:
        return None
    began = min(max(run.started_at or end, run.due_at), end)
    return Shares(waited_ms=began - run.due_at, worked_ms=end - began)


def _missing(number: int, last: int, *, is_over: bool) -> Stage:
    if is_over or number < last:
        return Stage.SKIPPED
    return Stage.NOW if number == last + 1 else Stage.AHEAD


#: Groups of a job's runs on the page; a shorter period shows the rest.
GROUPS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorOfJob:
    """The runs of a job that failed with an error; `run` is the newest of them.

    If the job still fails with it, `since_ms` is when its streak of failures began, and
    `error_since_ms` when this error did; else both are None. `mute` says who looks after it.
    """

    group: ErrorGroup
    run: DetailedRun
    since_ms: int | None = None
    error_since_ms: int | None = None
    mute: str = ""


@dataclass(frozen=True, slots=True)
class SharedError:
    """An error as its jobs have it in common: its text without secrets, and its `jobs`."""

    text: str
    jobs: list[ErrorOfJob]

    @property
    def count(self) -> int:
        """How many runs failed with it."""
        return sum(job.group.count for job in self.jobs)

    @property
    def is_now(self) -> bool:
        """Whether a job still fails with it."""
        return any(job.since_ms is not None for job in self.jobs)

    @property
    def first_due(self) -> int:
        """The first of their due times."""
        return min(job.group.first_due for job in self.jobs)

    @property
    def last_due(self) -> int:
        """The last of their due times."""
        return max(job.group.last_due for job in self.jobs)


def shared_errors(
    groups: Sequence[tuple[ErrorGroup, DetailedRun]],
    states: Mapping[int, JobOnBoard],
    times: LocalTimes,
) -> list[SharedError]:
    """Join the groups of jobs that have the same error: first those with which jobs still fail."""
    errors: dict[str, SharedError] = {}
    for group, run in groups:
        said = error_of(run.message or run.trigger_message or "", run.status)
        state = states.get(run.job_id)
        fails = state is not None and state.trouble in FAILS
        if state and fails and (state.newest_run == run.id or state.error_key == said.key):
            # The board has read the whole message, a list only its beginning.
            said = ErrorText(state.error_key, state.error)
            job = ErrorOfJob(
                group=group,
                run=run,
                since_ms=epoch_ms(state.trouble_since) if state.trouble_since else None,
                error_since_ms=epoch_ms(state.error_since) if state.error_since else None,
                mute=mute_words(state, times),
            )
        else:
            job = ErrorOfJob(group=group, run=run)
        text = stored_text(said.text, run.message_why if run.message else run.trigger_why)
        errors.setdefault(said.key, SharedError(text, [])).jobs.append(job)
    return sorted(
        errors.values(), key=lambda error: (not error.is_now, -error.count, -error.last_due)
    )


class RunErrorPages:
    """Errors of the visitor's apps."""

    name = "run_errors"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._finder = RunFinder(services)
        self._times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/runs/errors", Right.VIEW)
    def show(self) -> Response | str | tuple[str, int]:
        """Show groups of failed runs, the largest first."""
        asked = self._finder.ask(request.args)
        facts = {"form": asked.form, "periods": PERIODS}
        if not asked.is_valid:
            nothing = ErrorGroups(groups=[], runs=0, is_all=True)
            return render_template("pages/runs_errors.html", **facts, errors=[], found=nothing), 422
        if exports.is_asked():
            return self._file(self._finder.errors(asked, most=MAX_RUNS).groups)
        error_groups = self._finder.errors(asked, most=MAX_GROUPED)
        first = error_groups.groups[:GROUPS]

        def read(session: Session) -> tuple[list[DetailedRun], dict[int, JobOnBoard]]:
            lines = run_messages.by_ids(session, [group.newest for group in first])
            rows = listing.of_jobs(session, {group.job_id for group in first})
            now_ms = self._services.now_ms()
            return lines, {job_id: job_state(row, now_ms) for job_id, row in rows.items()}

        lines, states = self._services.database.read(read)
        by_id = {line.id: line for line in lines}
        groups = [(group, by_id[group.newest]) for group in first if group.newest in by_id]
        hidden = len(error_groups.groups) - len(groups)
        return render_template(
            "pages/runs_errors.html",
            **facts,
            errors=shared_errors(groups, states, self._times),
            hidden=hidden,
            found=error_groups,
        )

    def _file(self, groups: Sequence[ErrorGroup]) -> Response:
        """Export every group."""
        names = self._services.database.read(
            lambda session: job_search.names(
                session, {group.job_id for group in groups}, visitor().app_ids
            )
        )
        rows = (
            {
                "runs": group.count,
                "job_id": group.job_id,
                "job": names.get(group.job_id),
                "message": group.text,
                "first_due_at": group.first_due,
                "last_due_at": group.last_due,
                "newest_run_id": group.newest,
            }
            for group in groups
        )
        columns = ("runs", "job_id", "job", "message", "first_due_at", "last_due_at")
        return exports.answer("errors", (*columns, "newest_run_id"), rows)

    @route("/runs/total", Right.VIEW)
    def total(self) -> str:
        """Return the number of matching runs, up to a limit, as HTML for the runs page."""
        asked = self._finder.ask(request.args)
        nothing = RunCount(number=0, is_all=True)
        run_count = self._finder.count(asked) if asked.is_valid else nothing
        return render_template("pages/runs_total.html", found=run_count, most=MAX_RUNS)
