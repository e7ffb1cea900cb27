"""What executor, zygote and job processes say to each other on one host: JSON, never pickle.

Executor and zygote exchange one frame per packet; executor and job process one frame per line.
"""

import msgspec

from broker.messages import Outcome, Trigger


class Frame(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """Root of all frames."""


# -- executor -> zygote -----------------------------------------------------------------------


class Fork(Frame, frozen=True, kw_only=True):
    """Start job process `number` for a handler; its end of the channel comes along.

    Without a handler it is for a script.
    """

    number: int
    handler: str | None


class Signal(Frame, frozen=True, kw_only=True):
    """Send a signal to the group of job process `number`."""

    number: int
    signal: int


class Ping(Frame, frozen=True, kw_only=True):
    """Answer with `Pong`: the zygote is at work."""


# -- zygote -> executor -----------------------------------------------------------------------


class Names(Frame, frozen=True, kw_only=True):
    """Some names of handlers; more may follow until `last`."""

    names: tuple[str, ...]
    last: bool


class Unloadable(Frame, frozen=True, kw_only=True):
    """The handlers cannot be loaded; the zygote ends."""

    line: str
    traceback: str


class Forked(Frame, frozen=True, kw_only=True):
    """Job process `number` lives; its pidfd comes along."""

    number: int
    pid: int
    started_at_ms: int


class Exited(Frame, frozen=True, kw_only=True):
    """Job process `number` is gone and nothing that it started is left.

    `code` is negative for a signal. `error` says why it never started; `survivors` names what
    could not be killed.
    """

    number: int
    code: int = 0
    error: str = ""
    survivors: str = ""


class Pong(Frame, frozen=True, kw_only=True):
    """The zygote is at work."""


# -- executor -> job process ------------------------------------------------------------------


class Run(Frame, frozen=True, kw_only=True):
    """Run this; with `last`, end afterwards. A script has a `command`."""

    trigger: Trigger
    log_path: str
    last: bool
    command: tuple[str, ...] = ()


class End(Frame, frozen=True, kw_only=True):
    """End."""


# -- job process -> executor ------------------------------------------------------------------


class Result(Frame, frozen=True, kw_only=True):
    """How a run went. With `will_end` the process is on its way out, and its exit is the run's end.

    `log_bytes` and `log_tail` tell what the run has written; `log_error` why its log lacks
    something.
    """

    run_id: int
    outcome: Outcome
    message: str
    will_end: bool
    log_bytes: int
    log_tail: str
    log_error: str


ToZygote = Fork | Signal | Ping
FromZygote = Names | Unloadable | Forked | Exited | Pong
ToProcess = Run | End

#: Longest packet between executor and zygote, in bytes; job results do not go this way.
PACKET_LIMIT = 128 * 1024

encode = msgspec.json.Encoder().encode
decode_to_zygote = msgspec.json.Decoder(ToZygote).decode
decode_from_zygote = msgspec.json.Decoder(FromZygote).decode
decode_to_process = msgspec.json.Decoder(ToProcess).decode
decode_result = msgspec.json.Decoder(Result).decode


def encode_line(frame: Frame) -> bytes:
    """Return the frame as a line; JSON holds no bare line feed."""
    return encode(frame) + b"\n"
