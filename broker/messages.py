"""The messages between scheduler and executor: frozen values, nothing else.

Times are epoch milliseconds (`*_ms`) because these values are the wire format. Every message about
a run names the run's id and the boot of its executor.

Bounds on numbers and names are checked when a message is decoded, not when it is made.

A `why` is the reason for a text in English, as JSON (`broker.reasons`); "" if the text is
somebody's own words. The text is for receivers that do not know the reason.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

#: Characters of a run's message at most; longer texts are cut with a mark.
MESSAGE_LIMIT = 50_000
#: Bytes of the log's end that are sent with the result.
LOG_TAIL_BYTES = 4_096
#: Largest number on the wire: what a double, and so every JSON parser, represents exactly.
NUMBER_LIMIT = 2**53 - 1

APP_PATTERN = r"[a-z][a-z0-9-]{2,63}"
ADDRESS_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}"
BOOT_ID_PATTERN = r"[A-Za-z0-9_-]{1,40}"

Natural = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_LIMIT)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=NUMBER_LIMIT)]
AppName = Annotated[str, msgspec.Meta(pattern=rf"\A{APP_PATTERN}\Z")]
Address = Annotated[str, msgspec.Meta(pattern=rf"\A{ADDRESS_PATTERN}\Z")]
BootId = Annotated[str, msgspec.Meta(pattern=rf"\A{BOOT_ID_PATTERN}\Z")]


class Outcome(StrEnum):
    """How a run ended, as its executor saw it."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    KILLED = "KILLED"
    REFUSED = "REFUSED"
    LOST = "LOST"


class Block(StrEnum):
    """What an executor does with a run whose job is already running or waiting there."""

    SERIAL_EXECUTION = "SERIAL_EXECUTION"
    DISCARD_LATER = "DISCARD_LATER"
    COVER_EARLY = "COVER_EARLY"


class ScriptLanguage(StrEnum):
    """The language of a job's script."""

    SHELL = "shell"
    PYTHON = "python"
    NODEJS = "nodejs"
    PHP = "php"
    POWERSHELL = "powershell"
    GROOVY = "groovy"


class Message(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True, tag_field="type"
):
    """Root of all messages; `type` on the wire is the class's name."""


# -- scheduler -> executor, run queue ---------------------------------------------------------


class Trigger(Message, frozen=True, kw_only=True):
    """Asks one boot of one executor to start one run."""

    run_id: Natural
    job_id: Natural
    boot_id: str
    kind: str
    handler: str
    param: str = ""
    attempt: Natural = 0
    shard_index: Natural = 0
    shard_total: Natural = 1
    scheduled_at_ms: Natural
    block: Block = Block.SERIAL_EXECUTION
    concurrency: Natural = 1
    timeout_seconds: Seconds = 0
    #: None: the executor's default.
    fresh_process: bool | None = None
    #: A ScriptLanguage, instead of a handler; empty: the handler runs.
    script_language: str = ""
    script_source: str = ""
    #: Whether an earlier copy may have arrived: then finding this one unread proves nothing.
    resent: bool = False
    #: When the run was routed to this boot; a copy of an older decision proves nothing either.
    routed_at_ms: Natural = 0
    #: The run's trace, as in W3C Trace Context; empty: none.
    traceparent: str = ""


class Triggers(Message, frozen=True, kw_only=True):
    """Several triggers for one boot; only for boots that declared how many they accept.

    Each is decoded separately, see `broker.trigger_packs`.
    """

    triggers: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(min_length=1, max_length=1_000)]


# -- scheduler -> executor, command queue of a boot -------------------------------------------


class Welcome(Message, frozen=True, kw_only=True):
    """Allows a boot to take triggers; `now_ms` is the database's clock.

    It answers the heartbeat sent at `heartbeat_sent_at_ms`, so that the boot knows how old the
    answer may be, whatever its own clock says.
    """

    boot_id: str
    now_ms: Natural
    heartbeat_sent_at_ms: Natural = 0


class Refused(Message, frozen=True, kw_only=True):
    """Tells a boot that another live one holds its address."""

    boot_id: str
    reason: str


class Beat(Message, frozen=True, kw_only=True):
    """Asks whether the executor is alive. Answered with `BeatAnswer`."""

    question_id: str
    reply_to: str


class IdleBeat(Message, frozen=True, kw_only=True):
    """Asks whether these jobs could start at once. Answered with `IdleBeatAnswer`.

    `underway` counts, by job, the runs that the asker has recently sent there and that may not have
    arrived yet.
    """

    question_id: str
    reply_to: str
    job_ids: tuple[Natural, ...]
    underway: dict[Natural, tuple[Natural, ...]] = {}


class Kill(Message, frozen=True, kw_only=True):
    """Orders a run to be stopped; answered by the run's `Finished`."""

    run_id: Natural
    reason: str
    why: str = ""


