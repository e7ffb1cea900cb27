"""What the API is made of: handed to it from outside, once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from broker.rpc import Requester
from scheduler.actor import Actor
from scheduler.commands.command_context import CommandContext
from scheduler.commands.commands import Commands
from scheduler.jobs.spec import AppSpec, JobSpec
from sql.engine import Database
from sql.ids import RunIds


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many requests a second a token may make of one process, and how many at once.

    One user's tokens together take a part of the places, so that there is room for the others.
    """

    requests: float = 50.0
    requests_at_once: float = 100.0
    triggers: float = 10.0
    triggers_at_once: float = 50.0
    #: Requests that may wait for something at a time; others are answered at once.
    waiting: int = 450
    waiting_of_user: int = 400
    #: Requests at a time that read or write much; one too many is refused.
    heavy: int = 4
    heavy_of_user: int = 2
    #: How often all that is waited for is looked at.
    look_seconds: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """How job files are read and written.

    `read` gives apps and jobs of a text in YAML, or raises ValueError, a line for each problem.
    """

    read: Callable[[bytes], tuple[Sequence[AppSpec], Sequence[JobSpec]]]
    write: Callable[[Sequence[AppSpec], Sequence[JobSpec]], Iterable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """Everything that views get their facts from and act through.

    Attributes:
        database: a small pool of its own.
        now_ms: the database's clock.
        run_ids: of all that is triggered here, in blocks.
        timezone: of jobs that name none.
        job_files: the reader and writer of job files.
        is_broker_up: whether messages can travel; answers at once.
        requester: asks executors for run logs; None = no executor can be asked.
        added_routes: those that are installed besides XXL-JOB's.
        trusted_proxies: how many reverse proxies stand before it.
        limits: of each token.
        version: of Warren.

    """

    database: Database
    now_ms: Callable[[], int]
    run_ids: RunIds
    timezone: str
    job_files: JobFiles
    is_broker_up: Callable[[], bool]
    requester: Requester | None = None
    added_routes: Sequence[str] = ()
    trusted_proxies: int = 0
    limits: Limits = field(default_factory=Limits)
    version: str = ""

    def commands(self, actor: Actor) -> Commands:
        """Return what somebody may do, on their apps and jobs only."""
        return Commands(
            CommandContext(
                database=self.database,
                now_ms=self.now_ms,
                actor=actor,
                timezone=self.timezone,
                added_routes=self.added_routes,
                run_ids=self.run_ids,
            )
        )
