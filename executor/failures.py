"""Words for what a handler returned or raised."""

import traceback
from dataclasses import dataclass
from pathlib import Path

from broker.messages import MESSAGE_LIMIT, Outcome
from executor.context import JobFailed, JobStopped

#: The functions of a job process from which the user's code is called.
_OUR_FILES = frozenset(
    str(Path(__file__).with_name(f"{name}.py")) for name in ("child", "coroutines")
)
_OUR_CALLERS = frozenset({"_attempt", "_call", "_complete", "run", "_as_task", "_guard"})


@dataclass(frozen=True, slots=True)
class Ending:
    """How a handler ended: the run's outcome and message, and what its log is to tell."""

    outcome: Outcome
    message: str
    log: str = ""


class NoText(Exception):
    """A handler returned something whose `str()` fails."""


def text_of(value: object) -> str:
    """Return the run's message for what a handler returned; None gives an empty one.

    Raises:
        NoText: the value cannot be turned into text.

    """
    if value is None:
        return ""
    try:
        return cut(str(value))
    except Exception as error:
        raise NoText(f"the returned {type(value).__name__} has no text") from error


def describe(error: BaseException) -> Ending:
    """Return the ending that an exception out of a handler stands for."""
    if isinstance(error, JobFailed):
        words = _safe_text(error)
        return Ending(Outcome.FAILED, cut(words), words)
    if isinstance(error, JobStopped):
        return Ending(Outcome.FAILED, "stopped by SIGTERM", _trace(error))
    if isinstance(error, SystemExit):
        return _exit(error.code)
    trace = _trace(error)
    words = _safe_text(error) if isinstance(error, NoText) else headline(error)
    return Ending(Outcome.FAILED, cut(f"{words}\n\n{trace}"), trace)


def describe_hook(what: str, error: BaseException) -> str:
    """Return what the log says of an exception at the end of a job process."""
    return f"{what} failed at the process's end: {headline(error)}\n{_trace(error)}"


def headline(error: BaseException) -> str:
    """Return the one line for an exception, as in `ValueError: text`."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    text = _safe_text(error) or ("out of memory" if isinstance(error, MemoryError) else "")
    return f"{name}: {text}" if text else name


def cut(text: str) -> str:
    """Return the text within MESSAGE_LIMIT characters, with a mark where it was cut."""
    text = clean(text)
    if len(text) <= MESSAGE_LIMIT:
        return text
    mark = f"\n… [cut, {len(text):,} characters]"
    return text[: MESSAGE_LIMIT - len(mark)] + mark


def clean(text: str) -> str:
    """Return the text without lone surrogates, as os.fsdecode makes them: JSON cannot hold them."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _exit(code: object) -> Ending:
    if code is None or code == 0:
        return Ending(Outcome.SUCCEEDED, "")
    words = f"sys.exit({code})" if isinstance(code, int) else _safe_text(code)
    return Ending(Outcome.FAILED, cut(words), words)


def _safe_text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the user's __str__ may raise anything
        return "<no text: its str() fails>"


def _trace(error: BaseException) -> str:
    frames = theirs = error.__traceback__
    while frames is not None:
        code = frames.tb_frame.f_code
        frames = frames.tb_next
        if code.co_filename in _OUR_FILES and code.co_name in _OUR_CALLERS:
            theirs = frames
    try:
        return "".join(traceback.format_exception(type(error), error, theirs)).rstrip()
    except Exception as broken:  # noqa: BLE001 - the user's exception may break the printing too
        return f"<no traceback: {type(broken).__name__} while printing it>"
