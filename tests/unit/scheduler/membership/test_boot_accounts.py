"""Who speaks for a boot: the account that was heard first, as long as the boot lives."""

import pytest

from broker.errors import Forged
from scheduler.membership.boot_accounts import LIVING_SECONDS, BootAccounts
from tests.support.moved_clock import MovedClock

BOOT = ("reports", "reports-1", "boot-1")


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def heard(clock: MovedClock) -> BootAccounts:
    found = BootAccounts(clock)
    found.hear(BOOT, "executor-reports")
    return found


def test_another_account_cannot_speak_for_a_boot_that_lives(heard: BootAccounts) -> None:
    for say in (heard.hear, heard.prove):
        with pytest.raises(Forged, match="'executor-reports', got: 'executor-mails'"):
            say(BOOT, "executor-mails")
        with pytest.raises(Forged):
            say(BOOT, "")


def test_its_own_account_can_and_lives_on_by_it(heard: BootAccounts, clock: MovedClock) -> None:
    for _ in range(5):
        clock.now += LIVING_SECONDS - 1
        heard.hear(BOOT, "executor-reports")

    with pytest.raises(Forged):
        heard.prove(BOOT, "executor-mails")


def test_what_an_intruder_says_does_not_keep_a_boot_alive(
    heard: BootAccounts, clock: MovedClock
) -> None:
    clock.now += LIVING_SECONDS
    with pytest.raises(Forged):
        heard.hear(BOOT, "executor-mails")
    clock.now += 1

    heard.hear(BOOT, "executor-mails")


def test_another_start_and_another_executor_may_have_another_account(heard: BootAccounts) -> None:
    heard.hear(("reports", "reports-1", "boot-2"), "executor-mails")
    heard.hear(("mails", "reports-1", "boot-1"), "executor-mails")
    heard.prove(("reports", "reports-2", "boot-1"), "executor-mails")


def test_boots_that_live_no_more_are_forgotten(clock: MovedClock) -> None:
    heard = BootAccounts(clock, tidy_count=10)
    for number in range(100):
        heard.hear(("reports", "reports-1", f"boot-{number}"), "executor-reports")
        clock.now += LIVING_SECONDS

    assert len(heard) <= 10
