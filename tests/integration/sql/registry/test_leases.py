"""Leases: one holder at a time, and the next one when the first is silent or has left."""

from tests.support.sql_rows import NOW_MS, side_by_side
from warren.sql.engine import Database
from warren.sql.registry import cluster


def hold(database: Database, holder: str, now_ms: int = NOW_MS, name: str = "report") -> bool:
    return database.write(
        lambda session: cluster.hold(session, name, holder, now_ms=now_ms, until_ms=now_ms + 15_000)
    )


def test_the_first_holds_it_and_may_go_on_holding_it(database: Database) -> None:
    assert hold(database, "one")
    assert not hold(database, "two", NOW_MS + 14_999)
    assert hold(database, "one", NOW_MS + 10_000)
    assert not hold(database, "two", NOW_MS + 15_000)
    assert hold(database, "two", NOW_MS + 25_000)
    assert not hold(database, "one", NOW_MS + 26_000)


def test_of_many_who_ask_at_once_one_gets_it(database: Database) -> None:
    names = [f"node-{number}" for number in range(6)]

    found = side_by_side(*[lambda name=name: hold(database, name) for name in names])

    assert sum(found) == 1


def test_whoever_leaves_makes_room_and_nobody_else_can(database: Database) -> None:
    hold(database, "one")

    database.write(lambda session: cluster.release(session, "report", "two"))
    assert not hold(database, "two")

    database.write(lambda session: cluster.release(session, "report", "one"))
    assert hold(database, "two")


def test_each_name_is_a_lease_of_its_own(database: Database) -> None:
    assert hold(database, "one", name="report")
    assert hold(database, "two", name="retention")
