"""The messages between scheduler and executor: frozen values, nothing else.

Times are epoch milliseconds (`*_ms`) because these values are the wire format. Every message about
a run names the run's id and the boot of its executor. Heartbeats carry only the fingerprint of a
catalogue, so one travels once, however many boots share it.

Bounds on numbers and names are checked when a message is decoded, not when it is made.

A `why` is the reason behind an English text, as JSON (`warren.broker.reasons`); "" if there is only
the text. Receivers that do not know the reason show the text.
"""

import time
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Self
from zlib import crc32

import msgspec

from warren.broker.process_use import ProcessUse
from warren.broker.reasons import Why

#: The longest message of a run, in characters; `cut_message` cuts longer texts and says so.
MESSAGE_LIMIT = 50_000
#: The longest result of a run, in characters of JSON; a longer one is not kept.
RESULT_LIMIT = 50_000
#: The longest param of a run, in bytes of UTF-8.
PARAM_BYTES = 65_536
#: The most runs that one run may call.
CALLS_LIMIT = 1_000
#: The kind of a run that is a node of a flow.
NODE = "NODE"
#: The longest name of a job, in characters.
JOB_NAME_LIMIT = 255
#: The longest text beside a run's progress, in characters.
PROGRESS_TEXT_LIMIT = 200
#: How many bytes of the log's end are sent with the result.
LOG_TAIL_BYTES = 4_096
#: The largest number on the wire, which a double, and so every JSON parser, represents exactly.
NUMBER_LIMIT = 2**53 - 1
#: The classes of runs' priority, highest first; `warren.broker.turns` says whose turn it is.
HIGH, NORMAL, LOW = range(3)
APP_PATTERN = r"[a-z][a-z0-9-]{2,63}"
ADDRESS_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}"
BOOT_ID_PATTERN = r"[A-Za-z0-9_-]{1,40}"
Natural = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_LIMIT)]
#: A number of runs or slots at one executor, which has up to 1,000 slots.
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
#: A wait before a retry: up to the longest delay of a job.
RetrySeconds = Annotated[float, msgspec.Meta(ge=0, le=9_999_999)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=NUMBER_LIMIT)]
AppName = Annotated[str, msgspec.Meta(pattern=rf"\A{APP_PATTERN}\Z")]
Address = Annotated[str, msgspec.Meta(pattern=rf"\A{ADDRESS_PATTERN}\Z")]
BootId = Annotated[str, msgspec.Meta(pattern=rf"\A{BOOT_ID_PATTERN}\Z")]
#: The most handlers that a catalogue names, and the most characters that describe one.
HANDLER_LIMIT = 10_000
ABOUT_LIMIT = 200
#: The largest JSON Schema of a handler's params, in bytes.
SCHEMA_BYTES = 65_536
CODE_VERSION_LIMIT = 64
_Name = Annotated[str, msgspec.Meta(max_length=255)]
Fingerprint = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{32})?\Z")]
CodeVersion = Annotated[str, msgspec.Meta(max_length=CODE_VERSION_LIMIT)]


def cut_message(text: str) -> str:
    """Return the text, cut to MESSAGE_LIMIT characters including a mark that says so."""
    if len(text) <= MESSAGE_LIMIT:
        return text
    mark = f"\n… [cut, {len(text):,} characters]"
    return text[: MESSAGE_LIMIT - len(mark)] + mark


def result_value(result: str | None) -> Any:
    """Return the value of a run's result; None if it has none.

    A job process may send any text: one that is not JSON is returned as it is.
    """
    if not result:
        return None
    try:
        return msgspec.json.decode(result)
    except (msgspec.MsgspecError, RecursionError):
        return result


class Progress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a run is, according to its handler: `done` of `total`, None = unknown, and a text."""

    done: Annotated[float, msgspec.Meta(ge=0, le=NUMBER_LIMIT)]
    total: Annotated[float, msgspec.Meta(gt=0, le=NUMBER_LIMIT)] | None = None
    text: Annotated[str, msgspec.Meta(max_length=PROGRESS_TEXT_LIMIT)] = ""


class CallEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run that another one has called has ended; `result` is JSON.

    `run_id` 0: nothing runs, as the call was refused. `is_fine`: it succeeded or was skipped.
    """

    run_id: Natural = 0
    status: str = ""
    is_fine: bool = False
    message: Annotated[str, msgspec.Meta(max_length=MESSAGE_LIMIT)] = ""
    result: Annotated[str, msgspec.Meta(max_length=RESULT_LIMIT)] = ""


