"""The frames between executor, zygote and job processes on one host: JSON, never pickle.

Executor and zygote exchange one frame per packet, executor and job process one frame per line.
"""

import os
from typing import Annotated

import msgspec

from warren.broker.messages import (
    CALLS_LIMIT,
    JOB_NAME_LIMIT,
    LOG_TAIL_BYTES,
    MESSAGE_LIMIT,
    PARAM_BYTES,
    RESULT_LIMIT,
    CallEnd,
    HandlerFacts,
    Outcome,
    Progress,
    RetrySeconds,
    Trigger,
)
from warren.broker.reasons import Words
from warren.broker.stored_reasons import REASON_LIMIT
from warren.executor.handlers.outcomes import clean, cut, headline

#: A reason as JSON; "" for none, and for other text.
_Why = Annotated[str, msgspec.Meta(max_length=REASON_LIMIT)]
#: Longest note, in characters: a reason's text, beside the reason itself.
NOTE_LIMIT = 2_000
_Note = Annotated[str, msgspec.Meta(max_length=NOTE_LIMIT)]


class Frame(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """Root of all frames."""


# -- executor -> zygote -----------------------------------------------------------------------


class Fork(Frame, frozen=True, kw_only=True):
    """Start job process `number` for a handler, or for a script if there is no handler.

    The job process's end of the channel is passed along, and the file of its begin note, if any.
    """

    number: int
    handler: str | None


class Signal(Frame, frozen=True, kw_only=True):
    """Send a signal to the group of job process `number`."""

    number: int
    signal: int


class KeepSpares(Frame, frozen=True, kw_only=True):
    """Keep this many processes forked in advance."""

    count: int


class Ping(Frame, frozen=True, kw_only=True):
    """Ask for a `Pong`."""


# -- zygote -> executor -----------------------------------------------------------------------


class Importing(Frame, frozen=True, kw_only=True):
    """The zygote begins to import handlers from this source."""

    source: str


class HandlersLoaded(Frame, frozen=True, kw_only=True):
    """Some of the handlers; more follow until `last`. `folder` is where the first one's file is.

    `native_threads` counts those that the imports have started and that Python does not know.
    """

    handlers: tuple[HandlerFacts, ...] = ()
    folder: str = ""
    last: bool = False
    native_threads: int = 0


class LoadFailed(Frame, frozen=True, kw_only=True):
    """The handlers cannot be loaded; the zygote exits."""

    line: str
    traceback: str


class Forked(Frame, frozen=True, kw_only=True):
    """Job process `number` exists; its pidfd is passed along."""

    number: int
    pid: int
    started_at_ms: int


class Exited(Frame, frozen=True, kw_only=True):
    """Job process `number` is gone, with everything it started.

    `code` is negative for a signal. `error` says why the process never started, `why` is that
    reason, `no_room` says that the host could not take another one; `survivors` names what could
    not be killed, `left` the first of the `left_count` processes that it had left running.
    `is_untaken`: it ended before it took its first order, so nothing of a run has begun.
    """

    number: int
    code: int = 0
    error: _Note = ""
    why: _Why = ""
    no_room: bool = False
    survivors: str = ""
    left: str = ""
    left_count: int = 0
    is_untaken: bool = False


class SparesFailing(Frame, frozen=True, kw_only=True):
    """Spares keep failing; the next one follows in `again_in` seconds."""

    why: _Note
    again_in: float


class Pong(Frame, frozen=True, kw_only=True):
    """The zygote is responsive."""


# -- executor -> job process ------------------------------------------------------------------


class Run(Frame, frozen=True, kw_only=True):
    """Run this, and exit afterwards if it is the `last`. A script has a `command`.

    Its log stops when fewer than `log_reserve` bytes of the disk are free. In a `batch`, which 0
    is not, each run is noted in the process's note before it begins. The first one says how many
    seconds later, `batch_seconds`, no other begins; nor does one once the batch is withdrawn.
    `shared`: the process serves other jobs too, unless this run changes its resource limits.
    """

    trigger: Trigger
    log_path: str
    last: bool
    log_reserve: int = 0
    command: tuple[str, ...] = ()
    batch: int = 0
    batch_seconds: float = 0.0
    shared: bool = False


class Kept(Frame, frozen=True, kw_only=True):
    """The call of this number that a run made is durable."""

    run_id: int
    number: int


class CallState(Frame, frozen=True, kw_only=True):
    """How the called run ended; None = it is open, or its end is not known yet."""

    run_id: int
    number: int
    end: CallEnd | None


class End(Frame, frozen=True, kw_only=True):
    """Exit."""


# -- job process -> executor ------------------------------------------------------------------


class Result(Frame, frozen=True, kw_only=True, omit_defaults=True):
    """How a run went. With `will_end` the process is exiting, and its exit ends the run.

    `was_interrupted`: SIGTERM arrived before the handler returned. `log_bytes` and `log_tail`
    describe the run's log, `log_error` says why something is missing from it. `why` and `log_why`
    are the reasons behind `message` and `log_error`; a handler's own message has none.
    `returned` is what the handler returned, as JSON. `may_retry` False: a failure is not retried;
    `retry_seconds`: it is after this wait instead of its job's.
    """

    run_id: int
    outcome: Outcome
    message: Annotated[str, msgspec.Meta(max_length=MESSAGE_LIMIT)]
    will_end: bool
    log_bytes: int
    log_tail: Annotated[str, msgspec.Meta(max_length=LOG_TAIL_BYTES)]
    log_error: _Note
    log_why: _Why = ""
    was_interrupted: bool = False
    why: _Why = ""
    returned: Annotated[str, msgspec.Meta(max_length=RESULT_LIMIT)] = ""
    may_retry: bool = True
    retry_seconds: RetrySeconds | None = None


class Told(Frame, frozen=True, kw_only=True):
    """How far a run is."""

    run_id: int
    progress: Progress


class Call(Frame, frozen=True, kw_only=True, omit_defaults=True):
    """A run asks for a run of another job, and waits for `Kept`; `param` None = the job's own."""

    run_id: int
    number: Annotated[int, msgspec.Meta(ge=1, le=CALLS_LIMIT)]
    job: Annotated[str, msgspec.Meta(min_length=1, max_length=JOB_NAME_LIMIT)]
    param: Annotated[str, msgspec.Meta(max_length=PARAM_BYTES)] | None = None


class Await(Frame, frozen=True, kw_only=True, omit_defaults=True):
    """A run waits for the run of its call, and for a `CallState`; `is_over`: it does not any more.

    While it waits, it holds no slot.
    """

    run_id: int
    number: Annotated[int, msgspec.Meta(ge=1, le=CALLS_LIMIT)]
    job: Annotated[str, msgspec.Meta(min_length=1, max_length=JOB_NAME_LIMIT)]
    is_over: bool = False


class Withheld(Frame, frozen=True, kw_only=True):
    """The runs of this batch that have not begun will not begin."""

    batch: int


ToZygote = Fork | Signal | KeepSpares | Ping
FromZygote = Importing | HandlersLoaded | LoadFailed | Forked | Exited | SparesFailing | Pong
ToJobProcess = Run | Kept | CallState | End
FromJobProcess = Result | Told | Call | Await | Withheld

#: Longest packet between executor and zygote, in bytes: the JSON Schema of a handler, quoted, and
#: the rest. Job results do not go this way.
PACKET_LIMIT = 160 * 1024
#: Longest answer, in bytes: its texts in characters that take six bytes each, and the rest.
ANSWER_LIMIT = (
    6 * (MESSAGE_LIMIT + LOG_TAIL_BYTES + NOTE_LIMIT + 2 * REASON_LIMIT + RESULT_LIMIT) + 1_000
)
#: How answers begin; anything else is invalid, however much of it is still to come.
_STARTS = (
    b'{"type":"Result","run_id":',
    b'{"type":"Told","run_id":',
    b'{"type":"Call","run_id":',
    b'{"type":"Await","run_id":',
    b'{"type":"Withheld","batch":',
)

encode = msgspec.json.Encoder().encode
decode_to_zygote = msgspec.json.Decoder(ToZygote).decode
decode_from_zygote = msgspec.json.Decoder(FromZygote).decode
decode_to_job_process = msgspec.json.Decoder(ToJobProcess).decode
_decode_answer = msgspec.json.Decoder(FromJobProcess).decode


def note_of(words: Words) -> str:
    """Return words as a frame can hold them; what is too long for it is cut."""
    return clean(str(words))[:NOTE_LIMIT]


class InvalidAnswer(Exception):
    """A job process sent something that is neither an answer nor the beginning of one."""


def take_answer(data: bytes, *, in_batch: bool = False) -> tuple[FromJobProcess | None, bytes]:
    """Decode the first answer, None while it is incomplete; return it with what comes after it.

    `in_batch`: several answers may come, one after the other.

    Raises:
        InvalidAnswer: it is something else. The user's code may write anything to the channel.

    """
    line, end, rest = data.partition(b"\n")
    if len(line) > ANSWER_LIMIT or not any(
        line.startswith(start[: len(line)]) for start in _STARTS
    ):
        raise InvalidAnswer
    if not end:
        return None, data
    try:
        answer: FromJobProcess = _decode_answer(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidAnswer from error
    if isinstance(answer, Result):
        if answer.will_end:
            return answer, b""  # once a process is exiting, what follows its result does not matter
        if rest and not in_batch:
            raise InvalidAnswer
    return answer, rest


def encode_line(frame: Frame) -> bytes:
    """Return the frame as a line; JSON contains no bare line feed."""
    return encode(frame) + b"\n"


def encode_answer(answer: FromJobProcess) -> bytes:
    """Return an answer as a line; a result that JSON cannot hold becomes a failure saying why."""
    try:
        return encode_line(answer)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        assert isinstance(answer, Result)
        return encode_line(_untold(answer, cut(f"its result cannot be sent: {headline(error)}")))


def write_answer(channel: int, answer: FromJobProcess) -> None:
    """Write an answer whole, however much the other end takes at a time."""
    data = encode_answer(answer)
    while data:
        data = data[os.write(channel, data) :]


def _untold(result: Result, message: str) -> Result:
    return Result(
        run_id=result.run_id,
        outcome=Outcome.FAILED,
        message=message,
        will_end=result.will_end,
        log_bytes=result.log_bytes,
        log_tail="",
        log_error="",
        was_interrupted=result.was_interrupted,
    )
