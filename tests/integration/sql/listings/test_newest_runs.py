"""Runs of any states and apps in one order, whatever is due in the same instant."""

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest
from sqlalchemy import insert

from tests.support.sql_rows import NOW_MS, all_runs, new_run, plan, put
from warren.sql.engine import Database
from warren.sql.listings import newest_runs
from warren.sql.listings.newest_runs import Place, ReadSizes, RunSelection
from warren.sql.models import App, Run
from warren.sql.run_status import RunStatus
from warren.sql.runs import planned_runs

STATES = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.LOST, RunStatus.RUNNING)
APPS = 12
LIMIT = 7
#: Few parts at a time.
SIZES = ReadSizes(partitions=6, partition_rows=2, all_rows=30, stream_rows=2, stream_partitions=3)


@pytest.fixture
def filled(database: Database) -> Database:
    """Runs of many apps and states, most of them due in few instants."""
    database.write(
        lambda session: session.execute(
            insert(App),
            [{"name": f"app-{n}", "title": "", "address_type": 0} for n in range(APPS)],
        )
    )
    app_ids = database.read(
        lambda session: sorted(session.execute(App.__table__.select()).scalars())
    )
    chance = Random(4)
    news = [_new(chance, chance.choice(app_ids), number) for number in range(400)]
    run_ids = plan(database, *news)
    for state in STATES:
        put(database, [run_id for run_id in run_ids if chance.random() < 0.3], status=state)
    return database


def _new(chance: Random, app_id: int, number: int) -> planned_runs.NewRun:
    due_at = NOW_MS + 1_000 * chance.choice([0, 0, 0, 1, 1, 2, 3, chance.randrange(50)])
    return new_run(app_id=app_id, job_id=number, scheduled_at=due_at, due_at=due_at)


def selection(**wanted: Any) -> RunSelection:
    return RunSelection(statuses=wanted.pop("statuses", frozenset(STATES)), sizes=SIZES, **wanted)


def walk(database: Database, wanted: RunSelection) -> tuple[list[Place], int]:
    """Return all places, read piece by piece, and how many pieces there were."""
    found: list[Place] = []
    for piece in range(1, 1_000):
        newest = database.read(lambda s, w=wanted: newest_runs.read(s, w, limit=LIMIT))
        found += [place for place, _ in newest.rows]
        if newest.end is None:
            return found, piece
        assert wanted.before is None or newest.end < wanted.before, "it goes on from further back"
        assert len(newest.rows) <= newest.looked_at < 40
        wanted = replace(wanted, before=newest.end)
    raise AssertionError("it has no end")


def expected(database: Database, wanted: RunSelection) -> list[Place]:
    fitting = [run for run in all_runs(database) if _fits(run, wanted)]
    return sorted(((run.due_at, run.id) for run in fitting), reverse=True)


def _fits(run: Run, wanted: RunSelection) -> bool:
    return (
        run.status in wanted.statuses
        and (wanted.app_ids is None or run.app_id in wanted.app_ids)
        and (wanted.since_ms is None or run.due_at >= wanted.since_ms)
        and (wanted.until_ms is None or run.due_at < wanted.until_ms)
    )


#: From when, and until when.
TIMES = ((None, None), (NOW_MS + 1, None), (None, NOW_MS + 2_000))


def test_read_piece_by_piece_each_run_is_there_once_and_in_order(filled: Database) -> None:
    wrong = {}

    for states, times in product((STATES[1:2], STATES[1:3], STATES), TIMES):
        since_ms, until_ms = times
        statuses = frozenset(states)
        wanted = selection(statuses=statuses, app_ids=None, since_ms=since_ms, until_ms=until_ms)

        found, pieces = walk(filled, wanted)

        if found != expected(filled, wanted) or pieces == 1:
            wrong[states, times] = (found, pieces)

    assert wrong == {}


def test_a_stream_gives_each_run_once_and_in_order(filled: Database) -> None:
    wrong = {}

    for app_ids, times in product((None, frozenset({1, 2, 3, 999}), frozenset()), TIMES):
        since_ms, until_ms = times
        wanted = selection(app_ids=app_ids, since_ms=since_ms, until_ms=until_ms)

        runs = filled.read(lambda session, w=wanted: list(newest_runs.stream(session, w)))

        found = [(run.due_at, run.id) for run in runs]
        if found != expected(filled, wanted):
            wrong[app_ids, times] = found

    assert wrong == {}


def test_apps_that_were_not_asked_for_are_left_out(filled: Database) -> None:
    wanted = selection(app_ids=frozenset({1, 2, 3, 999}))

    found, _ = walk(filled, wanted)

    assert found == expected(filled, wanted)


def test_the_first_piece_has_as_many_as_were_asked_for(filled: Database) -> None:
    wanted = selection(app_ids=None)

    newest = filled.read(lambda session: newest_runs.read(session, wanted, limit=5))

    assert len(newest.rows) >= 5
    assert [place for place, _ in newest.rows][:5] == expected(filled, wanted)[:5]


def test_no_app_has_no_run(filled: Database) -> None:
    wanted = selection(app_ids=frozenset())

    newest = filled.read(lambda session: newest_runs.read(session, wanted, limit=5))

    assert (newest.rows, newest.end, newest.looked_at) == ([], None, 0)
