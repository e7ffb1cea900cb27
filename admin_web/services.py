"""What the console and the API need from outside."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from warren.admin_web.identity_provider import Provider, ProviderAway
from warren.broker.rpc import Requester
from warren.resources.job_files import CheckBody, Checked, JobFileText, ValuesGiven
from warren.scheduler.actor import Actor
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.commands import Commands
from warren.scheduler.commands.job_files import FileParts
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.limits import LimitSpec
from warren.scheduler.log_store.store import StoredLogs
from warren.scheduler.metrics import METRICS_JOBS
from warren.scheduler.problems import Refused
from warren.sql.engine import Database
from warren.sql.ids import RunIds

#: Writes apps, jobs, limits and calendars as the lines of a job file.
JobFileWriter = Callable[
    [Sequence[AppSpec], Sequence[JobSpec], Sequence[LimitSpec], Sequence[CalendarSpec]],
    Iterable[str],
]


#: How many of the console's six threads may wait for the provider, and seconds until they may.
ASKING, PLACE_SECONDS = 3, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleSignOn:
    """Single sign-on, where it is set up.

    Attributes:
        provider: knows who people are.
        tokens_ms: how long a user's tokens hold after a sign-in that gave no refresh token.
        contact: whom people without rights are told to ask; empty = an administrator.
        signed_out_url: where the provider sends people who have signed out.

    """

    provider: Provider
    tokens_ms: int
    contact: str = ""
    signed_out_url: str = ""
    _places: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(ASKING), repr=False
    )

    @contextmanager
    def asked(self) -> Iterator[Provider]:
        """Yield the provider to a page that may have to wait for it; few do at a time.

        Raises:
            ProviderAway: too many do already.

        """
        if not self._places.acquire(timeout=PLACE_SECONDS):
            raise ProviderAway("too many people wait for the provider; try again")
        try:
            yield self.provider
        finally:
            self._places.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class WebServices:
    """What the console and the API have in common.

    Attributes:
        database: a small pool of its own, so that a busy process slows down nothing else.
        now_ms: the database's clock.
        cluster_zone: the time zone of days and of jobs that name none; does not block.
        is_broker_up: whether the broker is connected; does not block.
        requester: asks executors for run logs; None = executors cannot be asked.
        added_routes: the installed routes that are not built in.
        trusted_proxies: how many reverse proxies stand in front of the process.
        stored_logs: those in the log store; None = there is none.
        run_ids: for triggered runs, reserved in blocks; None = the database counts them.
        sso: None = users have passwords only.

    """

    database: Database
    now_ms: Callable[[], int]
    cluster_zone: Callable[[], str]
    is_broker_up: Callable[[], bool]
    requester: Requester | None = None
    added_routes: Sequence[str] = ()
    trusted_proxies: int = 0
    run_ids: RunIds | None = None
    stored_logs: StoredLogs | None = None
    sso: SingleSignOn | None = None

    @property
    def timezone(self) -> str:
        """The cluster's time zone at this moment."""
        return self.cluster_zone()

    def context(self, actor: Actor) -> CommandContext:
        """Return what the commands of an actor share, limited to their apps and jobs."""
        return CommandContext(
            database=self.database,
            now_ms=self.now_ms,
            actor=actor,
            timezone=self.timezone,
            added_routes=self.added_routes,
            run_ids=self.run_ids,
        )

    def commands(self, actor: Actor) -> Commands:
        """Return the commands of an actor, limited to their apps and jobs."""
        return Commands(self.context(actor))


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
class FlowSource:
    """The graph of a flow as it was typed.

    `values` are those of a `flow` in a job file; `line` returns the line of a field such as
    `flow/load/after`. `problem` says why the text cannot be read at all, and its line.
    """

    values: Any
    line: Callable[[str], int]
    problem: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowTexts:
    """Reads and writes the graphs of flows as texts that people edit."""

    read: Callable[[str], FlowSource]
    write: Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleServices(WebServices):
    """What pages need in addition.

    Attributes:
        secret: the key that signs cookies is derived from it.
        secret_previous: the former secret during a rotation; its cookies stay valid.
        job_file: None = no page shows a job file.
        flow_texts: None = the form of a job has no flows.
        host: the address that the console listens on.
        console_url: where people reach it; https makes its cookies Secure.
        metrics_token: required for /metrics; empty = no one may read it.
        metrics_jobs: how many jobs have metrics of their own.
        page_cache: limits of the pages that are kept in case the database is lost.
        run_logs: limits of the pages and downloads of run logs.
        test_wait_seconds: how long a page waits for the outcome of a test alarm.
        local_names: who may sign in with a password; None = all who have one.

    """

    secret: str
    secret_previous: str = ""
    job_file: JobFileWriter | None = None
    flow_texts: FlowTexts | None = None
    host: str = "127.0.0.1"
    console_url: str = ""
    metrics_token: str = ""
    metrics_jobs: int = METRICS_JOBS
    page_cache: PageCacheLimits = field(default_factory=PageCacheLimits)
    run_logs: RunLogLimits = field(default_factory=RunLogLimits)
    test_wait_seconds: float = 3.0
    local_names: Collection[str] | None = None

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the console only by https."""
        return self.console_url.startswith("https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiLimits:
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
    #: How long to wait for the result of a test alarm; GET /alarms shows later ones.
    test_seconds: float = 5.0
    #: How long one request clears runs.
    clear_seconds: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJobFile:
    """What job files say together, and how problems with them are told.

    `over` has a line for each calendar whose days have all passed. `check_apps` raises Refusal if a
    job's app is neither in the files nor among the known ones; its hint says what to do. `refused`
    adds the lines of what a command has refused.
    """

    parts: FileParts
    over: Sequence[str] = ()
    check_apps: Callable[[Collection[str], str], None]
    refused: Callable[[Refused], Refused]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """The reader, the checker and the writer of job files.

    `read` returns what YAML texts say together, with these values for `${NAME}`, or raises Refusal
    with every problem; `check` says, given the zone of jobs that name none, what applying them to
    an empty database would; `write` returns the lines of a file.
    """

    read: Callable[[bytes | Sequence[JobFileText], Mapping[str, str] | ValuesGiven], ReadJobFile]
    check: Callable[[CheckBody, str], Checked]
    write: JobFileWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices(WebServices):
    """What endpoints need in addition.

    Attributes:
        run_ids: reserves ids of triggered runs in blocks.
        job_files: the reader and writer of job files.
        limits: of this process.
        version: of Warren.
        console_url: where people reach the console; empty = the API does not know.
        on_progress: told how many runs have been cleared so far.

    """

    run_ids: RunIds
    job_files: JobFiles
    limits: ApiLimits = field(default_factory=ApiLimits)
    version: str = ""
    console_url: str = ""
    on_progress: Callable[[int], None] = lambda _count: None
