"""Who speaks for a boot: the account that the registry has for it, as long as the boot lives."""

import pytest

from tests.support.moved_clock import MovedClock
from warren.broker.errors import Forged
from warren.broker.messages import Boot
from warren.scheduler.membership.registration import LIVING_SECONDS, BootAccounts

BOOT = Boot("reports", "reports-1", "boot-1")


class Case:
    """Accounts, of which one is known; `holder` is the boot that holds the address."""

    def __init__(self, tidy_count: int = 10) -> None:
        self.clock = MovedClock()
        self.holder: str | None = None
        self.accounts = BootAccounts(
            lambda _app, _address: self.holder, self.clock, tidy_count=tidy_count
        )
        self.accounts.settle(BOOT, "executor-reports")


@pytest.fixture
def case() -> Case:
    return Case()


def test_another_account_cannot_speak_for_a_boot_that_lives(case: Case) -> None:
    with pytest.raises(Forged, match="'executor-reports', got: 'executor-mails'"):
        case.accounts.prove(BOOT, "executor-mails")
    with pytest.raises(Forged):
        case.accounts.prove(BOOT, "")


def test_its_own_account_can_and_lives_on_by_it(case: Case) -> None:
    for _ in range(5):
        case.clock.now += LIVING_SECONDS - 1
        case.accounts.prove(BOOT, "executor-reports")

    with pytest.raises(Forged):
        case.accounts.prove(BOOT, "executor-mails")


def test_a_boot_that_holds_its_address_keeps_its_account_however_long_it_is_silent(
    case: Case,
) -> None:
    case.holder = "boot-1"
    case.clock.now += 100 * LIVING_SECONDS

    assert case.accounts.knows(BOOT)
    with pytest.raises(Forged):
        case.accounts.prove(BOOT, "executor-mails")


def test_what_an_intruder_says_does_not_keep_a_boot_alive(case: Case) -> None:
    case.clock.now += LIVING_SECONDS
    with pytest.raises(Forged):
        case.accounts.prove(BOOT, "executor-mails")
    case.clock.now += 1

    assert not case.accounts.knows(BOOT)
    case.accounts.prove(BOOT, "executor-mails")


def test_what_the_registry_says_counts_and_not_who_was_heard_first(case: Case) -> None:
    other = Boot("reports", "reports-1", "boot-2")
    case.accounts.prove(other, "executor-mails")

    case.accounts.settle(other, "executor-reports")

    case.accounts.prove(other, "executor-reports")
    with pytest.raises(Forged):
        case.accounts.prove(other, "executor-mails")


def test_another_start_and_another_executor_may_have_another_account(case: Case) -> None:
    for boot in (BOOT._replace(boot_id="boot-2"), BOOT._replace(app="mails")):
        case.accounts.settle(boot, "executor-mails")
        case.accounts.prove(boot, "executor-mails")

    case.accounts.prove(BOOT, "executor-reports")


def test_boots_that_live_no_more_are_forgotten_but_for_holders(case: Case) -> None:
    case.holder = "boot-1"
    for number in range(2, 100):
        case.accounts.settle(BOOT._replace(boot_id=f"boot-{number}"), "executor-reports")
        case.clock.now += LIVING_SECONDS

    assert len(case.accounts) <= 11
    assert case.accounts.knows(BOOT)
