"""A role's thread: its rounds, its failures and its end."""

import threading
import time
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from tests.support.eventually import eventually
from warren.scheduler.rounds import Loop, Role, WakeUp, WakeUps


class Rounds:
    """A tick that counts its rounds and does as it is told."""

    def __init__(self) -> None:
        self.count = 0
        self.wait_seconds = 60.0
        self.error: Exception | None = None

    def __call__(self) -> float:
        self.count += 1
        if self.error is not None:
            raise self.error
        return self.wait_seconds


@pytest.fixture
def rounds() -> Rounds:
    return Rounds()


@pytest.fixture
def role(rounds: Rounds) -> Role:
    return Role("role", rounds, longest_seconds=60.0)


@pytest.fixture
def awake() -> WakeUp:
    return WakeUp()


@pytest.fixture
def loop(role: Role, awake: WakeUp) -> Iterator[Loop]:
    loop = Loop(role, awake=awake)
    yield loop
    loop.stop()
    assert loop.join(30)


def test_a_role_rests_as_long_as_its_round_said(loop: Loop, rounds: Rounds) -> None:
    loop.start()

    eventually(lambda: rounds.count == 1)
    loop.join(0.1)

    assert rounds.count == 1


def test_a_woken_role_makes_a_round_at_once(loop: Loop, rounds: Rounds, awake: WakeUp) -> None:
    loop.start()
    eventually(lambda: rounds.count == 1)

    awake.set()

    eventually(lambda: rounds.count == 2)


def test_a_wake_up_during_a_round_is_not_lost() -> None:
    inside, go_on = threading.Event(), threading.Event()
    count = 0

    def tick() -> float:
        nonlocal count
        count += 1
        inside.set()
        go_on.wait(30)
        return 60.0

    awake = WakeUp()
    loop = Loop(Role("role", tick, longest_seconds=60.0), awake=awake)
    loop.start()
    inside.wait(30)
    awake.set()
    go_on.set()

    eventually(lambda: count == 2)
    loop.stop()
    assert loop.join(30)


def test_no_role_rests_longer_than_it_may(rounds: Rounds) -> None:
    loop = Loop(Role("role", rounds, longest_seconds=0.01))

    loop.start()

    eventually(lambda: rounds.count >= 3)
    loop.stop()
    assert loop.join(30)


def test_a_failing_round_is_repeated_and_shows_until_one_succeeds(
    loop: Loop, role: Role, rounds: Rounds
) -> None:
    rounds.error = OSError("away")
    loop.start()
    eventually(lambda: rounds.count >= 2 and role.failing)

    rounds.error = None

    eventually(lambda: not role.failing)


def test_a_failing_role_backs_off_even_if_it_is_woken(
    loop: Loop, rounds: Rounds, awake: WakeUp
) -> None:
    rounds.error = OSError("away")
    began = time.monotonic()
    loop.start()

    eventually(lambda: awake.set() or rounds.count >= 3)

    assert time.monotonic() - began >= 0.1 + 0.2


def test_a_stopped_role_ends_though_its_wait_is_long(loop: Loop, rounds: Rounds) -> None:
    loop.start()
    eventually(lambda: rounds.count == 1)

    loop.stop()

    assert loop.join(30)


def test_a_role_that_waits_within_its_round_is_told_to_stop() -> None:
    told = threading.Event()
    loop = Loop(Role("role", lambda: float(told.wait(60))), on_stop=told.set)
    loop.start()

    loop.stop()

    assert loop.join(30)


def test_a_role_that_never_began_can_be_joined(rounds: Rounds) -> None:
    loop = Loop(Role("role", rounds))

    loop.stop()

    assert loop.join(0)


def test_roles_share_a_thread_each_at_its_own_pace_and_none_is_stopped_by_the_faults_of_another(
    rounds: Rounds,
) -> None:
    often, faulty = Rounds(), Rounds()
    often.wait_seconds, faulty.error = 0.01, OSError("away")
    roles = [Role("seldom", rounds, longest_seconds=60.0), Role("faulty", faulty)]
    loop = Loop(*roles, Role("often", often), name="periodic")
    loop.start()

    eventually(lambda: often.count >= 9 and faulty.count >= 2)

    assert rounds.count == 1
    assert [role.name for role in loop.roles if role.failing] == ["faulty"]
    loop.stop()
    assert loop.join(30)


def test_a_role_is_woken_by_its_name_and_takes_each_reason_once() -> None:
    wakes = WakeUps()
    awake = wakes.of("dispatcher")

    wakes.wake("mailer")
    assert not awake.is_set()
    wakes.wake("dispatcher", "old runs")
    wakes.wake("dispatcher")

    assert awake.is_set()
    assert awake.has("old runs")
    assert [awake.take("old runs"), awake.take("old runs")] == [True, False]


def test_a_role_that_fails_again_and_again_says_so_once_a_minute(
    role: Role, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with capture_logs() as logs:
        for number in range(120):
            now += 1.0
            # A server that comes and goes makes every second round fail.
            rounds.error = RuntimeError("no node") if number % 2 else None
            role.due_at = now
            role.take_turn(is_woken=False)

    failed = [line["untold"] for line in logs if line["event"] == "role_failed"]
    assert failed == [0, 29]
    assert [line["event"] for line in logs].count("role_recovered") == 2
