"""Messages to schedulers: executors' answers, reports and heartbeats, and their own canary."""

from enum import StrEnum
from typing import Annotated, Self

import msgspec

from warren.broker.messages.values import (
    CALLS_LIMIT,
    JOB_NAME_LIMIT,
    Address,
    AppName,
    BootId,
    CatalogueAnswer,
    Count,
    Fingerprint,
    Message,
    Natural,
    Outcome,
    Percent,
    Progress,
    RetrySeconds,
)
from warren.broker.reasons.codes import Why

#: The most lines that one answer to a search of a log names.
FOUND_LIMIT = 500
#: The most reports in one message; an executor sends 100. All reports of a round are stored in one
#: transaction.
REPORTS_LIMIT = 1_000
#: The most runs that one `OpenRunsQuery` may name; an executor takes no more while 20,000 wait.
OPEN_LIMIT = 50_000

#: The most runs in one `Progressed`: an executor has up to 1,000 slots.
PROGRESS_LIMIT = 1_000

# -- answers ------------------------------------------------------------------------------


class BeatAnswer(Message, frozen=True, kw_only=True):
    """The executor is alive."""

    question_id: str
    address: Address
    boot_id: BootId


class IdleBeatAnswer(Message, frozen=True, kw_only=True):
    """Why each busy job could not start at once, and whether the whole executor is busy.

    `may_start` False = it starts no run now, even with free slots. `waiting` counts all its runs.
    `whys` are the reasons behind the texts in the other fields.
    """

    question_id: str
    address: Address
    boot_id: BootId
    busy_jobs: dict[Natural, str] = msgspec.field(default_factory=dict)
    busy_executor: str = ""
    may_start: bool = True
    free_slots: Count = 0
    waiting: Count = 0
    whys: tuple[str, ...] = ()


class KnownState(StrEnum):
    """What an executor knows about a run."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    NEVER_STARTED = "NEVER_STARTED"
    UNKNOWN = "UNKNOWN"


class RunStateReply(Message, frozen=True, kw_only=True, tag="KnowAnswer"):
    """What the executor knows about each run; it also reports the results of finished ones again.

    `remembers_since_ms`: runs triggered before that may have been forgotten, so NEVER_STARTED and
    UNKNOWN prove nothing about them.
    """

    question_id: str
    address: Address
    boot_id: BootId
    remembers_since_ms: Natural
    runs: dict[Natural, KnownState]


class LogChunk(Message, frozen=True, kw_only=True):
    """Lines `from_line`..`to_line` of a run's log; `to_line` < `from_line` if there are none.

    `is_end`: there are no more lines at present; if the run has ended, there never will be.
    `times` are pairs of a line number and the time of that line and those after it, in epoch
    milliseconds; 0 = unknown.
    `found` are the numbers of lines that match a search; None = no search.
    """

    question_id: str
    address: Address
    boot_id: BootId
    run_id: Natural
    from_line: Natural
    to_line: Natural
    text: str
    is_end: bool
    missing: bool = False
    times: tuple[tuple[Natural, Natural], ...] = ()
    found: Annotated[tuple[Natural, ...], msgspec.Meta(max_length=FOUND_LIMIT)] | None = None


# -- callbacks ----------------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """The run's process has started; not sent for runs that take less than about half a second.

    As in all reports, `identity` is that of the trigger, see `run_identity`; an executor of 0.1.0
    gives 0.
    """

    run_id: Natural
    boot_id: str
    started_at_ms: Natural
    identity: Natural = 0


class Finished(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True, tag_field="type"
):
    """The run has ended and none of its processes are left; `started_at_ms` 0 = it had none.

    `alone_of_job` is the job's id if, according to the trigger, this run is its whole tick: no
    other shards, no earlier attempts. Otherwise, and from older executors, 0.
    `result` is what its handler returned, as JSON; "" = nothing.
    `due_at_ms` is when the run was due according to the trigger; 0 = the trigger did not say.
    `may_retry` False: its handler said that a retry is useless. `retry_seconds`: its handler asked
    for this wait before the next attempt, instead of its job's.
    """

    run_id: Natural
    boot_id: str
    outcome: Outcome
    message: str = ""
    why: str = ""
    started_at_ms: Natural = 0
    finished_at_ms: Natural
    log_tail: str = ""
    result: str = ""
    alone_of_job: Natural = 0
    due_at_ms: Natural = 0
    may_retry: bool = True
    retry_seconds: RetrySeconds | None = None
    identity: Natural = 0


class NotStarted(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True, tag_field="type"
):
    """The run provably never started here and never will.

    `is_full`: there was no room, so sending it again at once is useless.
    """

    run_id: Natural
    boot_id: str
    reason: str
    why: str = ""
    is_full: bool = False
    identity: Natural = 0


class Called(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True, tag_field="type"
):
    """The run asks for a run of another job of its executor's app.

    `number` counts the run's calls from 1 on: if a retry of the run repeats a call with the same
    number, no second run is planned. `param` None = the job's own.
    """

    run_id: Natural
    boot_id: str
    number: Annotated[int, msgspec.Meta(ge=1, le=CALLS_LIMIT)]
    job: Annotated[str, msgspec.Meta(min_length=1, max_length=JOB_NAME_LIMIT)]
    param: str | None = None
    identity: Natural = 0


Report = Started | Finished | NotStarted | Called


class Callback(Message, frozen=True, kw_only=True):
    """Reports of one executor in the order of events; signed by `boot_id`.

    Each report names the boot its trigger was sent to, which may be an older one.
    """

    app: AppName
    address: Address
    boot_id: BootId
    reports: Annotated[tuple[Report, ...], msgspec.Meta(max_length=REPORTS_LIMIT)]


class Progressed(Message, frozen=True, kw_only=True):
    """The progress of this boot's runs for which it changed in the last second; it may get lost."""

    app: AppName
    address: Address
    boot_id: BootId
    runs: Annotated[dict[Natural, Progress], msgspec.Meta(max_length=PROGRESS_LIMIT)]


