"""Errors in groups: the newest runs, each counted once, however they are found and grouped."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import product
from random import Random

import pytest
from sqlalchemy import insert

from tests.support.sql_rows import NOW_MS, all_runs, new_run, plan, put
from warren.sql.engine import Database
from warren.sql.listings import error_groups
from warren.sql.listings.error_groups import ErrorGroups
from warren.sql.listings.run_search import RunSearch
from warren.sql.models import App, Run
from warren.sql.run_status import RunStatus

FAILED = frozenset({RunStatus.FAILED, RunStatus.LOST})
MANY = 10_000
HOUR_MS = 3_600_000
#: Messages, and the same without numbers, but for exit codes.
MESSAGES = {
    "disk 7 is full": "disk # is full",
    "disk 12 is full": "disk # is full",
    "Disk 12 is full": "Disk # is full",
    "\n  no route to 10.0.0.1  \nTraceback, line 5": "no route to #.#.#.#",
    "no route to 10.20.30.40": "no route to #.#.#.#",
    "café at 5 €": "café at # €",
    "exit code 1": "exit code 1",
    "exit code 1: 12 of 70": "exit code 1: # of #",
    "exit code 1: 13 of 71": "exit code 1: # of #",
    "exit code 137\n\nkilled in step 7": "exit code 137",
    "ended with exit code 3 without a result": "ended with exit code 3 without a result",
    "sys.exit(2)": "sys.exit(2)",
    "sys.exit(20000)": "sys.exit(#)",
    "e" * 1_000: "e" * 400,
    "7" * 1_000: "#",
    "": "",
    None: "",
}


@pytest.fixture
def failures(database: Database) -> Database:
    """Runs of a few apps and jobs; many are due in the same instant, and some are much older."""
    database.write(
        lambda session: session.execute(
            insert(App), [{"id": n, "name": f"app-{n}", "title": ""} for n in (1, 2, 3)]
        )
    )
    chance = Random(7)
    instants = [0, 0, 0, 1, 2, *(HOUR_MS * 2**n for n in range(12))]
    news = []
    for number in range(300):
        due_at = NOW_MS - chance.choice(instants)
        job_id = number % 7
        news.append(
            new_run(app_id=1 + job_id % 3, job_id=job_id, scheduled_at=number, due_at=due_at)
        )
    run_ids = plan(database, *news)
    chance.shuffle(run_ids)
    ends = list(product([RunStatus.FAILED, RunStatus.LOST, RunStatus.SUCCEEDED], MESSAGES))
    for number, (status, message) in enumerate(ends):
        put(database, run_ids[number :: len(ends)], status=status, message=message)
    return database


def read(database: Database, wanted: RunSearch, most: int = MANY) -> ErrorGroups:
    return database.read(lambda s: error_groups.read(s, wanted, most=most, looked_at=MANY))


def by_hand(database: Database, wanted: RunSearch, most: int) -> dict[tuple[int, str], set[int]]:
    runs = [
        run
        for run in all_runs(database)
        if run.status in wanted.statuses
        and (wanted.app_ids is None or run.app_id in wanted.app_ids)
        and (wanted.since_ms is None or run.due_at >= wanted.since_ms)
        and (wanted.until_ms is None or run.due_at < wanted.until_ms)
    ]
    groups = defaultdict(set)
    for run in sorted(runs, key=lambda one: (one.due_at, one.id), reverse=True)[:most]:
        groups[run.job_id, MESSAGES[run.message]].add(run.id)
    return groups


SEARCHES = {
    "all": RunSearch(statuses=FAILED),
    "of two apps": RunSearch(statuses=FAILED, app_ids={1, 3}),
    "of some hours": RunSearch(statuses=FAILED, since_ms=NOW_MS - 9 * HOUR_MS, until_ms=NOW_MS),
}


def test_the_newest_runs_are_grouped_and_no_others(failures: Database) -> None:
    runs = {run.id: run for run in all_runs(failures)}
    wrong = {}

    for name, most in product(SEARCHES, [1, 2, 20, 60, 150, MANY]):
        expected = by_hand(failures, SEARCHES[name], most)
        everything = sum(map(len, by_hand(failures, SEARCHES[name], MANY).values()))

        found = read(failures, SEARCHES[name], most)

        groups = {
            (group.job_id, group.text): (group.count, group.newest, group.last_due, group.first_due)
            for group in found.groups
        }
        counts = [group.count for group in found.groups]
        is_right = (
            groups == {key: facts(runs, ids) for key, ids in expected.items()}
            and (found.runs, found.is_all) == (min(most, everything), everything <= most)
            and counts == sorted(counts, reverse=True)
        )
        if not is_right:
            wrong[name, most] = (found, expected)

    assert wrong == {}


def facts(runs: Mapping[int, Run], ids: set[int]) -> tuple[int, int, int, int]:
    """Return how many these runs are, the newest, when it was due, and when the first was."""
    newest = max(ids, key=lambda run_id: (runs[run_id].due_at, run_id))
    return len(ids), newest, runs[newest].due_at, min(runs[run_id].due_at for run_id in ids)


def test_a_storm_in_one_millisecond_is_counted_up_to_the_limit(database: Database) -> None:
    news = [
        new_run(app_id=1, job_id=1, scheduled_at=number, due_at=NOW_MS - number // 200)
        for number in range(400)
    ]
    put(database, plan(database, *news), status=RunStatus.FAILED, message="no")

    found = read(database, RunSearch(statuses=FAILED, app_ids={1}), 50)

    assert (found.runs, found.is_all, len(found.groups)) == (50, False, 1)


@pytest.mark.parametrize(
    "searched",
    [
        RunSearch(statuses=FAILED, job_ids=range(7)),
        RunSearch(statuses=FAILED, kind="SCHEDULE"),
        RunSearch(statuses=FAILED, app_ids={1, 2, 3}, address="exec-1"),
    ],
    ids=["some jobs", "a kind", "an address"],
)
def test_runs_that_are_searched_one_by_one_are_grouped_alike(
    failures: Database, searched: RunSearch
) -> None:
    put(failures, [run.id for run in all_runs(failures)], kind="SCHEDULE", address="exec-1")
    along_index = read(failures, RunSearch(statuses=FAILED, app_ids={1, 2, 3}))

    found = read(failures, searched)

    assert found == along_index


@pytest.mark.parametrize(
    ("searched", "texts"),
    [
        (RunSearch(statuses=FAILED, text="disk # is"), {"disk # is full", "Disk # is full"}),
        (RunSearch(statuses=FAILED, text="CAFÉ"), {"café at # €"}),
        (RunSearch(statuses=FAILED, text="exit code 1: # of #"), {"exit code 1: # of #"}),
        (RunSearch(statuses=FAILED, text="exit code 2: # of #"), set()),
        (
            RunSearch(statuses=FAILED, text="Exit(#)"),
            {"sys.exit(2)", "sys.exit(#)"},
        ),
        (RunSearch(statuses=FAILED, kind="API"), set()),
        (RunSearch(statuses=FAILED, address="nowhere"), set()),
    ],
    ids=[
        "numbers",
        "any case",
        "an exit code",
        "another exit code",
        "any code",
        "a kind that none has",
        "an address that none has",
    ],
)
def test_only_runs_that_match_are_grouped(
    failures: Database, searched: RunSearch, texts: set[str]
) -> None:
    found = read(failures, searched)

    assert {one.text for one in found.groups} == texts
    assert found.is_all


def test_a_search_of_runs_one_by_one_ends_at_the_limit_too(failures: Database) -> None:
    found = read(failures, RunSearch(statuses=FAILED, job_ids=range(7)), 20)

    assert (found.runs, found.is_all) == (20, False)


def test_there_are_no_groups_of_no_apps(failures: Database) -> None:
    found = read(failures, RunSearch(statuses=FAILED, app_ids=frozenset()))

    assert (found.groups, found.runs, found.is_all) == ([], 0, True)
