"""A console with single sign-on at a provider of the tests, and browsers that sign in there."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from flask import Flask
from werkzeug.test import TestResponse

from tests.support.console import SECRET, Clock, Visit, make_app
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider
from warren.admin_web.access.group_reader import GroupReader
from warren.admin_web.access.openid_connect import OpenIDClient, OpenIDConnect
from warren.admin_web.services import SingleSignOn
from warren.broker.signing import derived_key
from warren.scheduler.actor import Actor
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.commands import Commands
from warren.sql.accounts import users
from warren.sql.accounts.audit_log import AuditFilter, listing
from warren.sql.accounts.users import Rights, Role, rights_of
from warren.sql.engine import Database
from warren.sql.models import User
from warren.sql.registry import apps

CALLBACK = "http://localhost/sso/callback"
HOUR_MS = 3_600_000


@dataclass
class SsoConsole:
    """A console with one provider; `client` replaces what the console knows of it."""

    database: Database
    clock: Clock
    provider: OidcProvider
    client: dict[str, Any] = field(default_factory=dict)
    services: dict[str, Any] = field(default_factory=dict)
    url: str = "http://localhost"

    def __post_init__(self) -> None:
        told = {
            "issuer": self.provider.issuer,
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "redirect_url": f"{self.url}/sso/callback",
        }
        keys = [derived_key(SECRET.encode(), "sso/tokens")]
        self.connection = OpenIDConnect(
            OpenIDClient(**told | self.client),
            keys,
            self.clock.now_ms,
            lambda: self.clock.now / 1000,
        )
        self.sso = SingleSignOn(
            provider=self.connection,
            tokens_ms=12 * HOUR_MS,
            contact="the platform team",
            signed_out_url=f"{self.url}/login",
        )
        self.app: Flask = make_app(self.database, self.clock, sso=self.sso, **self.services)
        self.reader = GroupReader(self.sso, self.database, self.clock.now_ms)

    @property
    def commands(self) -> Commands:
        """The commands of the command line."""
        actor = Actor(who="cli:tests")
        return Commands(
            CommandContext(database=self.database, now_ms=self.clock.now_ms, actor=actor)
        )

    def visit(self) -> Visit:
        return Visit(self.app)

    def rule(self, group: str, role: Role, *app_names: str, glue: bool = False) -> None:
        """Add a rule, or replace that of the group."""
        ids = self.database.read(apps.ids_by_name)
        app_ids = tuple(ids[name] for name in app_names)
        rights = Rights(role=role, app_ids=app_ids, may_edit_glue=glue)
        self.commands.rules.apply({**self.commands.rules.present(), group: rights})

    def sign_in(self, visit: Visit, name: str, path: str = "/sso/start") -> TestResponse:
        """Sign in at the provider; return what the console says at the end."""
        return visit.get(self.way_back(visit.get(path).headers["Location"], name))

    def way_back(self, url: str, name: str) -> str:
        """Return the path and query with which the provider sends a person back."""
        back = urlsplit(self.provider.callback(url, name))
        return f"{back.path}?{back.query}"

    def user(self, name: str) -> User | None:
        return self.database.read(lambda session: users.by_name(session, name))

    def rights(self, name: str) -> Rights:
        user = self.user(name)
        assert user is not None
        return rights_of(user)

    def audited(self, **wanted: Any) -> list[tuple[str, str, str]]:
        """Return who did what to whom, oldest first."""
        found = self.database.read(lambda session: listing(session, AuditFilter(**wanted)))
        return [(entry.who, entry.action, entry.name) for entry in reversed(found)]


def is_in(visit: Visit) -> bool:
    """Whether a browser is signed in."""
    return visit.get("/account").status_code == 200
