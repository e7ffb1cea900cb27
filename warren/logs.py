"""Logging with structlog: readable on a terminal, else one JSON object per line.

Secrets never appear: values of keys named like a secret are masked, and so are passwords in URLs.
No value can start a new line or move the cursor.
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
#: Characters that start a line, control a terminal or change the direction of text.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: Libraries whose logs repeat our own events with stack traces, and waitress' messages about
#: queued requests, which are normal.
_SILENCED = ("pika", "alembic", "sqlalchemy", "waitress.queue")


#: The most bytes of a log file; one older file is kept beside it.
FILE_BYTES = 10_000_000


class Stream(Protocol):
    """What a log is written to."""

    def write(self, text: str, /) -> object:
        """Write a text."""

    def flush(self) -> object:
        """Pass on what was written."""

    def isatty(self) -> bool:
        """Return whether it is a terminal."""


class BoundedFile:
    """A log file that is restarted at FILE_BYTES; the previous one is kept as `<name>.1`."""

    def __init__(self, path: Path, *, limit_bytes: int = FILE_BYTES) -> None:
        self._path = path
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._file = path.open("ab", buffering=0)

    def write(self, text: str) -> None:
        with self._lock:
            if self._file.tell() >= self._limit:
                self._restart()
            self._file.write(text.encode(errors="backslashreplace"))

    def _restart(self) -> None:
        """Continue in a new file, or in the old one while no new one can be created."""
        with contextlib.suppress(OSError):
            if self._path.exists():
                os.replace(self._path, f"{self._path}.1")  # noqa: PTH105 - it is one call
            new = self._path.open("ab", buffering=0)
            self._file.close()
            self._file = new

    def flush(self) -> None:
        """Do nothing: every text is written at once."""

    def isatty(self) -> bool:
        """Return False: it is not a terminal."""
        return False


class _LossyStream:
    """A stream that drops lines when the disk is full, so that logging never fails."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Pass on what was written if possible."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._stream.isatty()


def configure_logs(level: str, stream: Stream | None = None) -> None:
    """Send events of `level` and above to `stream`, by default to standard error.

    Warnings of libraries go there too.
    """
    target = _LossyStream(stream or sys.stderr)
    configure_events(level, target)
    of_libraries = logging.StreamHandler(target)
    of_libraries.setFormatter(OneLine(logging.BASIC_FORMAT))
    logging.basicConfig(handlers=[of_libraries], level=logging.WARNING, force=True)
    for name in _SILENCED:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def configure_events(level: str, target: Stream, *, for_good: bool = True) -> None:
    """Send our own events of `level` and above to a stream; leave libraries alone.

    `for_good`: each logger keeps the stream, which is faster.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Before secrets are masked, as an exception's text may contain one.
            structlog.processors.format_exc_info,
            mask_secrets,
            *_renderers(is_terminal=target.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_number(level)),
        logger_factory=structlog.WriteLoggerFactory(file=target),  # type: ignore[arg-type]
        cache_logger_on_first_use=for_good,
    )


class OneLine(logging.Formatter):
    """Formats a library's log record on one line, without passwords in URLs."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with control characters made visible."""
        return _visible(_without_passwords(super().format(record)))


def mask_secrets(
    _logger: Any, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Return the event with secrets and passwords replaced by ***."""
    return {key: _masked(key, value) for key, value in event.items()}


def show_controls(
    _logger: Any, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Return the event with control characters made visible; tracebacks keep their lines."""
    return {key: _plain(key, value) for key, value in event.items()}


def _masked(key: str, value: Any) -> Any:
    if _SECRET_KEY.search(key):
        return "***"
    if isinstance(value, str | BaseException):
        return _without_passwords(str(value))
    if isinstance(value, dict):
        return {name: _masked(str(name), item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked("", item) for item in value]
    return value


def _without_passwords(text: str) -> str:
    return _URL_PASSWORD.sub(r"\1:***@", text)


def _visible(text: str) -> str:
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


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
