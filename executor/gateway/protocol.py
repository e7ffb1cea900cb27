"""The protocol between executors of XXL-JOB and the gateway: JSON over HTTP. Pure: no I/O.

It covers versions 2.2 to 3.5. Where they use different names, both are read and sent. Its errors:

ExecutorError
├── BadRequest         a request is malformed or not allowed
├── NotRecorded        a result is not in the journal, so the executor must repeat it
└── CallFailed         a remote executor did not answer a call
    ├── NotSent        and it certainly did not arrive
    └── Disconnected   the connection was closed before an answer came
"""

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from warren.broker.messages import APP_PATTERN, NUMBER_LIMIT, ScriptLanguage, Trigger
from warren.executor.errors import ExecutorError


class BadRequest(ExecutorError):
    """A request is malformed or not allowed."""


class NotRecorded(ExecutorError):
    """A result is not in the journal, so the executor must repeat it."""


class CallFailed(ExecutorError):
    """A remote executor did not answer a call, which may have arrived."""


class NotSent(CallFailed):
    """A call certainly did not reach the remote executor."""


class Disconnected(CallFailed):
    """The connection was closed before an answer came, so the call may have arrived."""


OK, FAILED, TIMED_OUT = 200, 500, 502
#: The largest number that a Java int holds.
_INT_LIMIT = 2**31 - 1
_SHOWN_CHARACTERS = 200
#: The most results in one callback.
RESULTS_LIMIT = 10_000
#: What invalid JSON raises, including JSON nested too deep.
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
_LOG_CONTENT = re.compile(rb'"logContent"\s*:\s*"')
#: The longest escape, of two halves of a character, and one more.
_ESCAPE_BYTES = 13
_GLUE = {language: f"GLUE_{language.upper()}" for language in ScriptLanguage}


class Registration(msgspec.Struct, frozen=True, rename="camel"):
    """A message that an executor of an app is up, or is leaving."""

    registry_group: str
    registry_key: str
    registry_value: str

    @property
    def app(self) -> str:
        """The app's name in Warren: lower case, with a hyphen for every other character.

        Raises:
            BadRequest: it is not a valid app name.

        """
        app = re.sub(r"[^a-z0-9-]", "-", self.registry_key.strip().lower())
        if re.fullmatch(APP_PATTERN, app) is None:
            raise BadRequest(f"expected registryKey to be an app's name, got: {_shown(app)}")
        return app


class _ExecuteResult(msgspec.Struct, frozen=True):
    code: int
    msg: Any = None


class _CallbackItem(msgspec.Struct, frozen=True, rename="camel"):
    log_id: Annotated[int, msgspec.Meta(ge=0, le=NUMBER_LIMIT)]
    handle_code: int = 0
    handle_msg: Any = None
    execute_result: _ExecuteResult | None = None


class _CallbackList(msgspec.Struct, frozen=True, rename="camel"):
    callback_list: list[_CallbackItem]


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """How a run ended, according to its executor."""

    run_id: int
    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What an executor answered to a call."""

    code: int
    text: str = ""
    content: Any = None

    @property
    def is_ok(self) -> bool:
        """Whether it accepted the call."""
        return self.code == OK


def read_registration(body: bytes) -> Registration:
    """Parse a request to register or to sign off.

    Raises:
        BadRequest: it is malformed.

    """
    registration: Registration = _decode(body, Registration)
    if registration.registry_group != "EXECUTOR":
        raise BadRequest(
            f"expected registryGroup EXECUTOR, got: {_shown(registration.registry_group)}"
        )
    return registration


def read_results(body: bytes) -> list[RemoteResult]:
    """Return the results of a callback.

    Raises:
        BadRequest: it is malformed.

    """
    results = _decode(body, list[_CallbackItem] | _CallbackList)
    items: Sequence[_CallbackItem] = results if isinstance(results, list) else results.callback_list
    if len(items) > RESULTS_LIMIT:
        raise BadRequest(f"expected up to {RESULTS_LIMIT:,} results, got: {len(items):,}")
    try:
        return [_result_of(item) for item in items]
    except _UNREADABLE as error:
        raise BadRequest(f"cannot read the request: {error}") from error


def reply(problem: str = "", content: Any = None) -> bytes:
    """Return the gateway's reply; with a `problem` it is a refusal."""
    code = FAILED if problem else OK
    return msgspec.json.encode(
        {"code": code, "msg": problem or None, "content": content, "data": content}
    )


def registration_of(app: str, url: str) -> bytes:
    """Return the call that registers an executor, or signs it off."""
    return msgspec.json.encode(
        {"registryGroup": "EXECUTOR", "registryKey": app, "registryValue": url}
    )


def callback_of(results: Sequence[RemoteResult]) -> bytes:
    return msgspec.json.encode(
        [
            {"logId": result.run_id, "handleCode": result.code, "handleMsg": result.text or None}
            for result in results
        ]
    )


