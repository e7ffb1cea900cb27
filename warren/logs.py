"""Logging: structlog's events on the console when a person looks, one JSON object a line otherwise.

Secrets never get there: values of keys that name one are masked, passwords in URLs too.
"""

import logging
import re
import sys
from typing import Any, TextIO

import structlog

_SECRET_KEY = re.compile(r"secret|password|token", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(\w+://[^\s:/@]*):[^\s@]+@")
#: Libraries whose own log repeats what our events say, with stack traces.
_SILENCED = ("pika", "alembic", "sqlalchemy")


def configure_logs(level: str, stream: TextIO | None = None) -> None:
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
        logger_factory=structlog.WriteLoggerFactory(file=target),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(stream=target, level=logging.WARNING, force=True)
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
