"""The services that the console is made with."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from broker.rpc import Requester
from scheduler.actor import Actor
from scheduler.commands.command_context import CommandContext
from scheduler.commands.commands import Commands
from scheduler.jobs.spec import AppSpec, JobSpec
from sql.engine import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCacheLimits:
    """How many pages are cached for all sign-ins, how long each may be, and for how long."""

    pages: int = 200
    characters: int = 200_000
    seconds: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleServices:
    """Everything that pages read from and act through.

    Attributes:
        database: a small pool of its own, so that a busy console delays nobody.
        now_ms: the database's clock.
        timezone: of jobs that name none.
        secret: the key that signs cookies is derived from it.
        secret_previous: the former secret during a rotation; its cookies stay valid.
        is_broker_up: whether messages can travel; answers at once.
        added_routes: routes that are installed besides XXL-JOB's.
        job_file: writes apps and jobs as a job file, line by line; None = pages show no such file.
        requester: asks executors for run logs; None = no executor can be asked.
        host: the address that the console listens on.
        console_url: where people reach it; https makes its cookies Secure.
        trusted_proxies: how many reverse proxies stand in front of it.
        metrics_token: opens /metrics; empty = nobody may read it.
        page_cache: limits of what is cached for when the database is lost.

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
    secret_previous: str = ""
    metrics_token: str = ""
    page_cache: PageCacheLimits = field(default_factory=PageCacheLimits)

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the console by https only."""
        return self.console_url.startswith("https://")

    def commands(self, actor: Actor) -> Commands:
        """Return what somebody may do, on their apps only."""
        return Commands(
            CommandContext(
                database=self.database,
                now_ms=self.now_ms,
                actor=actor,
                timezone=self.timezone,
                added_routes=self.added_routes,
            )
        )
