"""Triggers, repeats, lists, waits for and kills runs, and reads their logs."""

import hashlib
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from flask import request
from sqlalchemy.orm import Session

from warren.admin_web.api.endpoint import BASE, JSON, TEXT, Call, Reply, endpoint
from warren.admin_web.api.endpoints.apps import asked_app_ids
from warren.admin_web.api.endpoints.job_lookup import job_id_of
from warren.admin_web.api.openapi import page_type
from warren.admin_web.api.paging import (
    USUAL,
    Cursor,
    Instant,
    Limit,
    Word,
    cursor,
    instant_ms,
    place_of,
)
from warren.admin_web.api.problem_answers import at_parameter
from warren.admin_web.api.runs.run_answers import (
    LONGEST_SECONDS,
    LogAnswer,
    RunAnswer,
    RunLogAnswers,
    RunWithTick,
    TickEnd,
    Wait,
    applied,
    log_reply,
    preferred_wait_seconds,
    run_answer,
    run_with_tick,
    tick_answer,
)
from warren.admin_web.logs.log_reader import log_source
from warren.admin_web.services import ApiServices
from warren.scheduler.commands.bulk.reruns import RerunOptions
from warren.scheduler.commands.runs import KillOutcome
from warren.scheduler.commands.tokens.scopes import Scope
from warren.scheduler.completion.end import Attempt
from warren.sql.accounts.idempotency import IdempotentRequest
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.listings import ledger, recent, run_search
from warren.sql.listings.recent import DetailedRun
from warren.sql.listings.run_search import RunSearch
from warren.sql.run_status import FAILURES, FINAL, OPEN, Kind, RunStatus

_KEY = re.compile(r"[\x21-\x7e]{1,128}")
_WAIT = {"Prefer": f"`wait=N`: delay the answer by up to N seconds, {LONGEST_SECONDS} at most."}
_KEY_HEADER = {
    "Idempotency-Key": "1 to 128 visible characters; a key triggers only one run within a day."
}
_TRACE = {
    "traceparent": "The caller's span (W3C Trace Context); the run becomes part of its trace."
}
#: Executors that one trigger may name at most.
MAX_ADDRESSES = 100
#: Lines of one answer at most.
LINES = 1_000

Statuses = Literal[tuple(status.value for status in RunStatus)]  # type: ignore[valid-type]
Kinds = Literal[tuple(kind.value for kind in Kind)]  # type: ignore[valid-type]


class TriggerBody(msgspec.Struct, kw_only=True):
    """How to run a job now: with this param instead of its own, only on these executors."""

    param: str | None = None
    addresses: Annotated[list[str], msgspec.Meta(max_length=MAX_ADDRESSES)] = []


class RerunBody(msgspec.Struct, kw_only=True):
    """How to run a run again: as it was, or with the job's `current` handler, param and script.

    `children`: whether the job's children run when the due time has succeeded. Without it they do,
    but if they have already run for this due time, the request is refused.
    """

    current: bool = False
    children: bool | None = None


