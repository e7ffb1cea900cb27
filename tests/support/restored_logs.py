"""Gives logs back to who had them after a command ran inside the tests' own process."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog


@pytest.fixture
def restored_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a command does to logs: it sends them to a stream that ends with its test.

    No logger keeps that stream: one that did could not be captured by a later test.
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
