"""Executors, schedulers and the cluster as a whole; the API's version and description."""

from collections.abc import Sequence
from importlib import resources
from typing import Any

import msgspec
from flask import current_app, render_template
from sqlalchemy.orm import Session

from warren.admin_web.api.endpoint import BASE, Call, Reply, endpoint, serves
from warren.admin_web.api.endpoints.apps import app_id_of, asked_app_ids, pause
from warren.admin_web.api.openapi import document
from warren.admin_web.api.paging import page, place_of
from warren.admin_web.services import ApiServices
from warren.broker.reasons import Reason
from warren.resources import cluster as operations
from warren.resources.accounts import WhoAmI
from warren.resources.cluster import Blocker, Changed, Cluster, Executor, Paused
from warren.resources.operation import OpenAccess
from warren.scheduler.views import blockers
from warren.scheduler.views.process_view import (
    executor_of,
    node_view,
    pause_facts,
    pause_of,
    scheduler_of,
    schedulers_view,
)
from warren.sql.listings import app_listing, job_search
from warren.sql.models import Registration
from warren.sql.registry import pauses, presence
from warren.sql.registry.apps import find, ids_by_name


class ClusterEndpoints:
    """The processes of the cluster."""

    name = "cluster"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @serves(operations.list_executors)
    def executors(self, call: Call) -> Any:
        query, after = call.query, place_of(call.query, str) or ""
        app_ids, now_ms = asked_app_ids(self._services, call, query.app), self._services.now_ms()
        found, started = self._services.database.read(
            lambda session: (
                blockers.read(session, app_ids, now_ms=now_ms),
                None if query.app is None else _started_jobs(session, query.app),
            )
        )
        rows = [row for row in found.executors if row.key > after]
        rows.sort(key=lambda row: row.key)
        return page(
            operations.list_executors.endpoint.answer,
            query,
            rows,
            lambda row: executor_of(
                row, _reasons(found.of_executor(row, started)), handler_facts=query.handler_facts
            ),
            lambda row: row.key,
        )

    @serves(operations.show_executor)
    def executor(self, call: Call, address: str) -> Executor:
        app, now_ms = call.query.app, self._services.now_ms()

        def read(session: Session) -> Executor:
            executor_id = presence.executor_id(session, address, app, call.actor.app_ids)
            row = session.get_one(Registration, executor_id)
            found = blockers.read(session, [find(session, row.app).id], now_ms=now_ms)
            [shown] = [one for one in found.executors if one.address == row.address]
            why = found.of_executor(shown, _started_jobs(session, row.app))
            return executor_of(shown, _reasons(why), handler_facts=True)

        return self._services.database.read(read)

    @serves(operations.drain_executor)
    def drain(self, call: Call, app: str, address: str) -> Changed:
        executor_id = self._executor_id(call, app, address)
        return Changed(changed=self._services.commands(call.actor).cluster.drain(executor_id))

    @serves(operations.forget_executor)
    def forget(self, call: Call, app: str, address: str) -> None:
        executor_id = self._executor_id(call, app, address)
        self._services.commands(call.actor).cluster.forget(executor_id)

    def _executor_id(self, call: Call, app: str, address: str) -> int:
        app_id_of(self._services, call, app)
        return self._services.database.read(
            lambda session: presence.executor_id(session, address, app)
        )

    @serves(operations.list_schedulers)
    def schedulers(self, call: Call) -> Any:
        after, now_ms = place_of(call.query, str) or "", self._services.now_ms()
        rows = sorted(node_view(row, now_ms) for row in self._nodes())
        rows = [row for row in rows if row.node > after]
        kind = operations.list_schedulers.endpoint.answer
        return page(kind, call.query, rows, scheduler_of, lambda row: row.node)

    @serves(operations.show_cluster)
    def cluster(self, call: Call) -> Cluster:
        now_ms = self._services.now_ms()
        held = self._services.database.read(
            lambda session: pauses.in_force(session, now_ms, call.actor.app_ids)
        )
        nodes = self._nodes()
        alive = sum(node_view(row, now_ms).is_online for row in nodes)
        paused = next((pause for pause in held if pause.app is None), None)
        return Cluster(
            paused=paused is not None,
            **pause_facts(paused),
            schedulers_alive=alive,
            blocked_by=_reasons(blockers.of_cluster(held, schedulers_view(nodes, now_ms))),
            pauses=[pause_of(pause) for pause in held],
        )

    @serves(operations.pause_cluster)
    def pause(self, call: Call) -> Paused:
        return pause(self._services.commands(call.actor).cluster, call)

    @serves(operations.resume_cluster)
    def resume(self, call: Call) -> Changed:
        return Changed(changed=self._services.commands(call.actor).cluster.resume())

    def _nodes(self) -> list[Registration]:
        return list(
            self._services.database.read(
                lambda session: presence.listing(session, presence.ADMIN, presence.SCHEDULER)
            )
        )


def _started_jobs(session: Session, app: str) -> dict[int, str]:
    return app_listing.started_jobs(session, app, limit=blockers.MAX_JOBS + 1)


def _reasons(reasons: Sequence[Reason]) -> list[Blocker]:
    return [Blocker(**reason) for reason in blockers.blocker_json(reasons)]


HTML, CSS = "text/html", "text/css"
_STYLE = resources.files("warren.admin_web") / "static" / "api.css"


class About(msgspec.Struct, kw_only=True):
    """The name and version of this API."""

    name: str
    version: str
    openapi: str


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

    @endpoint("DELETE", "/whoami/token", OpenAccess.ANY_TOKEN, None, status=204)
    def revoke(self, call: Call) -> None:
        """Revoke the token of this request."""
        self._services.commands(call.actor).tokens.revoke_itself(call.token_name)


def _described() -> dict[str, Any]:
    return document(current_app.extensions["warren_views"])


def _page_of(described: dict[str, Any]) -> str:
    return render_template(
        "api/description.html", json=lambda value: msgspec.json.encode(value).decode(), **described
    )
