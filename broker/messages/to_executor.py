"""Messages to executors: triggers, and commands and questions to one boot."""

from typing import Annotated

import msgspec

from warren.broker.messages.values import (
    NORMAL,
    Block,
    BootId,
    CallEnd,
    Message,
    Natural,
    Seconds,
    run_identity,
)
from warren.broker.process_use import ProcessUse

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
    catalogue.
    """

    boot_id: str
    now_ms: Natural
    heartbeat_sent_at_ms: Natural = 0
    wants_catalogue: bool = False


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


class Drain(Message, frozen=True, kw_only=True):
    """Asks a boot to take no new runs, finish the running ones however long they take, and exit."""

    boot_id: BootId


#: The commands of schedulers to a boot.
Command = Welcome | NotWelcome | Refused | Kill | OpenRunsReply | CallEndReply | Drain
#: The questions of schedulers and consoles to a boot, sent through the exchange of questions.
Question = Beat | IdleBeat | RunStateQuery | ReadLog

ToExecutor = Trigger | Triggers | Command | Question
