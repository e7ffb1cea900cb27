"""A remote executor's slots: how its runs end, and when it may be given runs."""

import pytest

from warren.broker.messages import Outcome
from warren.broker.reasons import Why
from warren.executor.gateway.protocol import RemoteResult
from warren.executor.gateway.remote_slots import Liveness, conclude, lost, unanswered
from warren.executor.run_life import Stop, killed, timed_out

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


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def liveness(clock: Clock) -> Liveness:
    return Liveness("http://a", clock)


def test_it_is_away_after_three_misses_until_it_answers(liveness: Liveness) -> None:
    seen = []
    for _ in range(3):
        seen.append(liveness.away)
        liveness.missed()

    assert seen == [None] * 3
    assert liveness.away == Why.REMOTE_SILENT(url="http://a")
    liveness.answered()
    assert liveness.away is None


def test_it_is_away_at_once_when_it_takes_no_connection(liveness: Liveness) -> None:
    liveness.refused()

    assert liveness.away == Why.REMOTE_SILENT(url="http://a")


def test_it_is_away_when_it_does_not_register_any_more(liveness: Liveness, clock: Clock) -> None:
    clock.now += 90
    before = liveness.away
    clock.now += 1

    assert before is None
    assert liveness.away == Why.REMOTE_UNREGISTERED(url="http://a")
    assert liveness.gone_seconds == 1
    liveness.register()
    assert liveness.away is None


def test_it_is_away_at_once_when_it_signs_off(liveness: Liveness, clock: Clock) -> None:
    liveness.sign_off()

    assert liveness.is_gone
    assert liveness.away == Why.REMOTE_SIGNED_OFF(url="http://a")
    clock.now += 20
    assert liveness.gone_seconds == pytest.approx(20, abs=0.01)
    liveness.register()
    assert liveness.away is None
