"""Limits that jobs share, who holds them, and which runs wait."""

from typing import Any
from urllib.parse import quote

import msgspec
from sqlalchemy.orm import Session

from warren.admin_web.api.bodies import FieldErrors, refuse
from warren.admin_web.api.endpoint import BASE, Call, Reply, serves
from warren.admin_web.api.endpoints.apps import asked_app_ids
from warren.admin_web.api.paging import page, place_of
from warren.admin_web.api.problem_answers import error_detail
from warren.admin_web.services import ApiServices
from warren.broker import durations
from warren.broker.reasons import Reason
from warren.resources import limits as operations
from warren.resources.limits import Limit, LimitBody, SetLimit
from warren.resources.runs import list_queue
from warren.scheduler import limits as limit_specs
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.limits import LimitSpec
from warren.scheduler.problems import Code, Problem
from warren.scheduler.views import limit_view
from warren.scheduler.views.run_view import run_of
from warren.sql import limits
from warren.sql.runs.run_rows import DetailedRun


class LimitEndpoints:
    """The limits of the whole cluster."""

    name = "limits"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @serves(operations.list_limits)
    def index(self, call: Call) -> Any:
        after = place_of(call.query, str) or ""
        rest = [limit for limit in self._read(call) if limit.name > after]
        rest = rest[: call.query.limit + 1]
        kind = operations.list_limits.endpoint.answer
        return page(kind, call.query, rest, lambda limit: limit, lambda limit: limit.name)

    @serves(operations.show_limit)
    def show(self, call: Call, limit: str) -> Limit:
        found = self._read(call, limit)
        if not found:
            raise Problem(Code.NO_LIMIT_NAMED, name=limit[:100])
        return found[0]

    @serves(operations.set_limit)
    def put(self, call: Call, limit: str) -> Reply:
        wrong = FieldErrors()
        if call.body.name not in (None, limit):
            wrong.add("/name", f"expected {limit[:100]!r} as in the path")
        call.body.name = limit
        spec = limit_spec_of(call.body, "", wrong)
        refuse(wrong)
        action = self._services.commands(call.actor).limits.apply(spec)
        now = SetLimit(action=action, **msgspec.structs.asdict(self.show(call, limit)))
        if action is not ChangeAction.CREATE:
            return Reply(value=now)
        headers = {"Location": f"{BASE}/limits/{quote(limit, safe='')}"}
        return Reply(value=now, status=201, headers=headers)

    @serves(operations.delete_limit)
    def delete(self, call: Call, limit: str) -> None:
        self._services.commands(call.actor).limits.delete(limit)

    @serves(list_queue)
    def queue(self, call: Call) -> Any:
        query, now_ms = call.query, self._services.now_ms()
        app_ids = asked_app_ids(self._services, call, query.app)

        def read(session: Session) -> tuple[list[DetailedRun], dict[int, list[Reason]]]:
            rows = limits.queue(
                session,
                app_ids,
                call.actor.job_ids,
                now_ms=now_ms,
                most=query.limit + 1,
                after=place_of(query, tuple[int, int]),
            )
            return rows, limit_view.waits_for(session, rows, call.actor, now_ms=now_ms)

        rows, why = self._services.database.read(read)
        return page(
            list_queue.endpoint.answer,
            query,
            rows,
            lambda run: run_of(run, limit_view.in_words(why, run.id)),
            lambda run: (run.due_at, run.id),
        )

    def _read(self, call: Call, name: str | None = None) -> list[Limit]:
        now_ms = self._services.now_ms()
        return self._services.database.read(
            lambda session: limit_view.read(session, call.actor, now_ms=now_ms, name=name)
        )


def limit_spec_of(body: LimitBody, pointer: str, wrong: FieldErrors) -> LimitSpec:
    """Return the limit that a body describes; what is wrong with it is added to `wrong`.

    Its rules are checked unless its types are wrong.
    """
    is_readable = not any(each["pointer"].startswith(f"{pointer}/") for each in wrong if pointer)
    per = body.per
    seconds = durations.whole_seconds(per) if isinstance(per, str) else per
    if per is not None and (seconds is None or seconds % 1):
        words = f"expected per to be whole seconds, or {durations.DURATION}, got: {per!r}"
        wrong.add(f"{pointer}/per", words)
        seconds = 1
    spec = LimitSpec(
        name=body.name or "",
        at_once=body.at_once,
        rate=body.rate,
        per=None if seconds is None else int(seconds),
    )
    if is_readable:
        wrong += [error_detail(problem, pointer) for problem in limit_specs.problems(spec)]
    return spec


def limit_value(spec: LimitSpec) -> dict[str, Any]:
    """Return a limit as a job file in JSON has it."""
    per = None if spec.per is None else durations.shown(spec.per)
    values = {"name": spec.name, "at_once": spec.at_once, "rate": spec.rate, "per": per}
    return {key: value for key, value in values.items() if value is not None}
