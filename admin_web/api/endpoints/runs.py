"""Triggers, moves and cancels, repeats, lists, awaits and kills runs, and reads their logs."""

from typing import Annotated, Any, Literal

import msgspec
from flask import request
from sqlalchemy.orm import Session

from warren.admin_web.api.endpoint import BASE, Call, Reply, endpoint
from warren.admin_web.api.endpoints.apps import asked_app_ids
from warren.admin_web.api.endpoints.jobs import job_id_of, missing_app_first
from warren.admin_web.api.openapi import answer_type, to_answer
from warren.admin_web.api.paging import (
    Cursor,
    Id,
    Instant,
    Limit,
    body_day,
    body_instant_ms,
    cursor,
    instant_ms,
    place_of,
    query_day,
)
from warren.admin_web.api.problem_answers import at_parameter, at_pointer
from warren.admin_web.api.run_answers import (
    WAIT_HEADER,
    HeldRuns,
    LogAnswer,
    RunAnswer,
    RunLogAnswers,
    RunWithTick,
    TickEnd,
    Wait,
    applied,
    idempotent,
    log_reply,
    preferred_wait_seconds,
    run_answer,
    tick_answer,
    tick_runs,
    visible_run,
)
from warren.admin_web.run_logs import log_source
from warren.admin_web.services import ApiServices
from warren.resources.operation import (
    DEFAULT_LIMIT,
    JSON,
    KEY_HEADER,
    TEXT,
    Day,
    Scope,
    Word,
    page_type,
)
from warren.scheduler.commands.bulk.reruns import RerunOptions
from warren.scheduler.commands.bulk.triggers import MAX_TRIGGERS, Trigger, Triggered, When
from warren.scheduler.commands.run_commands import KillOutcome
from warren.scheduler.views import flow_view
from warren.scheduler.views.flow_view import NODE_PAGES_ONLY, NodeView
from warren.scheduler.views.limit_view import in_words, waits_for
from warren.sql.jobs.job_names import JobPath
from warren.sql.listings import recent, run_search
from warren.sql.listings.recent import along_jobs
from warren.sql.listings.run_search import RunSearch
from warren.sql.run_status import FAILURES, FINAL, Kind, RunStatus
from warren.sql.runs.run_rows import DetailedRun

#: Lines of one answer at most.
LINES = 1_000

Statuses = Literal[tuple(status.value for status in RunStatus)]  # type: ignore[valid-type]
Kinds = Literal[tuple(kind.value for kind in Kind)]  # type: ignore[valid-type]


class RerunBody(msgspec.Struct, kw_only=True):
    """How to repeat a run: as it was, or with the job's `current` handler, param and script.

    `children`: whether the job's children run when the due time has succeeded. Without it they do,
    but if they have already run for this due time, the request is refused. Of a flow's run,
    `failed` repeats only what failed or was stopped and what runs after it, `from` one node and
    what runs after it, and `only` one node; the other nodes are kept with their results.
    """

    current: bool = False
    children: bool | None = None
    failed: bool = False
    from_: Word | None = msgspec.field(default=None, name="from")
    only: Word | None = None


def _asked_again(body: RerunBody) -> list[object]:
    """Return what a request asks for; without a part of a flow, as before there were any."""
    part = [body.failed, body.from_, body.only]
    return [body.current, body.children, *(part if any(part) else ())]


class RunsQuery(msgspec.Struct, kw_only=True):
    """Which runs to list, by due time; `job` is NAME together with an app, or APP/NAME.

    `unresolved`: only failures whose due time is failed now: nothing later succeeded or is open.
    `outside_flows`: all but runs of flows' nodes; `flow_run_id`: only those of the nodes of one run
    of a flow; `backfill_id`: only those of a backfill. Without `status`, `until` and such an id,
    runs that are due over an hour from now are left out; with `status=PLANNED` they are listed too.
    """

    app: Word | None = None
    job: Annotated[str, msgspec.Meta(max_length=330)] | None = None
    status: list[Statuses] = []  # type: ignore[valid-type]
    kind: Kinds | None = None  # type: ignore[valid-type]
    unresolved: bool = False
    outside_flows: bool = False
    flow_run_id: Id | None = None
    backfill_id: Id | None = None
    since: Instant | None = None
    until: Instant | None = None
    address: Word | None = None
    run_date: Day | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = None


class LogQuery(msgspec.Struct, kw_only=True):
    """Which lines to return."""

    from_line: Annotated[int, msgspec.Meta(ge=1, le=50_000_000)] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, le=LINES)] = LINES


class TickAnswer(msgspec.Struct, kw_only=True):
    """A tick: its state, and the attempts of its shards.

    `items` are at most 1,000, and have at most 4 MB of texts; of a larger tick, they are the last
    attempts. `tick.run_ids` are all.
    """

    tick: TickEnd
    items: list[RunAnswer]


