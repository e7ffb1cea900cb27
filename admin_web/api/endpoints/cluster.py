"""Executors, schedulers and the cluster as a whole; the API's version and description."""

from importlib import resources
from typing import Any

import msgspec
from flask import current_app, render_template
from sqlalchemy.orm import Session

from warren.admin_web.api.endpoint import BASE, Call, Reply, endpoint
from warren.admin_web.api.endpoints.apps import Changed, PauseBody, app_id_of, asked_app_ids, pause
from warren.admin_web.api.openapi import answer_type, document, to_answer
from warren.admin_web.api.paging import Cursor, Limit, Word, page, place_of
from warren.admin_web.services import ApiServices
from warren.resources.operation import DEFAULT_LIMIT, OpenAccess, PageQuery, Scope, page_type
from warren.scheduler.views import blockers
from warren.scheduler.views.blockers import Blockers
from warren.scheduler.views.process_view import (
    NOT_IN_JSON,
    ExecutorView,
    NodeView,
    node_view,
    pause_facts,
)
from warren.sql.listings import app_listing, job_search
from warren.sql.listings.app_listing import RoutedJob
from warren.sql.models import Registration
from warren.sql.registry import pauses, presence
from warren.sql.registry.apps import ids_by_name


class Blocker(msgspec.Struct, kw_only=True):
    """Why an executor gets no new runs: a code for programs, a sentence for people."""

    code: str
    message: str


ExecutorAnswer = answer_type(
    "Executor", ExecutorView, without=NOT_IN_JSON, more={"blocked_by": list[Blocker]}
)
SchedulerAnswer = answer_type("Scheduler", NodeView)
ExecutorPage, SchedulerPage = page_type(ExecutorAnswer), page_type(SchedulerAnswer)


class ExecutorsQuery(msgspec.Struct, kw_only=True):
    """Which executors to list."""

    app: Word | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = None


class ClusterAnswer(msgspec.Struct, kw_only=True):
    """Whether dispatch is paused, since when, until when, by whom and why."""

    paused: bool
    paused_at: str | None
    paused_until: str | None
    paused_by: str | None
    paused_reason: str | None
    schedulers_alive: int


class ClusterEndpoints:
    """The processes of the cluster."""

    name = "cluster"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @endpoint(
        "GET", "/executors", Scope.READ, ExecutorPage, query=ExecutorsQuery, needs_whole_apps=True
    )
    def executors(self, call: Call) -> Any:
        """List executors by app and address, including listed ones that are offline.

        `blocked_by` says why one gets no new runs, the most general reason first; empty if it can
        get some. If you filter by `app`, it also says so if the routes of all started jobs choose
        other executors.
        """
        query, after = call.query, place_of(call.query, str) or ""
        app_ids, now_ms = asked_app_ids(self._services, call, query.app), self._services.now_ms()

        def read(session: Session) -> tuple[Blockers, list[RoutedJob] | None]:
            app_blockers = blockers.read(session, app_ids, now_ms=now_ms)
            if query.app is None:
                return app_blockers, None
            most = blockers.MAX_JOBS + 1
            return app_blockers, app_listing.started_jobs(session, query.app, limit=most)

        app_blockers, started = self._services.database.read(read)
        rows = [row for row in app_blockers.executors if row.key > after]
        rows.sort(key=lambda row: row.key)

        def answer(row: ExecutorView) -> Any:
            why = blockers.blocker_json(app_blockers.of_executor(row, started))
            return to_answer(ExecutorAnswer, row, blocked_by=[Blocker(**reason) for reason in why])

        return page(
            ExecutorPage,
            query,
            rows,
            answer,
            lambda row: row.key,
        )

    @endpoint(
        "POST", "/executors/<app>/<address>/drain", Scope.OPERATE, Changed, needs_whole_apps=True
    )
    def drain(self, call: Call, app: str, address: str) -> Changed:
        """Drain an executor: it takes no new runs, finishes the running ones and exits."""
        app_id_of(self._services, call, app)
        executor_id = self._services.database.read(
            lambda session: presence.executor_id(session, address, app)
        )
        return Changed(changed=self._services.commands(call.actor).cluster.drain(executor_id))

    @endpoint("GET", "/schedulers", Scope.READ, SchedulerPage, query=PageQuery)
    def schedulers(self, call: Call) -> Any:
        """List schedulers by name."""
        after, now_ms = place_of(call.query, str) or "", self._services.now_ms()
        rows = sorted(node_view(row, now_ms) for row in self._nodes())
        rows = [row for row in rows if row.node > after]
        return page(
            SchedulerPage,
            call.query,
            rows,
            lambda row: to_answer(SchedulerAnswer, row),
            lambda row: row.node,
        )

    @endpoint("GET", "/cluster", Scope.READ, ClusterAnswer)
    def cluster(self, _call: Call) -> ClusterAnswer:
        """Show whether dispatch is paused, and how many schedulers are alive."""
        now_ms = self._services.now_ms()
        paused = self._services.database.read(
            lambda session: pauses.in_force(session, now_ms, app_ids=())
        )
        nodes = [node_view(row, now_ms) for row in self._nodes()]
        return ClusterAnswer(
            paused=bool(paused),
            **pause_facts(paused[0] if paused else None),
            schedulers_alive=sum(node.is_online for node in nodes),
        )

    @endpoint("POST", "/cluster/pause", Scope.ADMIN, Changed, body=PauseBody)
    def pause(self, call: Call) -> Changed:
        """Stop sending runs everywhere; they are still planned, and wait."""
        return pause(self._services.commands(call.actor).cluster, call)

    @endpoint("POST", "/cluster/resume", Scope.ADMIN, Changed)
    def resume(self, call: Call) -> Changed:
        """Resume sending runs; a job's misfire policy decides about ticks later than its limit."""
        return Changed(changed=self._services.commands(call.actor).cluster.resume())

    def _nodes(self) -> list[Registration]:
        return list(
            self._services.database.read(
                lambda session: presence.listing(session, presence.ADMIN, presence.SCHEDULER)
            )
        )