class Outcome(StrEnum):
    """How a run ended, as its executor saw it."""

    SUCCEEDED = "SUCCEEDED"
    #: Its handler said that it had nothing to do: neither a success nor a failure.
    SKIPPED = "SKIPPED"
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


def run_identity(
    job_id: int, scheduled_at_ms: int, due_at_ms: int, shard_index: int, starts: int
) -> int:
    """Return a number that tells a run from another one of the same id; never 0.

    The counter of ids may go back, in a failover or a restore. `starts` is how many earlier
    attempts of its shard may have started.
    """
    facts = f"{job_id} {scheduled_at_ms} {due_at_ms} {shard_index} {starts}"
    return crc32(facts.encode()) or 1


class Message(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True, tag_field="type"
):
    """Root of all messages; `type` on the wire is the tag: the class name unless it was renamed."""


def wire_type(kind: type[Message]) -> str:
    """Return the `type` of these messages on the wire."""
    return str(kind.__struct_config__.tag)


class HandlerFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A handler: its name, the first line of its docstring, its module, and the line there.

    `process`: which runs a process serves unless the job decides; None = the executor's default.
    `schema` is the JSON Schema of its params; "" = it has none, or the schema was too large.
    """

    name: _Name
    about: Annotated[str, msgspec.Meta(max_length=ABOUT_LIMIT)] = ""
    module: _Name = ""
    line: Natural = 0
    process: ProcessUse | None = None
    schema: Annotated[str, msgspec.Meta(max_length=SCHEMA_BYTES)] = ""


class Catalogue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an executor can run.

    `has_more`: some handlers did not fit in. `languages`: the script languages that are allowed and
    whose interpreters were found; `missing`: those allowed, but without an interpreter.
    """

    handlers: Annotated[tuple[HandlerFacts, ...], msgspec.Meta(max_length=HANDLER_LIMIT)] = ()
    has_more: bool = False
    languages: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=100)] = ()
    missing: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=100)] = ()
    code_version: CodeVersion = ""


class CatalogueAnswer(Message, frozen=True, kw_only=True):
    """Answers a `Welcome` that asks for it; all schedulers receive it.

    `contents` is the JSON of a `Catalogue`, whose fingerprint is that of these bytes.
    """

    app: AppName
    address: Address
    boot_id: BootId
    contents: msgspec.Raw


