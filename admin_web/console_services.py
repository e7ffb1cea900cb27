"""What the console needs from outside."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from warren.broker.rpc import Requester
from warren.scheduler.actor import Actor
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.commands import Commands
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.metrics.recorder import METRICS_JOBS
from warren.sql.engine import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCacheLimits:
    """How many pages are cached in total, how long each may be, and for how many seconds."""

    pages: int = 200
    characters: int = 200_000
    seconds: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLogLimits:
    """How much of a run's log is sent at once.

    Attributes:
        page_lines: lines of a page.
        piece_lines: lines of one piece of a download.
        file_bytes: a download ends here, even if an executor keeps sending.

    """

    page_lines: int = 500
    piece_lines: int = 10_000
    file_bytes: int = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleServices:
    """Everything that pages read from and act through.

    Attributes:
        database: a small pool of its own, so that a busy console slows down nothing else.
        now_ms: the database's clock.
        cluster_zone: the time zone of days and of jobs that name none; does not block.
        secret: the key that signs cookies is derived from it.
        secret_previous: the former secret during a rotation; its cookies stay valid.
        is_broker_up: whether the broker is connected; does not block.
        added_routes: routes that are installed besides XXL-JOB's.
        job_file: writes apps and jobs as the lines of a job file; None = no page shows one.
        requester: asks executors for run logs; None = executors cannot be asked.
        host: the address that the console listens on.
        console_url: where people reach it; https makes its cookies Secure.
        trusted_proxies: how many reverse proxies stand in front of it.
        metrics_token: required for /metrics; empty = nobody may read it.
        metrics_jobs: how many jobs have metrics of their own.
        page_cache: limits of the pages that are kept for when the database is lost.
        run_logs: limits of the pages and downloads of run logs.
        test_wait_seconds: how long a page waits for the outcome of a test alarm.

    """

    database: Database
    now_ms: Callable[[], int]
    cluster_zone: Callable[[], str]
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
    metrics_jobs: int = METRICS_JOBS
    page_cache: PageCacheLimits = field(default_factory=PageCacheLimits)
    run_logs: RunLogLimits = field(default_factory=RunLogLimits)
    test_wait_seconds: float = 3.0

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the console only by https."""
        return self.console_url.startswith("https://")

    @property
    def timezone(self) -> str:
        """The cluster's time zone at this moment."""
        return self.cluster_zone()

    def commands(self, actor: Actor) -> Commands:
        """Return the commands of an actor, limited to their apps."""
        return Commands(
            CommandContext(
                database=self.database,
                now_ms=self.now_ms,
                actor=actor,
                timezone=self.timezone,
                added_routes=self.added_routes,
            )
        )
