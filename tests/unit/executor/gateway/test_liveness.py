"""When a remote executor is given no runs, and when it is again."""

import pytest

from warren.broker.reasons.codes import Why
from warren.executor.gateway.remote_slots import Liveness


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
