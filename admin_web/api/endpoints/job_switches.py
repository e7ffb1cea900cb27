"""Starts and stops jobs, and shows when they are due next."""

from typing import Annotated

import msgspec

from warren.admin_web.api.api_services import ApiServices
from warren.admin_web.api.endpoint import Call, endpoint
from warren.admin_web.api.endpoints.job_lookup import JOB, job_id_of, read_job
from warren.scheduler.commands.tokens.scopes import Scope
from warren.scheduler.schedules.upcoming import next_fires
from warren.sql.instants import iso


class NextQuery(msgspec.Struct, kw_only=True):
    """How many due times to return."""

    count: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 5


class NextAnswer(msgspec.Struct, kw_only=True):
    """When a job is due next; if it is stopped, as if it were started now."""

    fires_at: list[str]
    enabled: bool


class Switched(msgspec.Struct, kw_only=True):
    """Whether anything changed."""

    changed: bool


class JobSwitchEndpoints:
    """Whether jobs fire on their schedules."""

    name = "jobs"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @endpoint("POST", f"{JOB}/start", Scope.OPERATE, Switched)
    def start(self, call: Call, app: str, name: str) -> Switched:
        """Start a job's schedule."""
        job_id = job_id_of(self._services, call, app, name)
        return Switched(changed=self._services.commands(call.actor).jobs.start(job_id))

    @endpoint("POST", f"{JOB}/stop", Scope.OPERATE, Switched)
    def stop(self, call: Call, app: str, name: str) -> Switched:
        """Stop a job's schedule; runs in progress continue."""
        job_id = job_id_of(self._services, call, app, name)
        return Switched(changed=self._services.commands(call.actor).jobs.stop(job_id))

    @endpoint("GET", f"{JOB}/next", Scope.READ, NextAnswer, query=NextQuery)
    def next(self, call: Call, app: str, name: str) -> NextAnswer:
        """Show when a job is due next."""
        now_ms, zone = self._services.now_ms(), self._services.timezone
        listed, _ = read_job(self._services, call, job_id_of(self._services, call, app, name))
        fires = next_fires(listed, now_ms=now_ms, count=call.query.count, timezone=zone)
        return NextAnswer(
            fires_at=[iso(fire) or "" for fire in fires], enabled=bool(listed.is_enabled)
        )
