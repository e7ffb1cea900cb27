"""Triggers, moves and cancels, repeats, lists, awaits and kills runs, and reads their logs."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from flask import request
from sqlalchemy.orm import Session

from warren.admin_web.api.bodies import FieldErrors, refuse_values
from warren.admin_web.api.endpoint import BASE, Call, Reply, serves
from warren.admin_web.api.endpoints.apps import app_id_of, asked_app_ids
from warren.admin_web.api.endpoints.jobs import job_id_of, missing_app_first
from warren.admin_web.api.paging import (
    body_day,
    body_instant_ms,
    cursor,
    instant_ms,
    page,
    place_of,
    query_day,
)
from warren.admin_web.api.problem_answers import Refusal, at_parameter, at_pointer
from warren.admin_web.api.run_answers import (
    HeldRuns,
    RunLogAnswers,
    Wait,
    applied,
    idempotent,
    log_reply,
    preferred_wait_seconds,
    tick_answer,
    tick_runs,
    visible_run,
)
from warren.admin_web.run_logs import log_source
from warren.admin_web.services import ApiServices
from warren.resources import runs as operations
from warren.resources.runs import (
    MAX_RERUNS,
    MAX_TRIGGERS,
    BatchAnswer,
    Cleared,
    Killed,
    LogAnswer,
    LogQuery,
    NodesAnswer,
    RerunBody,
    Reruns,
    RunsQuery,
    TickAnswer,
    TickEnd,
    TriggerBody,
)
from warren.scheduler.commands.reruns import Outcome, RerunOptions
from warren.scheduler.commands.triggers import Trigger, Triggered, When
from warren.scheduler.retention.clearing import ClearingCriteria
from warren.scheduler.views import run_view
from warren.scheduler.views.limit_view import in_words, waits_for
from warren.scheduler.views.run_view import node_of, run_of, skip_of
from warren.sql.jobs.history import SkipFilter, skip_lines
from warren.sql.listings import recent, run_search
from warren.sql.listings.recent import along_jobs
from warren.sql.listings.run_search import RunSearch
from warren.sql.run_status import FAILURES, FINAL, OPEN, Kind, RunStatus
from warren.sql.runs.run_rows import DetailedRun

#: The most runs that a filter of runs to repeat may match, and that are looked at for it.
MAX_MATCHING, MAX_LOOKED_AT = 10_000, 50_000


def _asked_again(body: RerunBody) -> list[object]:
    """Return what a request asks for; without a part of a flow, as before there were any."""
    part = [body.failed, body.from_node, body.only_node]
    return [body.current, body.children, *(part if any(part) else ())]


def _options(body: RerunBody) -> RerunOptions:
    return RerunOptions(
        current=body.current,
        children=body.children,
        failed=body.failed,
        from_node=body.from_node or "",
        only_node=body.only_node or "",
    )


class RunEndpoints:
    """The runs that a token may see."""

    name = "runs"

    def __init__(self, services: ApiServices) -> None:
        self._services = services
        self._logs = RunLogAnswers(services)
        self._held = HeldRuns(services)

    @serves(operations.list_runs)
    def index(self, call: Call) -> Any:
        query = call.query
        if query.outside_flows and query.flow_run_id:
            raise at_parameter("outside_flows", "expected outside_flows without flow_run_id")
        wanted = RunSearch(
            app_ids=asked_app_ids(self._services, call, call.query.app),
            job_id=self._job_id(call),
            statuses=_statuses(query.status, unresolved=query.unresolved, at=at_parameter),
            unresolved=query.unresolved,
            outside_flows=query.outside_flows,
            flow_run_id=query.flow_run_id,
            backfill_id=query.backfill_id,
            tick_of=query.tick_of,
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
            return run_page, [run_of(row, in_words(why, row.id)) for row in rows]

        run_page, items = self._services.database.read(read)
        more = cursor(query, run_page.older) if run_page.older is not None else None
        return operations.list_runs.endpoint.answer(items=items, next=more)

    @serves(operations.list_skips)
    def skips(self, call: Call) -> Any:
        query, actor = call.query, call.actor
        wanted = SkipFilter(
            app_ids=actor.app_ids,
            job_ids=actor.job_ids,
            job_id=None if query.job is None else self._named(call, query.job),
            since_ms=instant_ms("since", query.since),
            before=place_of(query, tuple[int, int]),
            limit=query.limit + 1,
        )
        rows = self._services.database.read(lambda session: skip_lines(session, wanted))
        kind = operations.list_skips.endpoint.answer
        return page(kind, query, rows, skip_of, lambda row: (row.to_at, row.id))

    @serves(operations.show_run)
    def show(self, call: Call, run_id: int) -> Reply | Wait:
        seconds = preferred_wait_seconds()
        return self._held.reply(call, run_id, seconds, {}, if_open=200)

    @serves(operations.show_tick)
    def tick(self, call: Call, run_id: int) -> TickAnswer:
        def read(session: Session) -> tuple[list[DetailedRun], TickEnd]:
            run = visible_run(session, call, run_id)
            shown = recent.last_of_tick(session, run)
            runs = tick_runs(session, run)
            # `runs` are read later, to see whether `shown` are all: those are of the same moment.
            is_whole = [run_view.id for run_view in shown] == [run_view.id for run_view in runs]
            return shown, tick_answer(run, shown if is_whole else runs)

        shown, tick = self._services.database.read(read)
        return TickAnswer(tick=tick, items=[run_of(row) for row in shown])

    @serves(operations.show_nodes)
    def nodes(self, call: Call, run_id: int) -> NodesAnswer:
        flow = self._services.database.read(
            lambda session: run_view.read(
                session, visible_run(session, call, run_id), call.actor.knows_job
            )
        )
        nodes = flow.nodes if flow else ()
        return NodesAnswer(items=[node_of(node) for node in nodes])

    @serves(operations.rerun)
    def rerun(self, call: Call, run_id: int) -> Reply | Wait:
        seconds = preferred_wait_seconds()
        once = idempotent(_asked_again(call.body), call)
        runs = self._services.commands(call.actor).runs
        planned, is_new = runs.rerun([run_id], _options(call.body), once=once)
        headers = {"Location": f"{BASE}/runs/{planned[0]}"} | _replayed(is_new)
        return self._held.reply(call, planned[0], seconds, headers, if_open=202)

    @serves(operations.rerun_all)
    def rerun_all(self, call: Call) -> Reply:
        body = call.body
        options = replace(_options(body), newest=body.newest)
        run_ids, left_out = self._to_repeat(call, options)
        if body.dry_run:
            return Reply(value=Reruns(run_ids=run_ids, left_out=left_out))
        more: list[object] = ["newest"] if body.newest else []
        if not body.run_ids:
            # Not what the filter finds: at a repetition, that is open.
            more += [body.app, body.job, body.status, body.unresolved, body.since, body.until]
        once = idempotent([body.run_ids, *_asked_again(body), *more], call)
        planned, is_new = self._services.commands(call.actor).runs.rerun(
            run_ids, options, once=once
        )
        return Reply(value=Reruns(run_ids=planned, left_out=left_out), headers=_replayed(is_new))

    def _to_repeat(self, call: Call, options: RerunOptions) -> tuple[list[int], dict[str, int]]:
        """Return the runs to repeat, and how many that were found are left out, by reason."""
        body = call.body
        asked = (body.app, body.job, body.since, body.until)
        has_filter = any(each is not None for each in asked) or body.status or body.unresolved
        if bool(body.run_ids) == bool(has_filter):
            got = "both" if has_filter else "neither"
            raise at_pointer("/run_ids", f"expected run_ids or a filter, got: {got}")
        if body.run_ids and not body.dry_run:
            return body.run_ids, {}
        wanted = self._rerun_filter(call) if has_filter else None
        commands = self._services.commands(call.actor).bulk_runs

        def read(session: Session) -> tuple[list[int], Counter[Outcome]]:
            run_ids: Sequence[int] = body.run_ids
            if wanted is not None:
                most, looked_at = MAX_MATCHING, MAX_LOOKED_AT
                swept = run_search.sweep(session, wanted, most=most, looked_at=looked_at)
                if not swept.is_all:
                    words = "too many runs to look at; narrow them by since and until"
                    raise at_pointer("", words)
                run_ids = swept.run_ids
            return commands.repeatable(session, run_ids, options)

        found, left_out = self._services.database.read(read)
        if len(found) > MAX_RERUNS:
            words = f"expected a filter that finds up to {MAX_RERUNS} runs, got: {len(found)}"
            raise at_pointer("", f"{words}; narrow it by since and until")
        return found, {outcome.value: number for outcome, number in left_out.items()}

    def _rerun_filter(self, call: Call) -> RunSearch:
        """Return which runs a filter of runs to repeat finds."""
        body = call.body
        if running := sorted(OPEN.intersection(map(RunStatus, body.status))):
            raise at_pointer("/status", f"expected states of ended runs, got: {running[0]}")
        if body.job is None and call.actor.job_ids is not None:
            raise at_pointer("/job", "expected a job: this token is limited to some jobs")
        statuses = _statuses(
            body.status,
            unresolved=body.unresolved,
            at=lambda name, why: at_pointer(f"/{name}", why),
        )
        return RunSearch(
            app_ids=asked_app_ids(self._services, call, body.app),
            job_id=None if body.job is None else self._named(call, body.job, body.app),
            statuses=statuses or FAILURES,
            unresolved=body.unresolved or not statuses,
            since_ms=body_instant_ms("/since", body.since),
            until_ms=body_instant_ms("/until", body.until),
        )

    @serves(operations.clear_runs)
    def clear(self, call: Call) -> Cleared:
        body = call.body
        if sum((body.before is not None, body.keep is not None, body.everything)) != 1:
            raise at_pointer("", "expected one of before, keep and all")
        if body.job is not None and body.app is not None:
            raise at_pointer("/app", "expected job or app, got: both")
        whose: dict[str, int] = {}
        if body.job is not None:
            whose = {"job_id": self._named(call, body.job)}
        elif body.app is not None:
            whose = {"app_id": app_id_of(self._services, call, body.app)}
        before_ms = body_instant_ms("/before", body.before)
        criteria = ClearingCriteria(**whose, keep=body.keep, before_ms=before_ms)
        end_at = time.monotonic() + self._services.limits.clear_seconds
        cleared = 0

        def go_on(count: int) -> None:
            nonlocal cleared
            cleared = count
            self._services.on_progress(count)
            if time.monotonic() >= end_at:
                raise TimeoutError

        clearing = self._services.commands(call.actor).clearing
        try:
            cleared = clearing.clear(criteria, dry_run=body.dry_run, on_progress=go_on)
        except TimeoutError:
            if not body.dry_run:
                return Cleared(count=cleared, is_over=False)
            words = "counting them takes too long for one call; count those of a job or an app"
            raise at_pointer("", words) from None
        return Cleared(count=cleared, is_over=True)

    @serves(operations.kill_run)
    def kill(self, call: Call, run_id: int) -> Killed:
        return Killed(result=self._services.commands(call.actor).runs.kill(run_id))

    @serves(operations.read_log)
    def log(self, call: Call, run_id: int) -> Reply | Wait:
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
        with_store = self._services.stored_logs is not None
        place = self._services.database.read(
            lambda session: log_source(session, run, with_store=with_store)
        )
        return run, self._logs.read(run, place, query)

    def _until_ms(self, query: RunsQuery) -> int | None:
        is_of_few = query.flow_run_id or query.backfill_id or query.tick_of
        if query.until is None and not query.status and not is_of_few:
            return self._services.now_ms() + run_search.AHEAD_MS
        return instant_ms("until", query.until)

    def _job_id(self, call: Call) -> int | None:
        query, jobs = call.query, call.actor.job_ids
        if query.job is None:
            if jobs is not None:
                raise at_parameter("job", "expected a job: this token is limited to some jobs")
            return None
        return self._named(call, query.job, query.app)

    def _named(self, call: Call, job: str, of_app: str | None = None) -> int:
        app, _, name = job.rpartition("/")
        app = app or of_app or ""
        if not app:
            raise at_parameter("job", "expected APP/NAME, or the parameter app as well")
        return job_id_of(self._services, call, app, name)


def _statuses(
    status: Iterable[str], *, unresolved: bool, at: Callable[[str, str], Refusal]
) -> frozenset[RunStatus]:
    """Return the wanted states; of unresolved runs, only failures. `at` makes a problem."""
    asked = frozenset(map(RunStatus, status))
    if not unresolved:
        return asked
    if asked - FAILURES:
        raise at("status", f"expected one of {', '.join(sorted(FAILURES))}")
    return asked or FAILURES


class TriggerEndpoints:
    """The runs that a token may ask for."""

    name = "runs"

    def __init__(self, services: ApiServices) -> None:
        self._services = services
        self._held = HeldRuns(services)

    @serves(operations.trigger)
    def trigger(self, call: Call, app: str, name: str) -> Reply | Wait:
        seconds = preferred_wait_seconds()
        wrong = FieldErrors()
        trigger = _trigger(call.body, "", wrong)
        refuse_values(wrong)
        once = idempotent(_idempotent_content(call.body), call)
        self._services.run_ids.reserve()
        with missing_app_first(self._services, call, app):
            made = self._services.commands(call.actor).runs.trigger_once(
                (app, name),
                trigger,
                once=once,
                traceparent=request.headers.get("traceparent"),
            )
        headers = {"Location": f"{BASE}/runs/{made.run_id}"} | _replayed(made.is_new)
        return self._held.reply(
            call, made.run_id, seconds, headers, if_open=202, warnings=_warnings(made)
        )

    @serves(operations.trigger_all)
    def trigger_all(self, call: Call, app: str, name: str) -> Reply:
        runs = call.body.runs
        if not 1 <= len(runs) <= MAX_TRIGGERS:
            raise at_pointer("/runs", f"expected 1 to {MAX_TRIGGERS} runs, got: {len(runs)}")
        wrong = FieldErrors()
        wanted = [_trigger(body, f"/runs/{number}", wrong) for number, body in enumerate(runs)]
        refuse_values(wrong)
        once = idempotent([_idempotent_content(body) for body in runs], call)
        with missing_app_first(self._services, call, app):
            made = self._services.commands(call.actor).runs.trigger_all(
                (app, name),
                wanted,
                once=once,
                traceparent=request.headers.get("traceparent"),
            )
        run_ids = [*range(made.run_id, made.run_id + len(runs))]
        answer = BatchAnswer(run_ids=run_ids, warnings=_warnings(made))
        return Reply(value=answer, headers=_replayed(made.is_new))

    @serves(operations.move_run)
    def move(self, call: Call, run_id: int) -> Reply | Wait:
        if call.body.at is None and call.body.after is None:
            raise at_pointer("", "expected at or in, got: neither")
        when = When(at_ms=body_instant_ms("/at", call.body.at), after=call.body.after)
        self._services.commands(call.actor).runs.move(run_id, when)
        return self._held.reply(call, run_id, 0, {}, if_open=200)

    @serves(operations.cancel_run)
    def cancel(self, call: Call, run_id: int) -> None:
        self._services.commands(call.actor).runs.cancel(run_id)


def _replayed(is_new: bool) -> dict[str, str]:
    return {} if is_new else {"Idempotent-Replayed": "true"}


def _warnings(made: Triggered) -> list[str]:
    return [str(made.unchecked)] if made.unchecked else []


def _trigger(body: TriggerBody, pointer: str, wrong: FieldErrors) -> Trigger:
    at_ms = body_instant_ms(f"{pointer}/at", body.at, wrong)
    when = When(at_ms=at_ms, after=body.after, late=body.late)
    day = body_day(f"{pointer}/run_date", body.run_date, wrong)
    return Trigger(
        param=body.param,
        addresses=body.addresses,
        when=when,
        run_date=day,
        kind=Kind.MANUAL if body.manual else Kind.API,
    )


def _idempotent_content(body: TriggerBody) -> list[object]:
    """Return what an idempotency key stands for; times are left out if the body has none.

    So the keys that clients used before bodies had times still match.
    """
    asked: list[object] = [body.param, body.addresses]
    times = [body.at, body.after, body.late]
    asked += times if any(times) else []
    asked += [body.run_date] if body.run_date else []
    return [*asked, "manual"] if body.manual else asked
