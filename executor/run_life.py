"""The life of a run in an executor: its states, what happens to it, and how its outcome is decided.

    taken ──> WAITING ──let go──> STARTING ──durable──> RUNNING ──ended──> GONE
               ^  │                   └──stop──> CALLED_OFF  │ └──stop──> STOPPING
               │  └────────reached by a process──────────^   │
               └──────────────not begun after all────────────┘

Every run goes through these. While it is RUNNING or STOPPING, it has a slot. In a slot of job
processes it goes through others:

    QUEUED ──process──> RUNNING ──answered, process is clean──────────> GONE
                        ^    ├──answered, process ends──> ANSWERED ──exited──^
    ASSIGNED_EARLY ─────┘    └──stop──> STOPPING ──exited────────────────────^

For each of these and each event, `ActiveRuns.LIFE` and `Slots.LIFE` have the next state and what
is done. What is not in a table cannot happen, and a run that has left its slot gets no more events.

All here is pure: no I/O, no clock.
"""

import signal
from dataclasses import dataclass
from enum import Enum, auto

from warren.broker.messages import Outcome
from warren.broker.reasons import Reason, Why, Words
from warren.broker.stored_reasons import from_json
from warren.executor.fork_server.frames import Result


class Phase(Enum):
    """The state of a run in the executor."""

    #: In its lane. It may be assigned early to a process.
    WAITING = auto()
    #: On its way into a slot: its start goes into the journal.
    STARTING = auto()
    #: The same, but it will not start.
    CALLED_OFF = auto()
    #: In a slot.
    RUNNING = auto()
    #: The same, and told to stop.
    STOPPING = auto()
    GONE = auto()

    @property
    def has_slot(self) -> bool:
        return self in {Phase.RUNNING, Phase.STOPPING}


class Event(Enum):
    """What happens to a run."""

    #: It is next in its lane, and a slot is free.
    LET_GO = auto()
    #: The same, and it was reserved: its start needs no sync.
    LET_GO_RESERVED = auto()
    #: Its start is in the journal.
    DURABLE = auto()
    #: The same, but no slot is free any more.
    SLOT_GONE = auto()
    #: The slots failed to take it.
    NOT_TAKEN = auto()
    #: Its process is running.
    STARTED = auto()
    #: Assigned early, and its process has come to it.
    REACHED = auto()
    #: So it was believed, but the process had not.
    NOT_BEGUN = auto()
    #: Assigned early, and its process will not come to it.
    HANDED_BACK = auto()
    #: A kill, a newer run that covers it, the end of the executor.
    STOP = auto()
    #: The schedulers have ended it.
    CLOSED = auto()
    #: Its slot has reported its end.
    ENDED = auto()


class SlotPhase(Enum):
    """The state of a run in a slot."""

    #: It waits for a process to exit, so that there is room for its own.
    QUEUED = auto()
    #: Assigned to a process behind other runs. It has no slot yet, and waits in its lane.
    ASSIGNED_EARLY = auto()
    #: Its process has it, as far as is known.
    RUNNING = auto()
    #: It has answered, and its process has to exit first.
    ANSWERED = auto()
    #: Told to stop; its process has to exit.
    STOPPING = auto()
    #: It gets no process, and ends in the next round of the loop.
    ENDING = auto()
    GONE = auto()


class SlotEvent(Enum):
    """What happens to a run in a slot."""

    #: A new process was asked for.
    GIVEN_NEW = auto()
    #: An idle process has got it.
    GIVEN_IDLE = auto()
    #: That process has got it too, to go on with.
    ASSIGNED_EARLY = auto()
    #: There is no room for a process.
    CROWDED = auto()
    #: It gets none.
    UNPLACED = auto()
    #: The new process exists.
    FORKED = auto()
    #: Its process has answered the run before it.
    REACHED = auto()
    #: Its process has not begun it and will not.
    NOT_BEGUN = auto()
    #: It has answered, and its process is clean and idle.
    ANSWERED = auto()
    #: It has answered, and its process has gone on with the next run.
    WENT_ON = auto()
    #: It has answered, and its process exits.
    ANSWERED_LAST = auto()
    #: It has answered although its process was told to exit.
    ANSWERED_LATE = auto()
    #: A kill, a timeout, the end of the executor, misuse of the channel.
    STOP = auto()
    #: Its process has exited.
    EXITED = auto()
    #: The same, before it had begun the run.
    EXITED_IDLE = auto()
    #: Its process could not be forked for lack of room.
    NO_ROOM = auto()
    #: It ends without a process.
    OVER = auto()


