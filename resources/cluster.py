"""The cluster: its apps, executors and schedulers, and pauses of dispatch."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from warren.resources.operation import PageQuery, Scope, Word, operation

#: A newer API may know more of them.
ProcessState = Annotated[
    str,
    msgspec.Meta(extra_json_schema={"enum": ["alive", "draining", "silent", "absent"]}),
]


class Blocker(msgspec.Struct, kw_only=True, frozen=True):
    """Why something does not happen, or happens otherwise: a code for programs, and a sentence."""

    code: str
    message: str


class Handler(msgspec.Struct, kw_only=True, frozen=True):
    """A handler, the first line of its docstring, and where it is declared.

    `schema` is the JSON Schema of its params, if they have one.
    """

    name: str
    about: str = ""
    module: str = ""
    line: int = 0
    process: str | None = None
    schema: Any = None


class Executor(msgspec.Struct, kw_only=True, frozen=True):
    """An executor, and its load as of its last heartbeat.

    One that its app lists but that has never registered is `absent`. `missing` are the script
    languages whose interpreters it does not find. `blocked_by` says why it gets no new runs.
    `unstored_logs` of finished runs wait for the log store; `log_fault` says why.
    """

    app: str
    address: str
    state: ProcessState
    listed: bool | None
    boot_id: str
    boot_at: datetime | None
    beat_at: datetime | None
    draining: bool
    ailments: list[str]
    slots: int
    running: int
    waiting: int
    cpu_percent: float
    memory_percent: float
    handlers: list[str]
    languages: list[str]
    code_version: str
    # older APIs do not say these
    missing: list[str] = []
    handler_facts: list[Handler] = []
    unstored_logs: int = 0
    log_fault: str = ""
    blocked_by: list[Blocker]

    @property
    def is_online(self) -> bool:
        """Whether it shows signs of life."""
        return self.state in {"alive", "draining"}


class Scheduler(msgspec.Struct, kw_only=True, frozen=True):
    """A scheduler.

    `failing` are the roles whose last round failed; `rejected` the executors, as APP/ADDRESS, whose
    heartbeats have lately had no valid signature; `mails` is whether it sends e-mails. `ailments`
    are its problems; with any but `reports` and `server`, it declares no executor offline.
    `unreachable` are the executors that get nothing from it, as their queues cannot be reached.
    """

    node: str
    state: ProcessState
    boot_id: str
    boot_at: datetime | None
    beat_at: datetime | None
    failing: list[str]
    rejected: list[str]
    mails: bool
    # older APIs do not say these two
    ailments: list[str] = []
    unreachable: list[str] = []


class Pause(msgspec.Struct, kw_only=True, frozen=True):
    """A pause of an app, or of the whole cluster if `app` is null; `until_at` null = no end."""

    app: str | None
    since_at: datetime
    until_at: datetime | None
    paused_by: str
    reason: str


class PauseFacts(msgspec.Struct, kw_only=True, frozen=True):
    """A pause: since when, until when, by whom and why."""

    paused_at: datetime | None = None
    paused_until: datetime | None = None
    paused_by: str | None = None
    paused_reason: str | None = None


class Cluster(msgspec.Struct, kw_only=True, frozen=True):
    """Whether dispatch is paused, since when, until when, by whom and why.

    `blocked_by` says why no runs are sent at all; `pauses` has those of apps, too.
    """

    paused: bool
    paused_at: datetime | None
    paused_until: datetime | None
    paused_by: str | None
    paused_reason: str | None
    schedulers_alive: int
    # older APIs do not say these two
    blocked_by: list[Blocker] = []
    pauses: list[Pause] = []


class Changed(msgspec.Struct, kw_only=True, frozen=True):
    """Whether anything changed."""

    changed: bool


class Paused(Changed, kw_only=True, frozen=True):
    """Whether anything changed; `outcome` is PAUSED, CHANGED (a pause) or ALREADY."""

    outcome: str = ""  # older APIs do not say it


class PauseBody(msgspec.Struct, kw_only=True):
    """Why something is paused, and when the pause ends by itself; null removes that end."""

    reason: str = ""
    until: str | msgspec.UnsetType | None = msgspec.UNSET


class AppAlarm(msgspec.Struct, kw_only=True):
    """Where an app's alarms go; `secret` is never in an answer, and stays if it is left out."""

    emails: list[str] = []
    webhook: str = ""
    style: str = ""
    secret: str | msgspec.UnsetType = msgspec.UNSET