HTML, CSS = "text/html", "text/css"
_STYLE = resources.files("warren.admin_web") / "static" / "api.css"


class About(msgspec.Struct, kw_only=True):
    """The name and version of this API."""

    name: str
    version: str
    openapi: str


class WhoAmI(msgspec.Struct, kw_only=True):
    """What a token may do at present, which is never more than its owner may.

    `apps` and `jobs` are null if it is not limited to some.
    """

    token: str
    owner: str
    scopes: list[str]
    apps: list[str] | None
    jobs: list[str] | None


class MetaEndpoints:
    """Information about the API itself."""

    name = "meta"

    def __init__(self, services: ApiServices) -> None:
        self._services = services
        self._description = b""
        self._page = b""

    @endpoint("GET", "/", OpenAccess.ANYONE, About)
    def about(self, _call: Call | None) -> About:
        """Show the API's name and version."""
        return About(name="warren", version=self._services.version, openapi=f"{BASE}/openapi.json")

    @endpoint("GET", "/openapi.json", OpenAccess.ANYONE, dict[str, Any])
    def openapi(self, _call: Call | None) -> Reply:
        """Return this description, in OpenAPI 3.1."""
        # Built once: that takes a hundred times as long as sending it, and anyone may ask.
        if not self._description:
            self._description = msgspec.json.encode(_described())
        return Reply(value=self._description)

    @endpoint("GET", "/docs", OpenAccess.ANYONE, str, answer_media=(HTML,))
    def page(self, _call: Call | None) -> Reply:
        """Show this description as a page."""
        if not self._page:
            self._page = _page_of(_described()).encode()
        policy = "default-src 'none'; style-src 'self'; frame-ancestors 'none'"
        headers = {"Content-Security-Policy": policy}
        return Reply(value=self._page, media=f"{HTML}; charset=utf-8", headers=headers)

    @endpoint("GET", "/docs.css", OpenAccess.ANYONE, str, answer_media=(CSS,))
    def style(self, _call: Call | None) -> Reply:
        """Return the style of that page."""
        return Reply(value=_STYLE.read_bytes(), media=f"{CSS}; charset=utf-8")

    @endpoint("GET", "/whoami", OpenAccess.ANY_TOKEN, WhoAmI)
    def whoami(self, call: Call) -> WhoAmI:
        """Show what the token may do now."""
        actor = call.actor

        def read(session: Session) -> tuple[list[str] | None, list[str] | None]:
            apps = None if actor.app_ids is None else list(ids_by_name(session, actor.app_ids))
            if actor.job_ids is None:
                return apps, None
            names = job_search.names(session, actor.job_ids, actor.app_ids)
            return apps, sorted(names.values())

        apps, jobs = self._services.database.read(read)
        scopes = sorted(scope.value for scope in call.scopes if call.may(scope))
        return WhoAmI(token=call.token_name, owner=call.owner, scopes=scopes, apps=apps, jobs=jobs)


def _described() -> dict[str, Any]:
    return document(current_app.extensions["warren_views"])


def _page_of(described: dict[str, Any]) -> str:
    return render_template(
        "api/description.html", json=lambda value: msgspec.json.encode(value).decode(), **described
    )