@dataclass(frozen=True, slots=True)
class Stop:
    """An ordered end and why: KILLED, TIMED_OUT, or FAILED for a run that is cut off.

    If it `yields_to_success`, a success from before the run was interrupted counts instead.
    """

    outcome: Outcome
    words: Words
    yields_to_success: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a job process ended.

    `code` is negative for a signal; `forced`: we sent SIGKILL; `oom`: the kernel killed some
    process for lack of memory meanwhile; `survivors` names what could not be killed; `left` names
    the first of `left_count` processes that it had left running, and that were ended; `failure`
    says why there was no process, or what else ended it.
    """

    code: int = 0
    forced: bool = False
    oom: bool = False
    survivors: str = ""
    left: str = ""
    left_count: int = 0
    failure: Words | None = None


def conclude(
    *,
    stop: Stop | None,
    result: Result | None,
    exit_: Exit | None,
    grace_seconds: float,
    is_script: bool = False,
    log_error: Words = "",
) -> tuple[Outcome, Words]:
    """Return a run's outcome and message.

    `exit_` is None for a process that gave a `result` and lives on. A script gives none: its exit
    code is the result. `log_error` says what the executor found wrong with the log.
    """
    if stop is not None and not _yields(stop, result):
        outcome, message = stop.outcome, _stopped(stop, result, exit_, grace_seconds)
    elif result is not None:
        outcome, message = result.outcome, from_json(result.why) or result.message
        message = _with_notes(message, _exit_notes(exit_))
    elif is_script and exit_ is not None and exit_.code >= 0 and exit_.failure is None:
        outcome, message = _exited(exit_.code)
    else:
        outcome, message = Outcome.FAILED, _unanswered(exit_ or Exit())
    left = _left_running(exit_) if stop is None else []
    notes = [*_log_notes(result, log_error), *left, *_survivors(exit_)]
    return outcome, _with_notes(message, notes)


def describe_signal(number: int) -> Reason:
    """Return for example `SIGSEGV (signal 11)`."""
    try:
        return Why.NAMED_SIGNAL(name=signal.Signals(number).name, number=number)
    except ValueError:
        return Why.SIGNAL(number=number)


def timed_out(timeout_seconds: float) -> Stop:
    """Return the stop of a run that took too long."""
    return Stop(Outcome.TIMED_OUT, Why.TIMED_OUT(seconds=f"{timeout_seconds:g}"))


def killed(words: Words) -> Stop:
    """Return the stop of a killed run."""
    return Stop(Outcome.KILLED, words or Why.KILLED())


def cut_off() -> Stop:
    """Return the stop of a run whose executor shuts down."""
    return Stop(Outcome.FAILED, Why.CUT_OFF(), yields_to_success=True)


def _yields(stop: Stop, result: Result | None) -> bool:
    if not stop.yields_to_success or result is None:
        return False
    has_ended_well = result.outcome in {Outcome.SUCCEEDED, Outcome.SKIPPED}
    return has_ended_well and not result.was_interrupted


def _stopped(stop: Stop, result: Result | None, exit_: Exit | None, grace_seconds: float) -> Words:
    if exit_ is None or not exit_.forced:
        return stop.words
    if result is not None:
        return Why.HUNG_AFTER_STOP(stop=stop.words)
    return Why.NEEDED_SIGKILL(stop=stop.words, seconds=f"{grace_seconds:g}")


def _exit_notes(exit_: Exit | None) -> list[Words]:
    if exit_ is None:
        return []
    if exit_.forced:
        return [Why.HUNG_AT_EXIT()]
    if exit_.failure is not None:
        return [exit_.failure]
    if exit_.code == 0:
        return []
    if exit_.code > 0:
        return [Why.EXIT_CODE_AT_EXIT(code=exit_.code)]
    return [Why.SIGNAL_AT_EXIT(signal=describe_signal(-exit_.code))]


def _log_notes(result: Result | None, words: Words) -> list[Words]:
    log_why = "" if result is None else from_json(result.log_why) or result.log_error
    note = log_why or words
    return [note] if note else []


def _survivors(exit_: Exit | None) -> list[Words]:
    if exit_ is None or not exit_.survivors:
        return []
    return [Why.SURVIVED(processes=exit_.survivors)]


def _left_running(exit_: Exit | None) -> list[Words]:
    """Return the processes that a run left behind, which ended with it."""
    if exit_ is None or exit_.forced or not exit_.left_count:
        return []
    if exit_.left_count == 1:
        return [Why.ENDED_ONE_LEFT(process=exit_.left)]
    return [Why.ENDED_LEFT(n=exit_.left_count, processes=exit_.left)]


def _exited(code: int) -> tuple[Outcome, Words]:
    return (Outcome.FAILED, Why.EXIT_CODE(code=code)) if code else (Outcome.SUCCEEDED, "")


def _unanswered(exit_: Exit) -> Words:
    if exit_.failure is not None:
        return exit_.failure
    if exit_.code >= 0:
        return Why.NO_RESULT(code=exit_.code)
    how = describe_signal(-exit_.code)
    if -exit_.code == signal.SIGKILL and exit_.oom:
        return Why.OUT_OF_MEMORY(signal=how)
    return how


def _with_notes(message: Words, notes: list[Words]) -> Words:
    if not notes:
        return message
    if not message:
        return Why.NOTES(notes=tuple(notes))
    return Why.NOTED(words=message, notes=tuple(notes))