class AppWebhook(msgspec.Struct, kw_only=True):
    """Where ends of an app's runs are reported, and which: all, successes or failures."""

    url: str = ""
    when: str = ""


class AppBody(msgspec.Struct, kw_only=True):
    """An app in a request; `name`, if given, must be that of the path."""

    name: str | None = None
    title: str | None = None
    addresses: list[str] = []
    route: str = ""
    alarm: AppAlarm | None = None
    webhook: AppWebhook | None = None
    id: int | None = None
    jobs: int | None = None
    pause: PauseFacts | None = None


class CreateAppBody(msgspec.Struct, kw_only=True):
    """A new app; its title is its name by default."""

    name: str
    title: str | None = None


class AppFacts(msgspec.Struct, kw_only=True):
    """An app in an answer: `jobs` is how many it has; `pause` is null unless it is paused."""

    id: int
    name: str
    title: str
    addresses: list[str]
    route: str
    alarm: AppAlarm | None
    webhook: AppWebhook | None
    jobs: int
    pause: PauseFacts | None


class ExecutorsQuery(PageQuery, kw_only=True):
    """Which executors to list; with `handler_facts`, what is known of each handler, too."""

    app: Word | None = None
    handler_facts: bool = False


class ExecutorQuery(msgspec.Struct, kw_only=True):
    """The app, if executors of several share the address."""

    app: Word | None = None


@operation("GET", "/executors", Scope.READ, query=ExecutorsQuery, needs_whole_apps=True)
def list_executors(*, app: str | None = None, handler_facts: bool = False) -> list[Executor]:
    """List executors by app and address, including listed ones that are offline.

    `blocked_by` says why one gets no new runs, the most general reason first; empty if it can
    get some. If you filter by `app`, it also says so if the routes of all started jobs choose
    other executors.
    """


@operation("GET", "/executors/<address>", Scope.READ, query=ExecutorQuery, needs_whole_apps=True)
def show_executor(address: str, *, app: str | None = None) -> Executor:
    """Show an executor that has registered, and why it gets no new runs if there is a reason."""


@operation("POST", "/executors/<app>/<address>/drain", Scope.OPERATE, needs_whole_apps=True)
def drain_executor(app: str, address: str) -> Changed:
    """Drain an executor: it takes no new runs, finishes the running ones and exits."""


@operation("DELETE", "/executors/<app>/<address>", Scope.OPERATE, needs_whole_apps=True)
def forget_executor(app: str, address: str) -> None:
    """Remove an executor that is gone from the list; one that is online or has open runs stays."""


@operation("GET", "/schedulers", Scope.READ)
def list_schedulers() -> list[Scheduler]:
    """List schedulers by name."""


@operation("GET", "/cluster", Scope.READ)
def show_cluster() -> Cluster:
    """Show whether dispatch is paused, and how many schedulers are alive."""


@operation("POST", "/cluster/pause", Scope.ADMIN, body=PauseBody)
def pause_cluster(
    *, reason: str = "", until: datetime | str | msgspec.UnsetType | None = msgspec.UNSET
) -> Paused:
    """Stop sending runs everywhere; they are still planned, and wait."""


@operation("POST", "/cluster/resume", Scope.ADMIN)
def resume_cluster() -> Changed:
    """Resume sending runs; a job's misfire policy decides about ticks later than its limit."""


@operation("POST", "/apps", Scope.ADMIN, body=CreateAppBody, status=201)
def add_app(name: str, *, title: str | None = None) -> AppFacts:
    """Add an app; its other settings are as in a new one."""


@operation("POST", "/apps/<app>/pause", Scope.OPERATE, body=PauseBody, needs_whole_apps=True)
def pause_app(
    app: str, *, reason: str = "", until: datetime | str | msgspec.UnsetType | None = msgspec.UNSET
) -> Paused:
    """Stop sending runs of an app; they are still planned, and wait."""


@operation("POST", "/apps/<app>/resume", Scope.OPERATE, needs_whole_apps=True)
def resume_app(app: str) -> Changed:
    """Resume an app's runs; a job's misfire policy decides about ticks later than its limit."""
