"""The frames between executor, zygote and job processes on one host: JSON, never pickle.

Executor and zygote exchange one frame per packet, executor and job process one frame per line.
"""

from typing import Annotated

import msgspec

from broker.messages import LOG_TAIL_BYTES, MESSAGE_LIMIT, Outcome, Trigger
from broker.reasons.reason import Words
from broker.reasons.stored import LIMIT as REASON_LIMIT
from executor.handlers.outcomes import clean

#: A reason as JSON; "" for none, and for words that are somebody's own.
_Why = Annotated[str, msgspec.Meta(max_length=REASON_LIMIT)]
#: Longest note, in characters: a reason's text, beside the reason itself.
NOTE_LIMIT = 2_000
_Note = Annotated[str, msgspec.Meta(max_length=NOTE_LIMIT)]


class Frame(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """Root of all frames."""


# -- executor -> zygote -----------------------------------------------------------------------


class Fork(Frame, frozen=True, kw_only=True):
    """Start job process `number` for a handler, or for a script if there is no handler.

    The job process's end of the channel is passed along.
    """

    number: int
    handler: str | None


class Signal(Frame, frozen=True, kw_only=True):
    """Send a signal to the group of job process `number`."""

    number: int
    signal: int


class Ping(Frame, frozen=True, kw_only=True):
    """Ask for a `Pong`."""


# -- zygote -> executor -----------------------------------------------------------------------


class HandlerNames(Frame, frozen=True, kw_only=True):
    """Some of the handlers' names; more follow until `last`."""

    names: tuple[str, ...]
    last: bool


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

    `code` is negative for a signal. `error` says why the process never started, `why` is the reason
    that it tells, `no_room` says that the host could not take another one; `survivors` names what
    could not be killed.
    """

    number: int
    code: int = 0
    error: _Note = ""
    why: _Why = ""
    no_room: bool = False
    survivors: str = ""


class Pong(Frame, frozen=True, kw_only=True):
    """The zygote is responsive."""


# -- executor -> job process ------------------------------------------------------------------


class Run(Frame, frozen=True, kw_only=True):
    """Run this, and exit afterwards if it is the `last`. A script has a `command`.

    Its log stops when fewer than `log_reserve` bytes of the disk are free.
    """

    trigger: Trigger
    log_path: str
    last: bool
    log_reserve: int = 0
    command: tuple[str, ...] = ()


class End(Frame, frozen=True, kw_only=True):
    """Exit."""


# -- job process -> executor ------------------------------------------------------------------


class Result(Frame, frozen=True, kw_only=True):
    """The result of a run. With `will_end` the process is exiting, and its exit ends the run.

    `was_interrupted`: SIGTERM arrived before the handler returned. `log_bytes` and `log_tail`
    describe the run's log, `log_error` says why something is missing from it. `why` and `log_why`
    are the reasons that `message` and `log_error` tell; a handler's own message has none.
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


ToZygote = Fork | Signal | Ping
FromZygote = HandlerNames | LoadFailed | Forked | Exited | Pong
ToJobProcess = Run | End

#: Longest packet between executor and zygote, in bytes; job results do not go this way.
PACKET_LIMIT = 128 * 1024
#: Longest result, in bytes: its texts in characters that take six bytes each, and the rest.
RESULT_LIMIT = 6 * (MESSAGE_LIMIT + LOG_TAIL_BYTES + NOTE_LIMIT + 2 * REASON_LIMIT) + 1_000
#: How every result begins; anything else is invalid, however much of it is still to come.
_RESULT_START = b'{"type":"Result","run_id":'

encode = msgspec.json.Encoder().encode
decode_to_zygote = msgspec.json.Decoder(ToZygote).decode
decode_from_zygote = msgspec.json.Decoder(FromZygote).decode
decode_to_job_process = msgspec.json.Decoder(ToJobProcess).decode
_decode_result = msgspec.json.Decoder(Result).decode


def note_of(words: Words) -> str:
    """Return words as a frame can hold them; what is too long for it is cut."""
    return clean(str(words))[:NOTE_LIMIT]


class InvalidResult(Exception):
    """A job process sent something that is neither a result nor the beginning of one."""


def take_result(data: bytes) -> Result | None:
    """Decode a result; return None while it is incomplete.

    Raises:
        InvalidResult: it is something else. The user's code may write anything to the channel.

    """
    if not data.startswith(_RESULT_START[: len(data)]) or len(data) > RESULT_LIMIT:
        raise InvalidResult
    line, end, rest = data.partition(b"\n")
    if not end:
        return None
    try:
        result = _decode_result(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidResult from error
    if rest and not result.will_end:
        raise InvalidResult  # once a process is exiting, what follows its result does not matter
    return result


def encode_line(frame: Frame) -> bytes:
    """Return the frame as a line; JSON contains no bare line feed."""
    return encode(frame) + b"\n"