NodeAnswer: Any = answer_type("Node", NodeView, without=NODE_PAGES_ONLY)


class NodesAnswer(msgspec.Struct, kw_only=True):
    """The nodes of a flow's run, each behind those it runs after; none if the run is no flow's.

    `state` is WAITING until a node begins, then that of its run which is furthest, and `outcome`
    when it is over; `reason` says why it failed or did not run. `after` are the nodes before it,
    each with what must become of it. Of its `shards`, so many have succeeded, were skipped or
    failed; `run_id` is the run to look at first. A KEPT node became `kept_outcome` in
    `kept_run_id`, the run that is repeated. `job`, `app` and `run_id` are null if the job is
    deleted or the token may not see it.
    """

    items: list[NodeAnswer]


class Killed(msgspec.Struct, kw_only=True):
    """What happened to the run."""

    result: KillOutcome


RunPage = page_type(RunAnswer)


class RunEndpoints:
    """The runs that a token may see."""

    name = "runs"

    def __init__(self, services: ApiServices) -> None:
        self._services = services
        self._logs = RunLogAnswers(services.requester, services.now_ms)
        self._held = HeldRuns(services)

    @endpoint("GET", "/runs", Scope.READ, RunPage, query=RunsQuery)
    def index(self, call: Call) -> Any:
        """List runs, latest due time first."""
        query = call.query
        if query.outside_flows and query.flow_run_id:
            raise at_parameter("outside_flows", "expected outside_flows without flow_run_id")
        wanted = RunSearch(
            app_ids=asked_app_ids(self._services, call, call.query.app),
            job_id=self._job_id(call),
            statuses=_statuses(query),
            unresolved=query.unresolved,
            outside_flows=query.outside_flows,
            flow_run_id=query.flow_run_id,
            backfill_id=query.backfill_id,
            kind=query.kind,
            address=query.address,
            run_date=query_day("run_date", query.run_date),
            since_ms=instant_ms("since", query.since),
            until_ms=self._until_ms(query),
            before=place_of(query, tuple[int, ...]),
            limit=query.limit,
        )

        now_ms = self._services.now_ms()

        def read(session: Session) -> tuple[run_search.RunPage, list[Any]]:
            scope = along_jobs(
                session, wanted, app_ids=call.actor.app_ids, job_ids=call.actor.job_ids
            )
            run_page = run_search.page(session, scope)
            rows = recent.by_ids(session, [line.id for line in run_page.runs])
            why = waits_for(session, rows, call.actor, now_ms=now_ms)
            return run_page, [run_answer(row, in_words(why, row.id)) for row in rows]

        run_page, items = self._services.database.read(read)
        more = cursor(query, run_page.older) if run_page.older is not None else None
        return RunPage(items=items, next=more)

    @endpoint("GET", "/runs/<id:run_id>", Scope.READ, RunWithTick, headers=WAIT_HEADER)
    def show(self, call: Call, run_id: int) -> Reply | Wait:
        """Show a run and the state of its tick."""
        seconds = preferred_wait_seconds()
        return self._held.reply(call, run_id, seconds, {}, if_open=200)

    @endpoint("GET", "/runs/<id:run_id>/tick", Scope.READ, TickAnswer)
    def tick(self, call: Call, run_id: int) -> TickAnswer:
        """Show every attempt of every shard of a run's tick.

        Of a tick with more than 1,000 attempts or 4 MB of texts, the last attempts are shown. The
        others are named in `tick.run_ids`; each can be read as `/runs/{run_id}`.
        """

        def read(session: Session) -> tuple[list[DetailedRun], TickEnd]:
            run = visible_run(session, call, run_id)
            shown = recent.last_of_tick(session, run)
            runs = tick_runs(session, run)
            # `runs` are read later, to see whether `shown` are all: those are of the same moment.
            is_whole = [run_view.id for run_view in shown] == [run_view.id for run_view in runs]
            return shown, tick_answer(run, shown if is_whole else runs)

        shown, tick = self._services.database.read(read)
        return TickAnswer(tick=tick, items=[run_answer(row) for row in shown])

    @endpoint("GET", "/runs/<id:run_id>/nodes", Scope.READ, NodesAnswer)
    def nodes(self, call: Call, run_id: int) -> NodesAnswer:
        """Show the nodes of a flow's run."""
        flow = self._services.database.read(
            lambda session: flow_view.read(
                session, visible_run(session, call, run_id), call.actor.knows_job
            )
        )
        nodes = flow.nodes if flow else ()
        return NodesAnswer(items=[to_answer(NodeAnswer, node) for node in nodes])

    @endpoint(
        "POST",
        "/runs/<id:run_id>/rerun",
        Scope.TRIGGER,
        RunWithTick,
        status=202,
        body=RerunBody,
        other_answers={200: "the whole tick is over"},
        headers=KEY_HEADER | WAIT_HEADER,
    )
    def rerun(self, call: Call, run_id: int) -> Reply | Wait:
        """Run a run again for its due time, with its param and version of the script."""
        seconds, once = (
            preferred_wait_seconds(),
            idempotent(_asked_again(call.body), call),
        )
        options = RerunOptions(
            current=call.body.current,
            children=call.body.children,
            failed=call.body.failed,
            from_node=call.body.from_ or "",
            only_node=call.body.only or "",
        )
        runs = self._services.commands(call.actor).runs
        planned, is_new = runs.rerun([run_id], options, once=once)
        headers = {"Location": f"{BASE}/runs/{planned[0]}"}
        if not is_new:
            headers["Idempotent-Replayed"] = "true"
        return self._held.reply(call, planned[0], seconds, headers, if_open=202)

    @endpoint("POST", "/runs/<id:run_id>/kill", Scope.OPERATE, Killed)
    def kill(self, call: Call, run_id: int) -> Killed:
        """Kill a run, wherever it is."""
        return Killed(result=self._services.commands(call.actor).runs.kill(run_id))

    @endpoint(
        "GET",
        "/runs/<id:run_id>/log",
        Scope.LOGS,
        LogAnswer,
        query=LogQuery,
        answer_media=(JSON, TEXT),
        headers=WAIT_HEADER,
    )
    def log(self, call: Call, run_id: int) -> Reply | Wait:
        """Read a run's log from a line on; as text if that is accepted."""
        seconds = preferred_wait_seconds()
        query = call.query
        run, answer = self._read_log(call, run_id, query)
        if not seconds or run.status in FINAL or answer.text:
            return log_reply(answer)

        def later(call: Call, is_last: bool) -> Reply | None:
            run, answer = self._read_log(call, run_id, query)
            is_ready = is_last or answer.text or run.status in FINAL
            return log_reply(answer, applied(seconds)) if is_ready else None

        at_once = log_reply(answer)
        return Wait(run_id=run_id, seconds=seconds, at_once=at_once, later=later, is_polled=True)

    def _read_log(self, call: Call, run_id: int, query: LogQuery) -> tuple[DetailedRun, LogAnswer]:
        run, _ = self._held.read(call, run_id)
        place = self._services.database.read(lambda session: log_source(session, run))
        return run, self._logs.read(run, place, query.from_line, query.limit)

    def _until_ms(self, query: RunsQuery) -> int | None:
        is_of_few = query.flow_run_id or query.backfill_id
        if query.until is None and not query.status and not is_of_few:
            return self._services.now_ms() + run_search.AHEAD_MS
        return instant_ms("until", query.until)

    def _job_id(self, call: Call) -> int | None:
        query, jobs = call.query, call.actor.job_ids
        if query.job is None:
            if jobs is not None:
                raise at_parameter("job", "expected a job: this token is limited to some jobs")
            return None
        app, _, name = query.job.rpartition("/")
        app = app or query.app or ""
        if not app:
            raise at_parameter("job", "expected APP/NAME, or the parameter app as well")
        return job_id_of(self._services, call, app, name)


