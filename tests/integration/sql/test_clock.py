"""The database's clock, and when it is not believed."""

import time

import pytest

from warren.sql.clock import SAMPLE_SECONDS, DatabaseClock
from warren.sql.engine import Database

#: Less than any jump or drift here, and more than a busy machine needs to look at two clocks.
CLOSE_SECONDS = 1.0


class Ears:
    """This process's monotonic clock; set back, it makes the database's clock jump ahead."""

    def __init__(self) -> None:
        self.shift_seconds = 0.0

    def __call__(self) -> float:
        return time.monotonic() - self.shift_seconds

    def database_jumps(self, seconds: float) -> None:
        self.shift_seconds += seconds


@pytest.fixture
def ears() -> Ears:
    return Ears()


@pytest.fixture
def clock(database: Database, ears: Ears) -> DatabaseClock:
    return DatabaseClock(database, monotonic=ears)


def behind_seconds(clock: DatabaseClock) -> float:
    """How far the clock is behind this machine's, on which the database runs."""
    return time.time() - clock.now_ms() / 1000


def test_it_tells_the_databases_time(clock: DatabaseClock) -> None:
    assert abs(behind_seconds(clock)) < CLOSE_SECONDS
    assert clock.is_steady


def test_it_goes_on_between_samples(clock: DatabaseClock) -> None:
    before = clock.now_ms()
    deadline = time.monotonic() + 60

    while clock.now_ms() < before + 20:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("drift", [0.4, -0.4])
def test_a_drift_is_followed(clock: DatabaseClock, ears: Ears, drift: float) -> None:
    for _ in range(5):
        ears.database_jumps(drift)

        assert clock.run_round() == SAMPLE_SECONDS

    assert clock.is_steady
    assert abs(behind_seconds(clock)) < CLOSE_SECONDS


@pytest.mark.parametrize("jump", [3.0, -3.0, 86_400.0])
def test_a_jump_is_doubted_until_samples_agree(
    clock: DatabaseClock, ears: Ears, jump: float
) -> None:
    ears.database_jumps(jump)

    steady = []
    for _ in range(3):
        assert abs(behind_seconds(clock) - jump) < CLOSE_SECONDS
        clock.run_round()
        steady.append(clock.is_steady)

    assert steady == [False, False, True]
    assert abs(behind_seconds(clock)) < CLOSE_SECONDS


def test_a_doubted_clock_is_asked_again_soon(clock: DatabaseClock, ears: Ears) -> None:
    ears.database_jumps(3)

    assert clock.run_round() == 1.0


def test_a_jump_that_is_taken_back_changes_nothing(clock: DatabaseClock, ears: Ears) -> None:
    ears.database_jumps(3)
    clock.run_round()
    ears.database_jumps(-3)

    clock.run_round()

    assert clock.is_steady
    assert abs(behind_seconds(clock)) < CLOSE_SECONDS


def test_a_clock_that_keeps_jumping_is_never_believed(clock: DatabaseClock, ears: Ears) -> None:
    for _ in range(6):
        ears.database_jumps(3)
        clock.run_round()

        assert not clock.is_steady


class LateEars:
    """A monotonic clock by which the next few answers seem to come four seconds late."""

    def __init__(self) -> None:
        self.late_answers = 0
        self._is_asking = False

    def __call__(self) -> float:
        self._is_asking = not self._is_asking
        if self._is_asking or not self.late_answers:
            return time.monotonic()
        self.late_answers -= 1
        return time.monotonic() + 4


def test_a_late_answer_is_no_jump(database: Database) -> None:
    ears = LateEars()
    clock = DatabaseClock(database, monotonic=ears)
    ears.late_answers = 2

    clock.run_round()

    assert ears.late_answers == 0
    assert clock.is_steady
    assert abs(behind_seconds(clock)) < CLOSE_SECONDS
