"""SIGTERM while user code forks: what a fork hook would swallow is sent again after it."""

import signal
import sys
from collections.abc import Iterator
from types import FrameType

import pytest

from tests.support.eventually import eventually
from warren.executor.fork_server.termination import Phase, Termination
from warren.executor.handlers.context import JobStopped


@pytest.fixture
def again() -> Iterator[list[int]]:
    """The signals that arrive again."""
    found: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: found.append(number))
    yield found
    signal.signal(signal.SIGTERM, before)


def frame_of_the_hook(termination: Termination) -> FrameType:
    """Return a frame in which a hook has just been entered."""
    found: list[FrameType] = []
    code = Termination._before_fork.__code__
    sys.setprofile(lambda frame, *_: found.append(frame) if frame.f_code is code else None)
    try:
        termination._before_fork()
    finally:
        sys.setprofile(None)
        termination._after_fork()
    return found[0]


def test_a_signal_that_python_notices_as_it_enters_the_hook_is_sent_again(again: list[int]) -> None:
    termination = Termination()
    termination.phase = Phase.RUNNING

    termination._on_sigterm(signal.SIGTERM, frame_of_the_hook(termination))

    assert eventually(lambda: again) == [signal.SIGTERM]
    assert not termination.is_requested


def test_one_in_user_code_stops_it_at_once(again: list[int]) -> None:
    termination = Termination()
    termination.phase = Phase.RUNNING

    with pytest.raises(JobStopped):
        termination._on_sigterm(signal.SIGTERM, sys._getframe())

    assert again == []
