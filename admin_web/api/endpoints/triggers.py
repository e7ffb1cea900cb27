"""Triggers jobs, now or at a given time; moves and cancels planned runs."""

from typing import Annotated

import msgspec
from flask import request

from warren.admin_web.api.endpoint import BASE, Call, Reply, endpoint
from warren.admin_web.api.endpoints.job_lookup import missing_app_first
from warren.admin_web.api.paging import Day, Instant, body_day, body_instant_ms
from warren.admin_web.api.problem_answers import at_pointer
from warren.admin_web.api.runs.held_runs import KEY_HEADER, WAIT_HEADER, HeldRuns, idempotent
from warren.admin_web.api.runs.run_answers import RunWithTick, Wait, preferred_wait_seconds
from warren.admin_web.services import ApiServices
from warren.scheduler.commands.bulk.triggers import MAX_TRIGGERS, Trigger, Triggered, When
from warren.scheduler.commands.tokens.scopes import Scope
from warren.sql.jobs.job_names import JobPath
from warren.sql.run_status import Kind

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
