"""What every test of the front door leaves as it was."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Give logs back to who had them: a command sends them to a stream that ends with its test."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = before
