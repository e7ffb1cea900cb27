"""Who holds an address is decided once, whoever asks at the same time."""

from dataclasses import replace

import pytest

from tests.support.sql_rows import NOW_MS, side_by_side
from warren.sql.engine import Database
from warren.sql.registry import presence
from warren.sql.registry.presence import ADMIN, EXECUTOR, Beat

BEAT = Beat(kind=EXECUTOR, app="demo", address="host-1", boot_id="first", beat_at=NOW_MS)
RIVAL = replace(BEAT, boot_id="second", beat_at=NOW_MS + 1)


def hold(database: Database, beat: Beat) -> str:
    return database.write(lambda session: presence.hold(session, beat))


def supersede(database: Database, beat: Beat, old_boot_id: str) -> bool:
    return database.write(
        lambda session: presence.supersede(session, beat, old_boot_id=old_boot_id)
    )


def renew(database: Database, beat: Beat) -> bool:
    return database.write(lambda session: presence.renew(session, beat))


def leave(database: Database, beat: Beat) -> bool:
    return database.write(
        lambda session: presence.leave(session, beat.kind, beat.app, beat.address, beat.boot_id)
    )


def holder(database: Database) -> str | None:
    return database.read(lambda session: presence.holder(session, EXECUTOR, "demo", "host-1"))


def test_the_first_boot_holds_its_address(database: Database) -> None:
    assert holder(database) is None

    assert hold(database, BEAT) == "first"

    assert hold(database, BEAT) == "first"
    assert hold(database, RIVAL) == "first"
    assert holder(database) == "first"


def test_of_many_boots_at_once_one_holds_the_address_and_all_are_told_which(
    database: Database,
) -> None:
    beats = [replace(BEAT, boot_id=f"boot-{number}") for number in range(6)]

    told = side_by_side(*[lambda beat=beat: hold(database, beat) for beat in beats])

    assert set(told) == {holder(database)}


def test_of_many_schedulers_one_replaces_a_dead_boot(database: Database) -> None:
    hold(database, BEAT)
    rivals = [replace(RIVAL, boot_id=f"boot-{number}") for number in range(6)]

    won = side_by_side(*[lambda beat=beat: supersede(database, beat, "first") for beat in rivals])

    assert won.count(True) == 1
    assert holder(database) == rivals[won.index(True)].boot_id


def test_a_boot_that_holds_nothing_cannot_be_replaced(database: Database) -> None:
    hold(database, BEAT)

    assert not supersede(database, RIVAL, "somebody")
    assert holder(database) == "first"


def test_a_beat_renews_what_its_boot_holds(database: Database) -> None:
    hold(database, BEAT)

    later = replace(BEAT, beat_at=NOW_MS + 5_000, load='{"slots": 4}', draining=True)
    assert renew(database, later)

    [row] = database.read(lambda session: presence.listing(session, EXECUTOR))
    assert (row.beat_at, row.boot_at, row.load, row.draining) == (
        NOW_MS + 5_000,
        NOW_MS,
        '{"slots": 4}',
        1,
    )


@pytest.mark.parametrize(
    "beat", [replace(BEAT, beat_at=NOW_MS - 1), BEAT, RIVAL, replace(BEAT, app="other", beat_at=9)]
)
def test_an_old_beat_or_another_boots_renews_nothing(database: Database, beat: Beat) -> None:
    hold(database, BEAT)

    assert not renew(database, beat)

    [row] = database.read(lambda session: presence.listing(session, EXECUTOR))
    assert (row.boot_id, row.beat_at) == ("first", NOW_MS)


def test_a_beat_is_stored_after_the_clock_was_set_back(database: Database) -> None:
    hold(database, BEAT)

    assert renew(database, replace(BEAT, beat_at=NOW_MS - 3_600_000))

    [row] = database.read(lambda session: presence.listing(session, EXECUTOR))
    assert row.beat_at == NOW_MS - 3_600_000


def test_only_the_holder_can_leave(database: Database) -> None:
    hold(database, BEAT)

    assert not leave(database, RIVAL)
    assert holder(database) == "first"
    assert leave(database, BEAT)
    assert not leave(database, BEAT)
    assert hold(database, RIVAL) == "second"


def test_a_kind_is_listed_by_app_and_address(database: Database) -> None:
    for app, address in (("b", "2"), ("b", "1"), ("a", "9")):
        hold(database, replace(BEAT, app=app, address=address))
    hold(database, replace(BEAT, kind=ADMIN, app="scheduler"))

    rows = database.read(lambda session: presence.listing(session, EXECUTOR))

    assert [(row.app, row.address) for row in rows] == [
        ("a", "9"),
        ("b", "1"),
        ("b", "2"),
    ]


# -- the account that speaks for a boot ----------------------------------------------------------

OURS = replace(BEAT, account="executor-demo")
THEIRS = replace(BEAT, account="executor-mails")


def claim(database: Database, beat: Beat) -> str | None:
    return database.write(lambda session: presence.claim(session, beat))


def account(database: Database, boot_id: str = "first") -> str | None:
    return database.read(
        lambda session: presence.account(session, EXECUTOR, "demo", "host-1", boot_id)
    )


def test_a_boot_is_registered_with_its_account_and_no_other_takes_it(database: Database) -> None:
    hold(database, OURS)

    hold(database, THEIRS)
    renew(database, replace(THEIRS, beat_at=NOW_MS + 1))

    assert claim(database, THEIRS) == "executor-demo"
    assert account(database) == "executor-demo"
    assert account(database, "second") is None


def test_a_boot_of_before_gets_the_first_account_of_many_at_once(database: Database) -> None:
    hold(database, BEAT)
    beats = [replace(BEAT, account=f"account-{number}") for number in range(6)]

    told = side_by_side(*[lambda beat=beat: claim(database, beat) for beat in beats])

    assert set(told) == {account(database)} <= {beat.account for beat in beats}


def test_no_account_is_an_account_too(database: Database) -> None:
    hold(database, replace(BEAT, account=""))

    assert claim(database, THEIRS) == ""


def test_a_boot_that_holds_nothing_claims_nothing(database: Database) -> None:
    hold(database, BEAT)

    assert claim(database, replace(RIVAL, account="executor-mails")) is None
    assert account(database) is None


def test_the_boot_that_replaces_another_brings_its_own_account(database: Database) -> None:
    hold(database, OURS)

    supersede(database, replace(RIVAL, account="executor-new"), "first")

    assert account(database) is None
    assert account(database, "second") == "executor-new"


@pytest.mark.parametrize("known", [None, "", "executor-demo"])
def test_only_a_boots_own_account_says_goodbye_for_it(
    database: Database, known: str | None
) -> None:
    hold(database, replace(BEAT, account=known))

    def bye(user: str) -> bool:
        return database.write(
            lambda session: presence.leave(
                session, EXECUTOR, "demo", "host-1", "first", account=user
            )
        )

    assert known is None or not bye("executor-mails")
    assert bye(known or "")
    assert holder(database) is None
