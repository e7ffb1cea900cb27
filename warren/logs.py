"""Logging: structlog's events on the console when a person looks, one JSON object a line otherwise.

Secrets never get there: values of keys that name one are masked, passwords in URLs too.
"""

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


def configure_logs(level: str, stream: Stream | None = None) -> None:
    """Send every event of `level` and above to `stream`, standard error by default."""
    target = stream or sys.stderr
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            mask_secrets,
            *_renderers(is_terminal=target.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_number(level)),
        logger_factory=structlog.WriteLoggerFactory(file=target),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(
        stream=target,
        level=logging.WARNING,
        force=True,
    )
    for name in _SILENCED:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def mask_secrets(
    _logger: Any, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Return the event with secrets and passwords replaced by ***."""
    return {key: _masked(key, value) for key, value in event.items()}


def _masked(key: str, value: Any) -> Any:
    if _SECRET_KEY.search(key):
        return "***"
    return _URL_PASSWORD.sub(r"\1:***@", value) if isinstance(value, str) else value


def _renderers(*, is_terminal: bool) -> list[structlog.typing.Processor]:
    if is_terminal:
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]
