"""Logging with structlog: readable on a terminal, else one JSON object per line.

Secrets never get there: values of keys that name one are masked, passwords in URLs too. Whatever
stands in a value begins no line of its own and moves no cursor.
"""

import contextlib
import logging
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

import structlog

_SECRET_KEY = re.compile(r"secret|password|token", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(\w+://[^\s:/@]*):[^\s@]+@")
#: What would begin a line, move a terminal's cursor or turn the direction of writing.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: Libraries whose own log repeats what our events say, with stack traces; and the line of requests
#: that wait a moment, which is no news.
_SILENCED = ("pika", "alembic", "sqlalchemy", "waitress.queue")


#: Largest log file; one older file is kept beside it.
FILE_BYTES = 10_000_000


class Stream(Protocol):
    """What a log is written to."""

    def write(self, text: str, /) -> object:
        """Write a text."""

    def flush(self) -> object:
        """Hand on what was written."""

    def isatty(self) -> bool:
        """Return whether a person looks."""


class BoundedFile:
    """A log file that starts anew at FILE_BYTES; the one before is kept as `<name>.1`."""

    def __init__(self, path: Path, *, limit_bytes: int = FILE_BYTES) -> None:
        self._path = path
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._file = path.open("ab", buffering=0)

    def write(self, text: str) -> None:
        """Write a text, in one piece."""
        with self._lock:
            if self._file.tell() >= self._limit:
                self._file.close()
                os.replace(self._path, f"{self._path}.1")  # noqa: PTH105 - it is one call
                self._file = self._path.open("ab", buffering=0)
            self._file.write(text.encode(errors="backslashreplace"))

    def flush(self) -> None:
        """Do nothing: every text is written at once."""

    def isatty(self) -> bool:
        """Return that no person looks."""
        return False


class _LossyStream:
    """A stream on which a full disk costs lines, and nobody who logs their work."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write a text, if that can be done."""
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Hand on what was written, if that can be done."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        """Return whether a person looks."""
        return self._stream.isatty()


def configure_logs(level: str, stream: Stream | None = None) -> None:
    """Send every event of `level` and above to `stream`, standard error by default."""
    target = _LossyStream(stream or sys.stderr)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Before secrets are masked: an exception's text may hold one.
            structlog.processors.format_exc_info,
            mask_secrets,
            *_renderers(is_terminal=target.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_number(level)),
        logger_factory=structlog.WriteLoggerFactory(file=target),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )
    of_libraries = logging.StreamHandler(target)
    of_libraries.setFormatter(OneLine(logging.BASIC_FORMAT))
    logging.basicConfig(handlers=[of_libraries], level=logging.WARNING, force=True)
    for name in _SILENCED:
        logging.getLogger(name).setLevel(logging.CRITICAL)


class OneLine(logging.Formatter):
    """A record of a library, traceback included, on one line and without passwords in URLs."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return _visible(_without_passwords(super().format(record)))


def mask_secrets(
    _logger: Any, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Return the event with secrets and passwords replaced by ***."""
    return {key: _masked(key, value) for key, value in event.items()}


def show_controls(
    _logger: Any, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Return the event with control characters made visible; a traceback keeps its lines."""
    return {key: _plain(key, value) for key, value in event.items()}


def _masked(key: str, value: Any) -> Any:
    if _SECRET_KEY.search(key):
        return "***"
    if isinstance(value, str | BaseException):
        return _without_passwords(str(value))
    if isinstance(value, dict):
        return {name: _masked(str(name), one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked("", one) for one in value]
    return value


def _without_passwords(text: str) -> str:
    return _URL_PASSWORD.sub(r"\1:***@", text)


def _visible(text: str) -> str:
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def _plain(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    lines = value.split("\n") if key == "exception" else [value]
    return "\n".join(map(_visible, lines))


def _renderers(*, is_terminal: bool) -> list[structlog.typing.Processor]:
    if is_terminal:
        plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        return [show_controls, plain]
    return [structlog.processors.JSONRenderer(default=str)]


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]