class RunsQuery(msgspec.Struct, kw_only=True):
    """Which runs to list, by due time; `job` is NAME together with an app, or APP/NAME.

    `unresolved`: only failures whose due time is failed now: nothing later succeeded or is open.
    """

    app: Word | None = None
    job: Annotated[str, msgspec.Meta(max_length=330)] | None = None
    status: list[Statuses] = []  # type: ignore[valid-type]
    kind: Kinds | None = None  # type: ignore[valid-type]
    unresolved: bool = False
    since: Instant | None = None
    until: Instant | None = None
    address: Word | None = None
    limit: Limit = USUAL
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

    @endpoint(
        "POST",
        "/jobs/<app>/<name>/runs",
        Scope.TRIGGER,
        RunWithTick,
        status=202,
        body=TriggerBody,
        other_answers={200: "the whole tick is over"},
        headers=_KEY_HEADER | _WAIT | _TRACE,
    )
    def trigger(self, call: Call, app: str, name: str) -> Reply | Wait:
        """Run a job now, whether it is started or stopped."""
        seconds = preferred_wait_seconds()
        once = _once([call.body.param, call.body.addresses], call)
        job_id = job_id_of(self._services, call, app, name)
        self._services.run_ids.reserve()
        run_id, is_new = self._services.commands(call.actor).runs.trigger_once(
            job_id,
            param=call.body.param,
            addresses=call.body.addresses,
            kind=Kind.API,
            once=once,
            traceparent=request.headers.get("traceparent"),
        )
        headers = {"Location": f"{BASE}/runs/{run_id}"}
        if not is_new:
            headers["Idempotent-Replayed"] = "true"
        return self._held(call, run_id, seconds, headers, if_open=202)

    @endpoint("GET", "/runs", Scope.READ, RunPage, query=RunsQuery)
    def index(self, call: Call) -> Any:
        """List runs, latest due time first."""
        query = call.query
        wanted = RunSearch(
            app_ids=asked_app_ids(self._services, call, call.query.app),
            job_id=self._job_id(call),
            statuses=_statuses(query),
            unresolved=query.unresolved,
            kind=query.kind,
            address=query.address,
            since_ms=instant_ms("since", query.since),
            until_ms=instant_ms("until", query.until),
            before=place_of(query, tuple[int, ...]),
            limit=query.limit,
        )

        def read(session: Session) -> tuple[run_search.RunPage, list[DetailedRun]]:
            found = run_search.page(session, wanted)
            return found, recent.by_ids(session, [line.id for line in found.runs])

        found, rows = self._services.database.read(read)
        more = cursor(query, found.older) if found.older is not None else None
        return RunPage(items=[run_answer(row) for row in rows], next=more)

    @endpoint("GET", "/runs/<id:run_id>", Scope.READ, RunWithTick, headers=_WAIT)
    def show(self, call: Call, run_id: int) -> Reply | Wait:
        """Show a run and the state of its tick."""
        seconds = preferred_wait_seconds()
        return self._held(call, run_id, seconds, {}, if_open=200)

    @endpoint("GET", "/runs/<id:run_id>/tick", Scope.READ, TickAnswer)
    def tick(self, call: Call, run_id: int) -> TickAnswer:
        """Show every attempt of every shard of a run's tick.

        Of a tick with more than 1,000 attempts or 4 MB of texts, the last attempts are shown. The
        others are named in `tick.run_ids`; each can be read as `/runs/{run_id}`.
        """

        def read(session: Session) -> tuple[list[DetailedRun], TickEnd]:
            run = _run(session, call, run_id)
            shown = recent.last_of_tick(session, run)
            runs = _tick_runs(session, run)
            # Read later, they tell whether all were shown; those describe the same moment as items.
            is_whole = [one.id for one in shown] == [one.id for one in runs]
            return shown, tick_answer(run, shown if is_whole else runs)

        shown, tick = self._services.database.read(read)
        return TickAnswer(tick=tick, items=[run_answer(row) for row in shown])

    @endpoint(
        "POST",
        "/runs/<id:run_id>/rerun",
        Scope.TRIGGER,
        RunWithTick,
        status=202,
        body=RerunBody,
        other_answers={200: "the whole tick is over"},
        headers=_KEY_HEADER | _WAIT,
    )
    def rerun(self, call: Call, run_id: int) -> Reply | Wait:
        """Run a run again for its due time, with its param and version of the script."""
        seconds, once = (
            preferred_wait_seconds(),
            _once([call.body.current, call.body.children], call),
        )
        options = RerunOptions(current=call.body.current, children=call.body.children)
        runs = self._services.commands(call.actor).runs
        planned, is_new = runs.rerun([run_id], options, once=once)
        headers = {"Location": f"{BASE}/runs/{planned[0]}"}
        if not is_new:
            headers["Idempotent-Replayed"] = "true"
        return self._held(call, planned[0], seconds, headers, if_open=202)

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
        headers=_WAIT,
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
        run, _ = self._read(call, run_id)
        place = self._services.database.read(lambda session: log_source(session, run))
        return run, self._logs.read(run, place, query.from_line, query.limit)

    def _held(
        self, call: Call, run_id: int, seconds: float, headers: dict[str, str], *, if_open: int
    ) -> Reply | Wait:
        """Return a run, at the end of its tick if the caller is willing to wait."""

        def reply(call: Call, more: dict[str, str]) -> tuple[Reply, bool]:
            run, tick = self._read(call, run_id)
            status = 200 if tick.is_over else if_open
            value = run_with_tick(run, tick)
            return Reply(value=value, status=status, headers=headers | more), tick.is_over

        at_once, is_over = reply(call, {})
        if is_over or not seconds:
            return at_once
        waited = applied(seconds)
        return Wait(
            run_id=run_id,
            seconds=seconds,
            at_once=at_once,
            later=lambda call, _is_last: reply(call, waited)[0],
        )

    def _read(self, call: Call, run_id: int) -> tuple[DetailedRun, TickEnd]:
        def read(session: Session) -> tuple[DetailedRun, TickEnd]:
            run = _run(session, call, run_id)
            runs = [run] if _is_alone(run) else _tick_runs(session, run)
            return run, tick_answer(run, runs)

        return self._services.database.read_autocommit(read)

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


def _run(session: Session, call: Call, run_id: int) -> DetailedRun:
    """Return a run that the caller may see."""
    run = recent.run(session, run_id, call.actor.app_ids)
    if call.actor.job_ids is not None and run.job_id not in call.actor.job_ids:
        raise NotFound(LookupFailure.NO_RUN, id=run_id)
    return run


def _tick_runs(session: Session, run: DetailedRun) -> Sequence[Attempt]:
    """Return all runs of a run's tick; the run itself if they were deleted meanwhile."""
    return ledger.of_run(session, run.id) or [run]


def _is_alone(run: DetailedRun) -> bool:
    """Return whether a run was the only one of its tick when it was read.

    A retry is planned in the transaction that ends the attempt before it.
    """
    is_first = run.attempt == 0 and run.rerun_of is None
    return run.status in OPEN and is_first and run.shard_total == 1


def _once(asked: list[Any], call: Call) -> IdempotentRequest | None:
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        words = "expected 1 to 128 visible ASCII characters"
        raise at_parameter("Idempotency-Key", words)
    body = msgspec.json.encode([request.path, *asked])
    return IdempotentRequest(
        user_id=call.user_id, key=key, body_hash=hashlib.sha256(body).hexdigest()
    )