def _statuses(query: RunsQuery) -> frozenset[RunStatus]:
    """Return the wanted states; of unresolved runs, only failures."""
    asked = frozenset(map(RunStatus, query.status))
    if not query.unresolved:
        return asked
    if asked - FAILURES:
        raise at_parameter("status", f"expected one of {', '.join(sorted(FAILURES))}")
    return asked or FAILURES


_TRACE = {
    "traceparent": "The caller's span (W3C Trace Context); the run becomes part of its trace."
}
#: Executors that one trigger may name at most.
MAX_ADDRESSES = 100

After = Annotated[
    str, msgspec.Meta(max_length=32, description="A duration such as `90s`, `5m` or `2d12h`.")
]


class MoveBody(msgspec.Struct, kw_only=True):
    """The new due time of a planned run: `at` a time, or `in` a while from now."""

    at: Instant | None = None
    after: After | None = msgspec.field(default=None, name="in")


class TriggerBody(msgspec.Struct, kw_only=True):
    """How to run a job: with this param instead of its own, only on these executors.

    Its date is `run_date`, or by the job's rule that of its due time.
    It runs now, `at` a time, or `in` a while. A time that has passed is refused; with `late`, the
    run is due now instead.
    """

    param: str | None = None
    addresses: Annotated[list[str], msgspec.Meta(max_length=MAX_ADDRESSES)] = []
    at: Instant | None = None
    after: After | None = msgspec.field(default=None, name="in")
    late: bool = False
    run_date: Day | None = None


