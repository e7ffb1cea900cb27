import pytest

from executor.scheduler_clock import WELCOME_AGE_MS, SchedulerClock


class Hands:
    """A host's two clocks, moved by hand."""

    def __init__(self, wall: float = 1_000_000.0, monotonic: float = 50.0) -> None:
        self.wall = wall
        self.monotonic = monotonic

    def clock(self) -> SchedulerClock:
        return SchedulerClock(monotonic=lambda: self.monotonic, wall=lambda: self.wall)

    def pass_seconds(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


def test_before_the_welcome_the_hosts_clock_counts() -> None:
    assert Hands(wall=1_000_000.0).clock().now_ms() == 1_000_000_000


@pytest.mark.parametrize("difference_ms", [-3_600_000, -10_000, -1, WELCOME_AGE_MS + 1, 3_600_000])
def test_after_the_welcome_it_is_the_schedulers_time(difference_ms: int) -> None:
    hands = Hands(wall=1_000_000.0)
    clock = hands.clock()
    schedulers_ms = 1_000_000_000 - difference_ms

    clock.set(schedulers_ms)
    hands.pass_seconds(7)

    assert clock.now_ms() == schedulers_ms + 7_000


@pytest.mark.parametrize("age_ms", [0, 1, 500, WELCOME_AGE_MS])
def test_welcome_that_lay_in_its_queue_does_not_set_the_clock_back(age_ms: int) -> None:
    clock = Hands(wall=1_000_000.0).clock()

    clock.set(1_000_000_000 - age_ms)

    assert clock.now_ms() == 1_000_000_000


def test_jump_of_the_hosts_clock_changes_nothing() -> None:
    hands = Hands()
    clock = hands.clock()
    clock.set(500_000_000)

    hands.wall += 3_600

    assert clock.now_ms() == 500_000_000


def test_later_welcome_corrects_the_time() -> None:
    hands = Hands()
    clock = hands.clock()
    clock.set(500_000_000)

    clock.set(600_000_000)

    assert clock.now_ms() == 600_000_000
