"""The API without a server: an application on a database, and programs that call it."""

from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from tests.support.acting import NamedUsers, acting
from tests.support.console import Clock
from warren.admin_web.api.application import create_api
from warren.admin_web.services import ApiLimits, ApiServices, JobFiles
from warren.jobfile.export import job_file
from warren.jobfile.uploads import check_upload, read_upload
from warren.resources.operation import Scope
from warren.scheduler.commands.account_commands import JOB_SCOPES, RIGHTS, TokenSpec
from warren.scheduler.names import Resolver
from warren.sql.accounts import users
from warren.sql.accounts.users import Role, rights_of
from warren.sql.engine import Database
from warren.sql.ids import RunIds

#: High enough that no test hits them by chance.
MANY = ApiLimits(requests=1e6, requests_at_once=1e6, triggers=1e6, triggers_at_once=1e6)
BASE = "/api/v1"


def make_api(database: Database, clock: Clock, **services: Any) -> Flask:
    """Return an API; `services` replace the default ones."""
    given = {
        "database": database,
        "now_ms": clock.now_ms,
        "run_ids": RunIds(database),
        "cluster_zone": lambda: "UTC",
        "job_files": JobFiles(read=read_upload, check=check_upload, write=job_file),
        "is_broker_up": lambda: True,
        "limits": MANY,
        "version": "0.0",
    }
    return create_api(ApiServices(**given | services))


def every_scope(role: Role, *, glue: bool, of_jobs: bool) -> list[Scope]:
    """Return all scopes that a token of this user could have."""
    lacking = set()
    if role is not Role.ADMINISTRATOR:
        lacking |= {Scope.ADMIN} | (set() if glue else {Scope.SCRIPTS})
    if role is Role.VIEWER:
        lacking |= {scope for scope in Scope if RIGHTS[scope] != RIGHTS[Scope.READ]}
    return [one for one in Scope if one not in lacking and (not of_jobs or one in JOB_SCOPES)]


class Program:
    """A program that calls an API with a token."""

    def __init__(self, app: Flask, token: str, address: str = "127.0.0.1") -> None:
        self.client = app.test_client()
        self.token = token
        self._environ = {"REMOTE_ADDR": address}

    def call(
        self, method: str, path: str, headers: dict[str, str] | None = None, **options: Any
    ) -> TestResponse:
        """Call a path below the base path; `json`, `data`, `query_string` as for Flask's client."""
        known = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return self.client.open(
            BASE + path,
            method=method,
            headers=known | (headers or {}),
            environ_base=self._environ,
            **options,
        )

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.call("GET", path, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> TestResponse:
        return self.call("POST", path, json=json, **options)

    def put(self, path: str, json: Any, **options: Any) -> TestResponse:
        return self.call("PUT", path, json=json, **options)


def make_token(
    database: Database,
    clock: Clock,
    owner: str = "admin",
    *,
    scopes: list[Scope] | None = None,
    name: str = "",
    **limits: Any,
) -> str:
    """Create a token for a user, by default with every scope it can have."""
    user = database.read(lambda session: users.by_name(session, owner))
    assert user is not None
    rights = rights_of(user)
    of_jobs = bool(limits.get("job_ids"))
    every = every_scope(rights.role, glue=rights.may_edit_glue, of_jobs=of_jobs)
    clock.names = getattr(clock, "names", 0) + 1  # type: ignore[attr-defined]
    spec = TokenSpec(
        name=name or f"token-{clock.names}",  # type: ignore[attr-defined]
        owner_id=user.id,
        scopes=every if scopes is None else scopes,
        **limits,
    )
    return acting(database, clock.now_ms).tokens.add(spec)


__all__ = ["BASE", "MANY", "NamedUsers", "Program", "Resolver", "make_api", "make_token"]