def read_answer(body: bytes) -> Answer:
    """Parse an executor's answer, whatever its content type.

    Raises:
        CallFailed: it is malformed.

    """
    try:
        answer = msgspec.json.decode(body)
        if isinstance(answer, list):
            return _refusal(body)
        if isinstance(answer, dict) and type(answer.get("code")) is int:
            content = answer.get("content")
            return Answer(
                answer["code"],
                as_text(answer.get("msg")),
                answer.get("data") if content is None else content,
            )
    except _UNREADABLE:
        pass
    raise CallFailed(f"it answered {_shown(body.decode(errors='replace'))}")


def read_cut_log(body: bytes) -> Answer:
    """Return the lines at the beginning of an answer that was too large to be read to its end.

    Its content has `isCut`. The last line is left out, as it may be incomplete, unless it is the
    only one.

    Raises:
        CallFailed: there are none.

    """
    match = _LOG_CONTENT.search(body)
    if match is None:
        raise CallFailed("its answer is too large, and no log")
    text = body[match.end() :]
    end = _end_of_lines(text)
    for cut in range(1 if end else _ESCAPE_BYTES):  # an escape may be cut in two
        try:
            content = msgspec.json.decode(b'"' + (text[:end] or text[: len(text) - cut]) + b'"')
            break
        except _UNREADABLE:
            continue
    else:
        raise CallFailed("its answer is too large, and no log")
    return Answer(OK, content={"logContent": content, "isCut": True})


def _end_of_lines(text: bytes) -> int:
    """Return where the last line ends, after the escape for it; 0 if none does."""
    end = text.rfind(b"\\n")
    # A backslash before it, unless it is escaped itself, makes it a backslash and an n.
    while end >= 0 and (len(text[:end]) - len(text[:end].rstrip(b"\\"))) % 2:
        end = text.rfind(b"\\n", 0, end)
    return end + 2 if end >= 0 else 0


def order_of(trigger: Trigger) -> dict[str, Any]:
    """Return the call that starts a run."""
    shard_total = max(1, trigger.shard_total)
    script = trigger.script_source.encode() if trigger.script_language else b""
    return {
        "jobId": trigger.job_id,
        "executorHandler": trigger.handler,
        "executorParams": trigger.param,
        # One run of a job is sent at a time; this covers the moment in which its thread ends.
        "executorBlockStrategy": "SERIAL_EXECUTION",
        "executorTimeout": min(math.ceil(trigger.timeout_seconds), _INT_LIMIT),
        "logId": trigger.run_id,
        **_times_of(trigger),
        "glueType": _glue_type(trigger.script_language),
        "glueSource": trigger.script_source,
        # Executors cache a job's script while this stays the same.
        "glueUpdatetime": int.from_bytes(hashlib.sha256(script).digest()[:6]) if script else 0,
        "broadcastIndex": trigger.shard_index,
        "broadcastTotal": shard_total,
    }


def log_request_of(trigger: Trigger, from_line: int) -> dict[str, Any]:
    """Return the call for lines of a run's log."""
    return {"logId": trigger.run_id, "fromLineNum": from_line, **_times_of(trigger)}


def as_text(value: Any) -> str:
    """Return a message, which may be any JSON, as text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _times_of(trigger: Trigger) -> dict[str, int]:
    # Java's executor finds the log's folder by it, so it must not change during a run.
    sent_at_ms = trigger.routed_at_ms or trigger.scheduled_at_ms
    return {"logDateTime": sent_at_ms, "logDateTim": sent_at_ms}


def _glue_type(language: str) -> str:
    return _GLUE[ScriptLanguage(language)] if language else "BEAN"


def _refusal(body: bytes) -> Answer:
    """Parse an answer that is a callback: that is how the Go executor refuses a run."""
    [item] = msgspec.json.decode(
        body, type=Annotated[list[_CallbackItem], msgspec.Meta(min_length=1, max_length=1)]
    )
    result = _result_of(item)
    return Answer(result.code, result.text)


def _result_of(item: _CallbackItem) -> RemoteResult:
    result = item.execute_result
    if item.handle_code or result is None:
        return RemoteResult(item.log_id, item.handle_code, as_text(item.handle_msg))
    return RemoteResult(item.log_id, result.code, as_text(result.msg))


def _decode(body: bytes, kind: Any) -> Any:
    try:
        return _decode_loosely(body, kind)
    except (*_UNREADABLE, ValueError) as error:
        raise BadRequest(f"cannot read the request: {error}") from error


def _decode_loosely(body: bytes, kind: Any) -> Any:
    """Parse JSON, and Python's extensions of it: NaN, and lone surrogates.

    A message may contain either, and refusing it would turn a success into a failure.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        decoded = json.loads(body, parse_constant=str)
        sound = json.dumps(decoded, ensure_ascii=False).encode(errors="replace")
        return msgspec.json.decode(sound, type=kind)


def _shown(text: str) -> str:
    return repr(text[:_SHOWN_CHARACTERS])