class BatchBody(msgspec.Struct, kw_only=True):
    """Runs of a job to plan, all or none."""

    runs: Annotated[list[TriggerBody], msgspec.Meta(min_length=1, max_length=MAX_TRIGGERS)]


class BatchAnswer(msgspec.Struct, kw_only=True):
    """The runs that were planned, in the order of the request.

    `warnings` say what could not be checked.
    """

    run_ids: list[int]
    warnings: list[str]


class TriggerEndpoints:
    """The runs that a token may ask for."""

    name = "runs"

    def __init__(self, services: ApiServices) -> None:
        self._services = services
        self._held = HeldRuns(services)

    @endpoint(
        "POST",
        "/jobs/<app>/<name>/runs",
        Scope.TRIGGER,
        RunWithTick,
        status=202,
        body=TriggerBody,
        other_answers={200: "the whole tick is over"},
        headers=KEY_HEADER | WAIT_HEADER | _TRACE,
    )
    def trigger(self, call: Call, app: str, name: str) -> Reply | Wait:
        """Run a job now or at a given time, whether it is started or stopped."""
        seconds = preferred_wait_seconds()
        trigger = _trigger(call.body, "")
        once = idempotent(_idempotent_content(call.body), call)
        self._services.run_ids.reserve()
        with missing_app_first(self._services, call, app):
            made = self._services.commands(call.actor).runs.trigger_once(
                JobPath(app, name),
                trigger,
                kind=Kind.API,
                once=once,
                traceparent=request.headers.get("traceparent"),
            )
        headers = {"Location": f"{BASE}/runs/{made.run_id}"} | _replayed(made)
        return self._held.reply(
            call, made.run_id, seconds, headers, if_open=202, warnings=_warnings(made)
        )

    @endpoint(
        "POST",
        "/jobs/<app>/<name>/runs:batch",
        Scope.TRIGGER,
        BatchAnswer,
        status=202,
        body=BatchBody,
        headers=KEY_HEADER | _TRACE,
    )
    def trigger_all(self, call: Call, app: str, name: str) -> Reply:
        """Run a job many times, each now or at its own time; all runs are planned, or none."""
        runs = call.body.runs
        if not 1 <= len(runs) <= MAX_TRIGGERS:
            raise at_pointer("/runs", f"expected 1 to {MAX_TRIGGERS} runs, got: {len(runs)}")
        wanted = [_trigger(body, f"/runs/{number}") for number, body in enumerate(runs)]
        once = idempotent([_idempotent_content(body) for body in runs], call)
        with missing_app_first(self._services, call, app):
            made = self._services.commands(call.actor).runs.trigger_all(
                JobPath(app, name),
                wanted,
                kind=Kind.API,
                once=once,
                traceparent=request.headers.get("traceparent"),
            )
        run_ids = [*range(made.run_id, made.run_id + len(runs))]
        answer = BatchAnswer(run_ids=run_ids, warnings=_warnings(made))
        return Reply(value=answer, headers=_replayed(made))

    @endpoint("PATCH", "/runs/<id:run_id>", Scope.TRIGGER, RunWithTick, body=MoveBody)
    def move(self, call: Call, run_id: int) -> Reply | Wait:
        """Give a run that was triggered another due time, while it is planned."""
        if call.body.at is None and call.body.after is None:
            raise at_pointer("", "expected at or in, got: neither")
        when = When(at_ms=body_instant_ms("/at", call.body.at), after=call.body.after)
        self._services.commands(call.actor).runs.move(run_id, when)
        return self._held.reply(call, run_id, 0, {}, if_open=200)

    @endpoint("DELETE", "/runs/<id:run_id>", Scope.TRIGGER, None, status=204)
    def cancel(self, call: Call, run_id: int) -> None:
        """Cancel a run that was triggered, while it is planned. Any run can be killed instead."""
        self._services.commands(call.actor).runs.cancel(run_id)


def _replayed(made: Triggered) -> dict[str, str]:
    return {} if made.is_new else {"Idempotent-Replayed": "true"}


def _warnings(made: Triggered) -> list[str]:
    return [str(made.unchecked)] if made.unchecked else []


def _trigger(body: TriggerBody, pointer: str) -> Trigger:
    at_ms = body_instant_ms(f"{pointer}/at", body.at)
    when = When(at_ms=at_ms, after=body.after, late=body.late)
    day = body_day(f"{pointer}/run_date", body.run_date)
    return Trigger(param=body.param, addresses=body.addresses, when=when, run_date=day)


def _idempotent_content(body: TriggerBody) -> list[object]:
    """Return what an idempotency key stands for; times are left out if the body has none.

    So the keys that clients used before bodies had times still match.
    """
    asked: list[object] = [body.param, body.addresses]
    times = [body.at, body.after, body.late]
    asked += times if any(times) else []
    return [*asked, body.run_date] if body.run_date else asked