class RunKey(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies a run together with the boot its trigger was sent to."""

    run_id: Natural
    boot_id: str


class Know(Message, frozen=True, kw_only=True):
    """Asks what is known about these runs. Answered with `KnowAnswer`."""

    question_id: str
    reply_to: str
    runs: tuple[RunKey, ...]


class ReadLog(Message, frozen=True, kw_only=True):
    """Asks for lines of a run's log from `from_line` (1-based). Answered with `LogChunk`.

    `at_end`: the last `limit` lines instead. `find`: the numbers of lines from there on that
    contain these words instead.
    """

    question_id: str
    reply_to: str
    run_id: Natural
    scheduled_day: str
    from_line: Natural
    limit: Natural = 1_000
    at_end: bool = False
    find: str = ""


class StillOpen(Message, frozen=True, kw_only=True):
    """Answers `WhichOpen`: of `asked`, only `open_ids` may still be started."""

    asked: tuple[Natural, ...]
    open_ids: tuple[Natural, ...]


# -- executor -> scheduler, answers -----------------------------------------------------------


class BeatAnswer(Message, frozen=True, kw_only=True):
    """The executor is alive."""

    question_id: str
    address: Address
    boot_id: BootId


class IdleBeatAnswer(Message, frozen=True, kw_only=True):
    """Why each busy job could not start at once, and whether the whole executor is busy.

    `may_start` False = it starts nothing now, even with free slots. `waiting` counts all runs.
    `whys` are the reasons for the texts in the other fields.
    """

    question_id: str
    address: Address
    boot_id: BootId
    busy_jobs: dict[Natural, str] = {}
    busy_executor: str = ""
    may_start: bool = True
    free_slots: Natural = 0
    waiting: Natural = 0
    whys: tuple[str, ...] = ()


class Knowledge(StrEnum):
    """What an executor knows about a run."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    NEVER_STARTED = "NEVER_STARTED"
    UNKNOWN = "UNKNOWN"


class KnowAnswer(Message, frozen=True, kw_only=True):
    """What is known about each run; results of finished ones are also reported again.

    `remembers_since_ms`: runs triggered before that may have been forgotten, so NEVER_STARTED and
    UNKNOWN prove nothing about them.
    """

    question_id: str
    address: Address
    boot_id: BootId
    remembers_since_ms: Natural
    runs: dict[Natural, Knowledge]


class LogChunk(Message, frozen=True, kw_only=True):
    """Lines `from_line`..`to_line` of a run's log; `to_line` < `from_line` if there are none.

    `times` are pairs of a line number and the epoch milliseconds from that line on, 0 = unknown.
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
    found: tuple[Natural, ...] | None = None


# -- executor -> scheduler, callbacks ---------------------------------------------------------


class Started(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """The run's process has started; not sent for runs shorter than about half a second."""

    run_id: Natural
    boot_id: str
    started_at_ms: Natural


class Finished(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True, tag_field="type"
):
    """The run is over and none of its processes are left; `started_at_ms` 0 = it had none.

    `alone_of_job` is the job's id if, according to the trigger, this run is its whole tick: no
    other shards, no earlier attempts. Otherwise, and from older executors, 0.
    """

    run_id: Natural
    boot_id: str
    outcome: Outcome
    message: str = ""
    why: str = ""
    started_at_ms: Natural = 0
    finished_at_ms: Natural
    log_tail: str = ""
    alone_of_job: Natural = 0


class NotStarted(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True, tag_field="type"
):
    """The run provably never started here and never will.

    `is_full`: there is no room, so sending it again at once is useless.
    """

    run_id: Natural
    boot_id: str
    reason: str
    why: str = ""
    is_full: bool = False


Report = Started | Finished | NotStarted


class Callback(Message, frozen=True, kw_only=True):
    """Reports of one executor in the order of events; signed by `boot_id`.

    Each report names the boot its trigger was sent to, which may be an older one.
    """

    app: AppName
    address: Address
    boot_id: BootId
    reports: tuple[Report, ...]


class WhichOpen(Message, frozen=True, kw_only=True):
    """Asks which waiting runs are still open, after a loss of contact."""

    app: AppName
    address: Address
    boot_id: BootId
    run_ids: tuple[Natural, ...]


# -- executor -> scheduler, heartbeats --------------------------------------------------------


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """An executor's load: the host's CPU and memory in percent, and its own slots."""

    cpu_percent: float = 0
    memory_percent: float = 0
    slots: Natural = 0
    running: Natural = 0
    waiting: Natural = 0


class Ailment(StrEnum):
    """A problem that keeps an executor from working, or soon will."""

    #: Its journal cannot be written: it starts nothing.
    JOURNAL = "JOURNAL"
    #: Its disk has less free space than the reserve: logs stop.
    DISK = "DISK"
    #: The broker has not confirmed its heartbeats: it starts nothing.
    CONTACT = "CONTACT"
    #: Too many of its reports are waiting for the broker: it starts nothing.
    REPORTS = "REPORTS"


class Heartbeat(Message, frozen=True, kw_only=True):
    """An executor is alive; sent every 5 s, and at once after a change of `draining` or `ailments`.

    `returns_seconds`: how long it may be silent and then continue its runs, as those of a gateway
    do; 0 = the usual time. `triggers_per_message`: how many triggers it accepts in one message; an
    older executor accepts one. `sent_at_ms`: by a clock of the boot that never jumps; the `Welcome`
    repeats it.
    """

    app: AppName
    address: Address
    boot_id: BootId
    started_at_ms: Natural
    load: Load
    handlers: tuple[str, ...] = ()
    draining: bool = False
    ailments: tuple[Ailment, ...] = ()
    returns_seconds: Natural = 0
    triggers_per_message: Natural = 1
    sent_at_ms: Natural = 0


class Drain(Message, frozen=True, kw_only=True):
    """Asks a boot to take no new runs, finish the running ones however long they take, and exit."""

    boot_id: BootId


class Goodbye(Message, frozen=True, kw_only=True):
    """A drained executor exits; no run of this boot is running or waiting."""

    app: AppName
    address: Address
    boot_id: BootId


class Canary(Message, frozen=True, kw_only=True):
    """A scheduler's message to itself, through its own heartbeat queue."""

    node: str
    number: Natural


ToExecutor = (
    Trigger
    | Triggers
    | Welcome
    | Refused
    | Beat
    | IdleBeat
    | Kill
    | Know
    | ReadLog
    | StillOpen
    | Drain
)
ToScheduler = (
    BeatAnswer
    | IdleBeatAnswer
    | KnowAnswer
    | LogChunk
    | Callback
    | WhichOpen
    | Heartbeat
    | Goodbye
    | Canary
)
