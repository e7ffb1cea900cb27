"""Ends what multiprocessing keeps for a whole session, so that no process is left of it."""

import os
from collections.abc import Iterator
from multiprocessing import resource_tracker

import pytest

from tests.support.eventually import eventually


@pytest.fixture(scope="session", autouse=True)
def _end_of_the_resource_tracker() -> Iterator[None]:
    """Let the tracker go that spawning a zygote has started: it ends with its last pipe."""
    yield
    tracker = resource_tracker._resource_tracker  # type: ignore[attr-defined]
    if tracker._fd is not None:
        os.close(tracker._fd)
        eventually(lambda: os.waitpid(tracker._pid, os.WNOHANG)[0])
        tracker._fd = tracker._pid = None
