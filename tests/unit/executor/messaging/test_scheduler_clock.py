import pytest

from warren.executor.messaging.heartbeat import SchedulerClock


class Hands:
    """A host's two clocks, moved by hand."""

    def __init__(self, wall: float = 1_000_000.0, monotonic: float = 5_000_000.0) -> None:
        self.wall = wall
        self.monotonic = monotonic

    def clock(self) -> SchedulerClock:
        return SchedulerClock(monotonic=lambda: self.monotonic, wall=lambda: self.wall)

    def pass_seconds(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


def test_before_the_welcome_the_hosts_clock_counts() -> None:
    assert Hands(wall=1_000_000.0).clock().now_ms() == 1_000_000_000


@pytest.mark.parametrize("difference_ms", [-3_600_000, -10_000, -1, 1, 2_001, 3_600_000])
def test_after_the_welcome_it_is_the_schedulers_time(difference_ms: int) -> None:
    hands = Hands(wall=1_000_000.0)
    clock = hands.clock()
    schedulers_ms = 1_000_000_000 - difference_ms

    assert clock.learn(schedulers_ms, asked_at_ms=clock.steady_ms())
    hands.pass_seconds(7)

    assert clock.now_ms() == schedulers_ms + 7_000


@pytest.mark.parametrize("wait_seconds", [0.0, 0.001, 0.5, 2.0, 59.0, 3_600.0])
def test_welcome_that_waited_does_not_set_the_clock_back(wait_seconds: float) -> None:
    hands = Hands(wall=1_000_000.0)
    clock = hands.clock()
    asked_at_ms = clock.steady_ms()
    hands.pass_seconds(wait_seconds)

    clock.learn(1_000_000_000, asked_at_ms=asked_at_ms)

    assert clock.now_ms() == 1_000_000_000 + round(wait_seconds * 1000)


def test_welcome_that_waited_corrects_a_clock_as_far_as_it_proves_it_wrong() -> None:
    hands = Hands(wall=1_003_600.0)
    clock = hands.clock()
    asked_at_ms = clock.steady_ms()
    hands.pass_seconds(4)

    clock.learn(1_000_000_000, asked_at_ms=asked_at_ms)

    assert clock.now_ms() == 1_000_004_000


@pytest.mark.parametrize("when_ms", [-1, 60_001])
def test_welcome_that_answers_no_question_of_this_process_is_not_believed(when_ms: int) -> None:
    hands = Hands(wall=1_000_000.0)
    clock = hands.clock()
    began_at_ms = clock.steady_ms()
    hands.pass_seconds(60)

    assert not clock.learn(500_000_000, asked_at_ms=began_at_ms + when_ms)

    assert clock.now_ms() == 1_000_060_000


def test_jump_of_the_hosts_clock_changes_nothing() -> None:
    hands = Hands()
    clock = hands.clock()
    clock.learn(500_000_000, asked_at_ms=clock.steady_ms())

    hands.wall += 3_600

    assert clock.now_ms() == 500_000_000


def test_later_welcome_corrects_the_time() -> None:
    hands = Hands()
    clock = hands.clock()
    clock.learn(500_000_000, asked_at_ms=clock.steady_ms())

    clock.learn(600_000_000, asked_at_ms=clock.steady_ms())

    assert clock.now_ms() == 600_000_000
