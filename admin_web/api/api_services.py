"""What the API needs from outside."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from warren.broker.rpc import Requester
from warren.scheduler.actor import Actor
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.commands import Commands
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.engine import Database
from warren.sql.ids import RunIds


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one API process.

    The first four are a rate per second and a burst for each token, of all requests and of
    triggers. The tokens of one user together get only a part of the places, to leave room for
    others.
    """

    requests: float = 50.0
    requests_at_once: float = 100.0
    triggers: float = 10.0
    triggers_at_once: float = 50.0
    #: Requests that may wait at a time, in total and per user; more are answered at once.
    waiting: int = 450
    waiting_of_user: int = 400
    #: Expensive requests at a time, in total and per user; more are refused.
    heavy: int = 4
    heavy_of_user: int = 2
    #: Seconds between two polls for all waiting requests.
    poll_seconds: float = 0.2
    #: How long a test alarm's outcome is waited for; GET /alarms has what comes later.
    test_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """The reader and the writer of job files.

    `read` returns the apps and jobs of a YAML text, or raises Refusal with every
    problem; `write` returns the lines of a file.
    """

    read: Callable[[bytes], tuple[Sequence[AppSpec], Sequence[JobSpec]]]
    write: Callable[[Sequence[AppSpec], Sequence[JobSpec]], Iterable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """Everything that views read from and act through.

    Attributes:
        database: a small pool of its own.
        now_ms: the database's clock.
        run_ids: for triggered runs, reserved in blocks.
        cluster_zone: the time zone of days and of jobs that name none; does not block.
        job_files: the reader and writer of job files.
        is_broker_up: whether the broker is connected; does not block.
        requester: asks executors for run logs; None = executors cannot be asked.
        added_routes: routes that are installed besides XXL-JOB's.
        trusted_proxies: how many reverse proxies stand in front of the API.
        limits: of this process.
        version: of Warren.

    """

    database: Database
    now_ms: Callable[[], int]
    run_ids: RunIds
    cluster_zone: Callable[[], str]
    job_files: JobFiles
    is_broker_up: Callable[[], bool]
    requester: Requester | None = None
    added_routes: Sequence[str] = ()
    trusted_proxies: int = 0
    limits: Limits = field(default_factory=Limits)
    version: str = ""

    @property
    def timezone(self) -> str:
        """The cluster's time zone at this moment."""
        return self.cluster_zone()

    def commands(self, actor: Actor) -> Commands:
        """Return the commands of an actor, limited to their apps and jobs."""
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