def boot_seconds() -> float:
    """Return the seconds since the host booted; they never jump, and also pass while it sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Boot(NamedTuple):
    """One start of the executor that has this address in its app."""

    app: str
    address: str
    boot_id: str


# -- run queue ----------------------------------------------------------------------------


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
    #: The date that it is about, as YYYY-MM-DD; empty: that of `scheduled_at_ms` in UTC.
    run_date: str = ""
    block: Block = Block.SERIAL_EXECUTION
    concurrency: Natural = 1
    timeout_seconds: Seconds = 0
    #: None = the handler's value, or else the executor's default.
    process: ProcessUse | None = None
    #: Whether its job is due only once, so that a process of this job's own is not kept.
    one_time: bool = False
    #: The ScriptLanguage of a script that runs instead of a handler; empty = the handler runs.
    script_language: str = ""
    script_source: str = ""
    #: Whether an earlier copy may have arrived; if so, finding this one unread proves nothing.
    resent: bool = False
    #: When the run was routed to this boot; a copy of an older decision proves nothing either.
    routed_at_ms: Natural = 0
    #: When the run was due; its report repeats this. 0 = not given.
    due_at_ms: Natural = 0
    #: The run's trace, in the format of W3C Trace Context; empty = none.
    traceparent: str = ""
    #: Whether its end has to give something back, so that more than its row changes.
    holds_limits: bool = False
    #: Its class of priority, see `warren.broker.turns`.
    priority: Natural = NORMAL
    #: The epoch of the database that planned it; 0 = the first, or not given.
    epoch: Natural = 0

    @property
    def identity(self) -> int:
        """A number that tells this run from another one of the same id."""
        return run_identity(
            self.job_id, self.scheduled_at_ms, self.due_at_ms, self.shard_index, self.attempt
        )


class Triggers(Message, frozen=True, kw_only=True):
    """Several triggers for one boot; sent only to boots that declared how many they accept.

    Each is decoded separately, see `warren.broker.codec`.
    """

    triggers: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(min_length=1, max_length=1_000)]


# -- command queue of a boot --------------------------------------------------------------


class Welcome(Message, frozen=True, kw_only=True):
    """Allows a boot to take triggers; `now_ms` is the database's clock.

    It answers the heartbeat sent at `heartbeat_sent_at_ms`, so that the boot knows how old the
    answer may be, whatever its own clock says. With `wants_catalogue` the boot sends its
    catalogue. `epoch` is the database's, 0 = the first; heartbeats repeat it with its proof, which
    only schedulers can make. `log_store` says where finished logs go; empty = nowhere.
    """

    boot_id: str
    now_ms: Natural
    heartbeat_sent_at_ms: Natural = 0
    wants_catalogue: bool = False
    epoch: Natural = 0
    epoch_proof: str = ""
    log_store: str = ""


class Refused(Message, frozen=True, kw_only=True):
    """Refuses a boot because another live one has its address."""

    boot_id: str
    reason: str


class NotWelcome(Message, frozen=True, kw_only=True):
    """Tells a boot why it gets no runs yet; it goes on asking. Executors of 0.1.0 get none."""

    boot_id: BootId
    reason: str


class Beat(Message, frozen=True, kw_only=True):
    """Asks whether the executor is alive. Answered with `BeatAnswer`."""

    question_id: str
    reply_to: str


class IdleBeat(Message, frozen=True, kw_only=True):
    """Asks whether these jobs could start at once. Answered with `IdleBeatAnswer`.

    `underway` lists, by job, the ids of runs that the asker has recently sent there and that may
    not have arrived yet.
    """

    question_id: str
    reply_to: str
    job_ids: tuple[Natural, ...]
    underway: dict[Natural, tuple[Natural, ...]] = msgspec.field(default_factory=dict)


class Kill(Message, frozen=True, kw_only=True):
    """Orders a run to be stopped; answered by the run's `Finished`.

    As in all messages about runs, `identity` tells it from another one of the same id, see
    `run_identity`; 0 = not given, as by 0.1.0.
    """

    run_id: Natural
    reason: str
    why: str = ""
    identity: Natural = 0


class RunKey(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies a run together with the boot its trigger was sent to."""

    run_id: Natural
    boot_id: str
    identity: Natural = 0


class RunStateQuery(Message, frozen=True, kw_only=True, tag="Know"):
    """Asks what the executor knows about these runs. Answered with `RunStateReply`."""

    question_id: str
    reply_to: str
    runs: tuple[RunKey, ...]


class ReadLog(Message, frozen=True, kw_only=True):
    """Asks for lines of a run's log from `from_line` (1-based). Answered with `LogChunk`.

    `at_end`: asks for the last `limit` lines instead. `find`: asks instead for the numbers of the
    lines from there on that contain these words.
    """

    question_id: str
    reply_to: str
    run_id: Natural
    scheduled_day: str
    from_line: Natural
    limit: Natural = 1_000
    at_end: bool = False
    find: str = ""
    identity: Natural = 0


class OpenRunsReply(Message, frozen=True, kw_only=True, tag="StillOpen"):
    """Answers `OpenRunsQuery`: of `asked`, only `open_ids` may still be started."""

    asked: tuple[Natural, ...]
    open_ids: tuple[Natural, ...]


class CallEndReply(Message, frozen=True, kw_only=True, tag="CallEnded"):
    """Answers `CallEndQuery`, if the called run has ended or there is none."""

    run_id: Natural
    number: Natural
    end: CallEnd


class LogPlace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where one log, or a part of it, is to be stored: under `key` in a folder, or at a `url`.

    `why` says why it is not to be stored at all.
    """

    run_id: Natural
    identity: Natural
    part: Natural = 0
    key: str = ""
    url: str = ""
    why: str = ""


class LogPlaces(Message, frozen=True, kw_only=True):
    """Answers `StoreLogs`. The URLs are valid for some minutes, and for these logs only."""

    places: tuple[LogPlace, ...]


class Drain(Message, frozen=True, kw_only=True):
    """Asks a boot to take no new runs, finish the running ones however long they take, and exit."""

    boot_id: BootId


#: The commands of schedulers to a boot.
Command = Welcome | NotWelcome | Refused | Kill | OpenRunsReply | CallEndReply | LogPlaces | Drain
#: The questions of schedulers and consoles to a boot, sent through the exchange of questions.
Question = Beat | IdleBeat | RunStateQuery | ReadLog

ToExecutor = Trigger | Triggers | Command | Question


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


#: The most logs that one message is about, and the most parts of a log.
LOGS_LIMIT = 200
LOG_PARTS_LIMIT = 100_000
#: The most characters that say why a log was not stored.
LOG_FAULT_LIMIT = 500


class LogToStore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A log to be stored: its run, and how many bytes will be sent.

    `part` 0 = the whole log of a run that has ended; others are parts of one that is running.
    """

    run_id: Natural
    identity: Natural
    packed: Natural
    part: Annotated[int, msgspec.Meta(ge=0, le=LOG_PARTS_LIMIT)] = 0


