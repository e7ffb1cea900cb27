"""What the console is made of: handed to it from outside, once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from admin_web.visitors import Visitor
from broker.rpc import Requester
from scheduler.app_commands import AppCommands
from scheduler.commands import Commands
from scheduler.fleet_commands import FleetCommands
from scheduler.glue_commands import GlueCommands
from scheduler.job_commands import JobCommands
from scheduler.job_spec import AppSpec, JobSpec
from scheduler.user_commands import UserCommands
from sql.engine import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that pages get their facts from and act through.

    Attributes:
        database: a small pool of its own, so that a busy console delays nobody.
        now_ms: the database's clock.
        timezone: of jobs that name none.
        secret: what cookies are signed with is derived from it.
        is_broker_up: whether messages can travel; answers at once.
        added_routes: those that are installed besides XXL-JOB's.
        job_file: writes apps and jobs as a job file, line by line; None = pages show no such file.
        requester: asks executors for run logs; None = no executor can be asked.
        host: the address that the console listens at.
        console_url: where people reach it; https makes its cookies Secure.
        trusted_proxies: how many reverse proxies stand before it.
        metrics_token: opens /metrics; empty = nobody may read it.

    """

    database: Database
    now_ms: Callable[[], int]
    timezone: str
    secret: str
    is_broker_up: Callable[[], bool]
    added_routes: Sequence[str] = ()
    job_file: Callable[[Sequence[AppSpec], Sequence[JobSpec]], Iterable[str]] | None = None
    requester: Requester | None = None
    host: str = "127.0.0.1"
    console_url: str = ""
    trusted_proxies: int = 0
    metrics_token: str = ""

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the console by https only."""
        return self.console_url.startswith("https://")

    def commands(self, visitor: Visitor) -> Commands:
        """Return what acts on jobs and runs in a visitor's name, on their apps only."""
        return Commands(
            self.database,
            self.now_ms,
            timezone=self.timezone,
            who=visitor.name,
            origin=visitor.origin,
            app_ids=visitor.app_ids,
        )

    def job_commands(self, visitor: Visitor) -> JobCommands:
        """Return what makes, changes and deletes jobs in a visitor's name, on their apps only."""
        return JobCommands(
            self.database,
            self.now_ms,
            timezone=self.timezone,
            who=visitor.name,
            origin=visitor.origin,
            app_ids=visitor.app_ids,
            added_routes=self.added_routes,
        )

    def fleet_commands(self, visitor: Visitor) -> FleetCommands:
        """Return what acts on executors in a visitor's name, on their apps only."""
        return FleetCommands(
            self.database,
            self.now_ms,
            who=visitor.name,
            origin=visitor.origin,
            app_ids=visitor.app_ids,
        )

    def glue_commands(self, visitor: Visitor) -> GlueCommands:
        """Return what acts on scripts in a visitor's name, on their apps only."""
        return GlueCommands(
            self.database,
            self.now_ms,
            who=visitor.name,
            origin=visitor.origin,
            app_ids=visitor.app_ids,
        )

    def app_commands(self, visitor: Visitor) -> AppCommands:
        """Return what acts on apps in a visitor's name."""
        return AppCommands(self.database, self.now_ms, who=visitor.name, origin=visitor.origin)

    def user_commands(self, visitor: Visitor) -> UserCommands:
        """Return what acts on users in a visitor's name."""
        return UserCommands(self.database, who=visitor.name, origin=visitor.origin)
