"""The API's name and version, its description, and the rights of a token."""

from importlib import resources
from typing import Any

import msgspec
from flask import current_app, render_template
from sqlalchemy.orm import Session

from warren.admin_web.api.endpoint import BASE, Call, OpenAccess, Reply, endpoint
from warren.admin_web.api.openapi import document
from warren.admin_web.services import ApiServices
from warren.sql.listings import job_search
from warren.sql.registry.apps import ids_by_name

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