class OpenRunsQuery(Message, frozen=True, kw_only=True, tag="WhichOpen"):
    """Asks which waiting runs are still open, after a loss of contact.

    `identities` are theirs, in the same order; an executor of 0.1.0 gives none.
    """

    app: AppName
    address: Address
    boot_id: BootId
    run_ids: Annotated[tuple[Natural, ...], msgspec.Meta(max_length=OPEN_LIMIT)]
    identities: Annotated[tuple[Natural, ...], msgspec.Meta(max_length=OPEN_LIMIT)] = ()


class CallName(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a run: the caller with its trigger's `identity`, the call's number, and the job."""

    run_id: Natural
    identity: Natural
    number: Annotated[int, msgspec.Meta(ge=1, le=CALLS_LIMIT)]
    job: Annotated[str, msgspec.Meta(min_length=1, max_length=JOB_NAME_LIMIT)]


class CallEndQuery(Message, frozen=True, kw_only=True, tag="WhichEnded"):
    """Asks how a called run ended, for which its caller waits. It may get lost."""

    app: AppName
    address: Address
    boot_id: BootId
    call: CallName


# -- heartbeats ---------------------------------------------------------------------------


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """An executor's load: the host's CPU and memory in percent, and its own slots."""

    cpu_percent: Percent = 0
    memory_percent: Percent = 0
    slots: Count = 0
    running: Count = 0
    waiting: Count = 0


class HealthIssue(StrEnum):
    """A problem that keeps an executor from working, or soon will."""

    #: Its journal cannot be written: it starts nothing.
    JOURNAL = "JOURNAL"
    #: Its disk has less free space than the reserve: logs stop.
    DISK = "DISK"
    #: The broker has not confirmed its heartbeats: it starts nothing.
    CONTACT = "CONTACT"
    #: Too many of its reports are waiting for the broker: it starts nothing.
    REPORTS = "REPORTS"
    #: The processes that it forks in advance keep exiting: runs start without them.
    SPARES = "SPARES"

    @classmethod
    def named(cls, name: str) -> Self | None:
        """Return the problem with this name, in any case; None if this version does not know it."""
        return next((issue for issue in cls if issue.value == name.upper()), None)

    @property
    def why(self) -> Why:
        """The reason that describes it."""
        return _REASONS[self]

    @property
    def starts_nothing(self) -> bool:
        """Whether an executor with this problem starts no runs."""
        return self not in {HealthIssue.DISK, HealthIssue.SPARES}


_REASONS = {
    HealthIssue.JOURNAL: Why.JOURNAL_FAILING,
    HealthIssue.DISK: Why.DISK_NEARLY_FULL,
    HealthIssue.CONTACT: Why.OUT_OF_CONTACT,
    HealthIssue.REPORTS: Why.TOO_MANY_REPORTS,
    HealthIssue.SPARES: Why.SPARES_FAILING,
}


class Heartbeat(Message, frozen=True, kw_only=True):
    """An executor is alive; sent every 5 s, and at once after a change of draining or health.

    - `returns_seconds`: how long it may be silent and then continue its runs, as those of a gateway
      do; 0 = the usual time.
    - `triggers_per_message`: how many triggers it accepts in one message; an older executor accepts
      one.
    - `sent_at_ms`: by a clock of the boot that never jumps; the `Welcome` repeats it.
    - `catalogue`: the fingerprint of its catalogue; empty if it has none, so that it may run
      anything.
    - `last_run_id`: the highest run id that it knows of; None: it is of 0.1.0, and tells runs apart
      by their ids alone.
    - `repeated_id`: the highest id of a trigger that it knew as another run's; 0 = none.
    """

    app: AppName
    address: Address
    boot_id: BootId
    started_at_ms: Natural
    load: Load
    catalogue: Fingerprint = ""
    draining: bool = False
    health_issues: tuple[HealthIssue, ...] = msgspec.field(default=(), name="ailments")
    returns_seconds: Natural = 0
    triggers_per_message: Natural = 1
    sent_at_ms: Natural = 0
    last_run_id: Natural | None = None
    repeated_id: Natural = 0

    @property
    def each_health_issue(self) -> tuple[HealthIssue, ...]:
        """The health issues, each once, in the order of `HealthIssue`."""
        return tuple(issue for issue in HealthIssue if issue in self.health_issues)


class Goodbye(Message, frozen=True, kw_only=True):
    """A drained executor exits; no run of this boot is running or waiting."""

    app: AppName
    address: Address
    boot_id: BootId


class Canary(Message, frozen=True, kw_only=True):
    """A scheduler's message to itself, through its own heartbeat queue."""

    node: str
    number: Natural


#: The answers of a boot to questions.
Answer = BeatAnswer | IdleBeatAnswer | RunStateReply | LogChunk

ToScheduler = (
    Answer
    | Callback
    | Progressed
    | OpenRunsQuery
    | CallEndQuery
    | Heartbeat
    | Goodbye
    | CatalogueAnswer
    | Canary
)
