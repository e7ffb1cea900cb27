"""Restores logging after a command has run inside the tests' own process."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog


@pytest.fixture
def restored_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo a command's logging setup, whose stream ends with its test.

    Loggers must not cache that stream, or later tests could not capture them.
    """
    configure = structlog.configure

    def configure_without_cache(**settings: Any) -> None:
        configure(**settings | {"cache_logger_on_first_use": False})

    root = logging.getLogger()
    before = root.handlers[:], root.level
    monkeypatch.setattr(structlog, "configure", configure_without_cache)
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = before
