"""Limits that jobs share, and who holds them."""

from typing import Any
from urllib.parse import quote

import msgspec

from warren.admin_web.api.bodies import FieldErrors, refuse
from warren.admin_web.api.endpoint import BASE, Call, Reply, endpoint
from warren.admin_web.api.openapi import page_type
from warren.admin_web.api.paging import PageQuery, page, place_of
from warren.admin_web.api.problem_answers import error_detail
from warren.admin_web.services import ApiServices
from warren.broker import durations
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.commands.tokens.scopes import Scope
from warren.scheduler.limits import specs as limit_specs
from warren.scheduler.limits.specs import LimitSpec
from warren.scheduler.problems import Code, Problem
from warren.scheduler.views import limit_view
from warren.scheduler.views.limit_view import LimitView


class LimitBody(msgspec.Struct, kw_only=True):
    """A limit in a request; `per` is a duration such as `1m`. `name` must be that of the path."""

    name: str | None = None
    at_once: int | None = None
    rate: int | None = None
    per: str | int | None = None


class HolderFacts(msgspec.Struct, kw_only=True):
    """A run that holds a limit; of other apps than the token's, only how much it takes."""

    run: int | None
    app: str | None
    job: str | None
    status: str | None
    weight: int


class LimitJobFacts(msgspec.Struct, kw_only=True):
    """A job that takes a limit: how much each run takes, and how many of its runs wait."""

    app: str
    job: str
    weight: int
    waiting: int


class LimitFacts(msgspec.Struct, kw_only=True):
    """A limit; `held` is how much of it runs hold, `left` how much the rate allows now.

    `held_by` and `jobs` name those of the token's apps; `other_jobs` counts the other jobs.
    """

    name: str
    at_once: int | None
    rate: int | None
    per: str | None
    held: int
    left: int | None
    held_by: list[HolderFacts]
    jobs: list[LimitJobFacts]
    other_jobs: int


LimitPage = page_type(LimitFacts)


class LimitEndpoints:
    """The limits of the whole cluster."""

    name = "limits"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @endpoint("GET", "/limits", Scope.READ, LimitPage, query=PageQuery)
    def index(self, call: Call) -> Any:
        """List limits by name, with the runs that hold them."""
        now_ms, actor = self._services.now_ms(), call.actor
        after = place_of(call.query, str) or ""
        views = self._services.database.read(
            lambda session: limit_view.read(session, actor, now_ms=now_ms)
        )
        rest = [view for view in views if view.spec.name > after][: call.query.limit + 1]
        return page(LimitPage, call.query, rest, _answer, lambda view: view.spec.name)

    @endpoint("GET", "/limits/<limit>", Scope.READ, LimitFacts)
    def show(self, call: Call, limit: str) -> LimitFacts:
        """Show a limit."""
        now_ms, actor = self._services.now_ms(), call.actor
        views = self._services.database.read(
            lambda session: limit_view.read(session, actor, now_ms=now_ms, name=limit)
        )
        if not views:
            raise Problem(Code.NO_LIMIT_NAMED, name=limit[:100])
        return _answer(views[0])

    @endpoint(
        "PUT",
        "/limits/<limit>",
        Scope.ADMIN,
        LimitFacts,
        body=LimitBody,
        other_answers={201: "created"},
    )
    def put(self, call: Call, limit: str) -> Reply:
        """Create a limit, or change it; runs that hold more than a lowered one has go on."""
        wrong = FieldErrors()
        if call.body.name not in (None, limit):
            wrong.add("/name", f"expected {limit[:100]!r} as in the path")
        call.body.name = limit
        spec = limit_spec_of(call.body, "", wrong)
        refuse(wrong)
        if self._services.commands(call.actor).limits.apply(spec) is not ChangeAction.CREATE:
            return Reply(value=self.show(call, limit))
        headers = {"Location": f"{BASE}/limits/{quote(limit, safe='')}"}
        return Reply(value=self.show(call, limit), status=201, headers=headers)

    @endpoint("DELETE", "/limits/<limit>", Scope.ADMIN, None, status=204)
    def delete(self, call: Call, limit: str) -> None:
        """Delete a limit that no job names and no run holds."""
        self._services.commands(call.actor).limits.delete(limit)


def limit_spec_of(body: LimitBody, pointer: str, wrong: FieldErrors) -> LimitSpec:
    """Return the limit that a body describes; what is wrong with it is added to `wrong`."""
    per = body.per
    seconds = durations.seconds_of(per) if isinstance(per, str) else per
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
    wrong += [error_detail(problem, pointer) for problem in limit_specs.problems(spec)]
    return spec


def limit_value(spec: LimitSpec) -> dict[str, Any]:
    """Return a limit as a job file in JSON has it."""
    per = None if spec.per is None else durations.shown(spec.per)
    values = {"name": spec.name, "at_once": spec.at_once, "rate": spec.rate, "per": per}
    return {key: value for key, value in values.items() if value is not None}


def _answer(view: LimitView) -> LimitFacts:
    return LimitFacts(
        name=view.spec.name,
        at_once=view.spec.at_once,
        rate=view.spec.rate,
        per=None if view.spec.per is None else durations.shown(view.spec.per),
        held=view.held,
        left=view.left,
        held_by=[
            HolderFacts(
                run=holder.run_id,
                app=holder.app,
                job=holder.job,
                status=holder.status,
                weight=holder.weight,
            )
            for holder in view.holders
        ],
        jobs=[
            LimitJobFacts(app=job.app, job=job.job, weight=job.weight, waiting=job.waiting)
            for job in view.jobs
        ],
        other_jobs=view.other_jobs,
    )
