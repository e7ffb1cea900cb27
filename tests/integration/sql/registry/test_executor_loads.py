"""The load of executors, minute by minute: kept once, read by time, cleared in chunks."""

from collections.abc import Iterator

import pytest

from warren.sql.engine import Database
from warren.sql.registry import presence
from warren.sql.registry.presence import LoadPoint

MINUTE_MS = 60_000


@pytest.fixture
def database(any_schema_url: str) -> Iterator[Database]:
    database = Database(any_schema_url)
    yield database
    database.close()


def point(executor_id: int, minute: int, running: int = 1) -> LoadPoint:
    return LoadPoint(executor_id, minute * MINUTE_MS, 4, running, 0, 10, 20)


def keep(database: Database, *points: LoadPoint) -> None:
    database.write(lambda session: presence.keep_loads(session, points))


def since(database: Database, *executor_ids: int, minute: int = 0) -> list[LoadPoint]:
    return database.read(
        lambda session: presence.loads_since(session, executor_ids, minute * MINUTE_MS)
    )


def test_of_two_schedulers_the_first_keeps_a_minute(database: Database) -> None:
    keep(database, point(1, 1, running=3), point(2, 1))
    keep(database, point(1, 1, running=4), point(1, 2))

    assert since(database, 1) == [point(1, 1, running=3), point(1, 2)]


def test_points_are_those_of_the_executors_asked_for_from_an_instant_on(
    database: Database,
) -> None:
    keep(database, *[point(one, minute) for one in (1, 2, 3) for minute in range(5)])

    assert since(database, 1, 3, minute=4) == [point(1, 4), point(3, 4)]
    assert since(database) == []


def test_what_is_past_its_time_goes_and_the_rest_stays(database: Database) -> None:
    keep(database, *[point(1, minute) for minute in range(10)])

    def forget() -> bool:
        return database.write(
            lambda session: presence.forget_loads(session, before_ms=5 * MINUTE_MS)
        )

    assert [forget(), forget()] == [True, False]
    assert [one.minute_at // MINUTE_MS for one in since(database, 1)] == [5, 6, 7, 8, 9]
