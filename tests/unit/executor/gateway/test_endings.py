"""How a remote run ended, by what its executor says and what it was told."""

import pytest

from warren.broker.messages.values import Outcome
from warren.broker.reasons.codes import Why
from warren.executor.gateway.protocol import RemoteResult
from warren.executor.gateway.remote_slots import conclude, lost, unanswered
from warren.executor.processes.endings import Stop, killed, timed_out

KILL, TIMEOUT = killed(Why.KILL_REQUESTED()), timed_out(5)


@pytest.mark.parametrize(
    ("result", "stop", "seconds", "outcome", "words"),
    [
        ((200, "done"), None, 1, Outcome.SUCCEEDED, "done"),
        ((200, "done"), KILL, 1, Outcome.SUCCEEDED, "done"),
        ((500, "boom"), None, 1, Outcome.FAILED, "boom"),
        ((500, ""), None, 1, Outcome.FAILED, "it ended with code 500"),
        ((0, ""), None, 1, Outcome.FAILED, "it ended with code 0"),
        ((500, "CancelledError"), KILL, 1, Outcome.KILLED, "killed by request"),
        ((500, "boom"), TIMEOUT, 40, Outcome.TIMED_OUT, "timed out after 5 s"),
        ((502, "too long"), None, 5, Outcome.TIMED_OUT, "too long"),
        ((502, ""), None, 5, Outcome.TIMED_OUT, "timed out after 5 s"),
        ((500, "TimeoutError"), None, 5, Outcome.TIMED_OUT, "timed out after 5 s"),
        ((500, "TimeoutError"), None, 4, Outcome.FAILED, "TimeoutError"),
    ],
)
def test_result_is_concluded(
    result: tuple[int, str], stop: Stop | None, seconds: float, outcome: Outcome, words: str
) -> None:
    end = conclude(RemoteResult(1, *result), stop, timeout_seconds=5, seconds=seconds)

    assert (end[0], str(end[1])) == (outcome, words)


def test_timeout_error_of_a_job_without_a_timeout_is_its_own() -> None:
    result = RemoteResult(1, 500, "TimeoutError")

    assert conclude(result, None, timeout_seconds=0, seconds=9)[0] is Outcome.FAILED


def test_end_that_nobody_heard_of_is_said_to_be_unknown() -> None:
    told, untold = unanswered(KILL, ""), unanswered(KILL, "no answer: refused")

    assert told[0] is untold[0] is Outcome.KILLED
    assert str(told[1]) == "killed by request; told to stop, but whether it ended is unknown"
    assert "cannot be told to stop: no answer: refused" in str(untold[1])
    assert lost("http://a")[0] is Outcome.LOST
