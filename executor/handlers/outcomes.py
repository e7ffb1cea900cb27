"""Turns what a handler returned or raised into its run's outcome, message, result and log lines."""

import numbers
import traceback
from collections.abc import AsyncGenerator, Coroutine, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from warren.broker.messages import MESSAGE_LIMIT, RESULT_LIMIT, Outcome, cut_message
from warren.broker.reasons import Why, Words
from warren.executor.handlers.context import JobFailed, JobSkipped, JobStopped, RetryLater
from warren.executor.handlers.declarations import Retry

#: The modules and functions of a job process that call users' code.
_OUR_FILES = frozenset(
    str(Path(__file__).parents[1] / "fork_server" / f"{name}.py")
    for name in ("job_main", "coroutines")
)
_OUR_CALLERS = frozenset(
    {"_attempt", "_attempt_in_hooks", "_call", "_complete", "run", "_as_task", "_guard"}
)


@dataclass(frozen=True, slots=True)
class HandlerOutcome:
    """The outcome and message of a handler's run, and the text for its log.

    `error` is what it raised; `result` is what it returned, as JSON. `may_retry` False: the run is
    not retried. `retry_seconds`: the wait before a retry, instead of the job's.
    """

    outcome: Outcome
    message: Words
    log: str = ""
    result: str = ""
    may_retry: bool = True
    retry_seconds: float | None = None
    error: BaseException | None = None


class NoText(Exception):
    """A handler returned an object whose `str()` fails."""


def text_of(value: object) -> str:
    """Return the run's message for what a handler returned; it is empty for None.

    Raises:
        NoText: the value cannot be turned into text.

    """
    if value is None:
        return ""
    try:
        return cut(str(value))
    except Exception as error:
        raise NoText(f"the returned {type(value).__name__} has no text") from error


def describe(error: BaseException, retry: Retry | None = None) -> HandlerOutcome:
    """Return the outcome of a handler that raised this exception, which `retry` may make final."""
    ending = _describe(error)
    says_itself = isinstance(error, JobFailed | JobSkipped | JobStopped | RetryLater)
    may_retry = ending.may_retry and (says_itself or retry is None or retry.allows(error))
    return replace(ending, error=error, may_retry=may_retry)


def _describe(error: BaseException) -> HandlerOutcome:
    if isinstance(error, JobFailed | RetryLater):
        words = _safe_text(error)
        return HandlerOutcome(
            Outcome.FAILED,
            cut(words) if words.strip() else Why.NO_REASON(),
            words,
            may_retry=not isinstance(error, JobFailed) or error.retry,
            retry_seconds=error.seconds if isinstance(error, RetryLater) else None,
        )
    if isinstance(error, JobSkipped):
        return HandlerOutcome(Outcome.SKIPPED, cut(_safe_text(error)))
    if isinstance(error, JobStopped):
        return HandlerOutcome(
            Outcome.FAILED, Why.STOPPED_BY_SIGNAL(signal="SIGTERM"), _trace(error)
        )
    if isinstance(error, SystemExit):
        return _exit(error.code)
    trace = _trace(error)
    words = _safe_text(error) if isinstance(error, NoText) else headline(error)
    return HandlerOutcome(Outcome.FAILED, cut(f"{words}\n\n{trace}"), trace)


def describe_hook(what: str, error: BaseException, when: str = "") -> str:
    """Return the log text for an exception raised by user code other than the handler."""
    return f"{what} failed{when}: {headline(error)}\n{_trace(error)}"


def headline(error: BaseException) -> str:
    """Return a line for an exception, such as `ValueError: text`; a group's ends with its first."""
    lines = [_headline(error)]
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        lines.append(_headline(error))
    return ": ".join(lines)


def _headline(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    text = _safe_text(error).strip()
    text = text or ("out of memory" if isinstance(error, MemoryError) else "")
    return f"{name}: {text}" if text else name


def cut(text: str) -> str:
    """Return plain text within the limit of a run's message."""
    return cut_message(clean(text))


def clean(text: str) -> str:
    """Return a plain `str`, lone surrogates escaped: JSON takes no subclasses or surrogates."""
    text = str.__str__(text)
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _exit(code: object) -> HandlerOutcome:
    if code is None or code == 0:
        return HandlerOutcome(Outcome.SUCCEEDED, "")
    words = "" if isinstance(code, int) else _safe_text(code)
    words = words if words.strip() else f"sys.exit({code!r})"
    return HandlerOutcome(Outcome.FAILED, cut(words), words)


def _safe_text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the user's __str__ may raise anything
        return "<no text: its str() fails>"


def _trace(error: BaseException) -> str:
    frames = user_frames = error.__traceback__
    while frames is not None:
        code = frames.tb_frame.f_code
        frames = frames.tb_next
        if code.co_filename in _OUR_FILES and code.co_name in _OUR_CALLERS:
            user_frames = frames
    try:
        return "".join(traceback.format_exception(type(error), error, user_frames)).rstrip()
    except Exception as broken:  # noqa: BLE001 - the user's exception may break the printing too
        return f"<no traceback: {type(broken).__name__} while printing it>"


def message_and_result(value: object) -> tuple[Words, str]:
    """Return the message and the result of what a handler returned; both are empty for None.

    The message is its text. A result of more than RESULT_LIMIT characters is left out, and the
    message says so, unless the message is cut too.

    Raises:
        JobFailed: the value is code that has not run.
        NoText: the value cannot be turned into text.

    """
    if value is None:
        return "", ""
    if isinstance(value, Coroutine | Generator | AsyncGenerator):
        kind = type(value).__name__.replace("_", " ")
        raise JobFailed(f"the {kind} that its handler returned has not run", retry=False)
    message, result = text_of(value), _as_json(value)
    if len(result) <= RESULT_LIMIT:
        return message, result
    if len(message) >= MESSAGE_LIMIT:
        return message, ""
    return Why.NOTED(words=message, notes=(Why.RESULT_TOO_LONG(n=f"{len(result):,}"),)), ""


def _as_json(value: object) -> str:
    try:
        return _encode(clean(value) if isinstance(value, str) else value).decode()
    except Exception:  # noqa: BLE001 - cycles, lone surrogates, whatever the value's own code raises
        return _encode(clean(str(value))).decode()


def _plain(value: object) -> Any:
    """Return a plain value for an object of a type that msgspec does not know."""
    dump = getattr(value, "model_dump", None)  # pydantic's
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return clean(str(value))


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