class StoreLogs(Message, frozen=True, kw_only=True):
    """Asks where to store logs. Answered with `LogPlaces`; it may get lost."""

    app: AppName
    address: Address
    boot_id: BootId
    logs: Annotated[tuple[LogToStore, ...], msgspec.Meta(max_length=LOGS_LIMIT)]


class LogEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a log, or a part of it: stored, or dropped for a reason.

    `size` is that of the log, `packed` that of what was sent.
    """

    run_id: Natural
    identity: Natural
    part: Annotated[int, msgspec.Meta(ge=0, le=LOG_PARTS_LIMIT)] = 0
    size: Natural = 0
    packed: Natural = 0
    dropped: Annotated[str, msgspec.Meta(max_length=LOG_FAULT_LIMIT)] = ""


class LogsStored(Message, frozen=True, kw_only=True):
    """Says what became of logs; sent again until the broker confirms it."""

    app: AppName
    address: Address
    boot_id: BootId
    logs: Annotated[tuple[LogEnd, ...], msgspec.Meta(max_length=LOGS_LIMIT)]


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
    #: Its gateway's list of allowed addresses lacks it: it gets nothing.
    ADDRESS = "ADDRESS"
    #: A queue of it cannot be reached, so it gets no runs. Schedulers find it, not the executor.
    QUEUE = "QUEUE"
    #: Finished logs do not get into the store.
    LOG_STORE = "LOG_STORE"

    @classmethod
    def named(cls, name: str) -> Self | None:
        """Return the problem with this name, in any case; None if this version does not know it."""
        return next((issue for issue in cls if issue.value == name.upper()), None)

    @property
    def hinders_runs(self) -> bool:
        """Whether routes pass over an executor with this problem."""
        return self is not HealthIssue.LOG_STORE

    @property
    def why(self) -> Why:
        """The reason that describes it."""
        return _REASONS[self]

    @property
    def starts_nothing(self) -> bool:
        """Whether an executor with this problem starts no runs."""
        return self not in {HealthIssue.DISK, HealthIssue.SPARES, HealthIssue.LOG_STORE}


_REASONS = {
    HealthIssue.JOURNAL: Why.JOURNAL_FAILING,
    HealthIssue.DISK: Why.DISK_NEARLY_FULL,
    HealthIssue.CONTACT: Why.OUT_OF_CONTACT,
    HealthIssue.REPORTS: Why.TOO_MANY_REPORTS,
    HealthIssue.SPARES: Why.SPARES_FAILING,
    HealthIssue.ADDRESS: Why.ADDRESS_NOT_ALLOWED,
    HealthIssue.QUEUE: Why.QUEUE_UNREACHABLE,
    HealthIssue.LOG_STORE: Why.LOGS_NOT_STORED,
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
    - `is_refused`: its gateway does not serve it, as its address is not allowed there. It is no
      value of `health_issues`, as 0.1.0 would reject the message.
    - `epoch`, `epoch_proof`: the newest that a `Welcome` told it.
    - `unstored_logs`: how many finished logs wait to be stored; `log_fault`: why they do not get
      into the store. As `is_refused`, that is no value of `health_issues`.
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
    is_refused: bool = False
    epoch: Natural = 0
    epoch_proof: Annotated[str, msgspec.Meta(max_length=64)] = ""
    unstored_logs: Natural = 0
    log_fault: Annotated[str, msgspec.Meta(max_length=LOG_FAULT_LIMIT)] = ""

    @property
    def each_health_issue(self) -> tuple[HealthIssue, ...]:
        """The health issues, each once, in the order of `HealthIssue`."""
        found = {
            *self.health_issues,
            *((HealthIssue.ADDRESS,) if self.is_refused else ()),
            *((HealthIssue.LOG_STORE,) if self.log_fault else ()),
        }
        return tuple(issue for issue in HealthIssue if issue in found)


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
    | StoreLogs
    | LogsStored
    | Heartbeat
    | Goodbye
    | CatalogueAnswer
    | Canary
)
