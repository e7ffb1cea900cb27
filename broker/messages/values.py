"""The parts of messages: bounds, names, catalogues, and the values that both sides know.

Heartbeats carry only the fingerprint of a catalogue, so one travels once, however many
boots share it.
"""

import time
from enum import StrEnum
from typing import Annotated, Any, NamedTuple
from zlib import crc32

import msgspec

from warren.broker.process_use import ProcessUse

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
