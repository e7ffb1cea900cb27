"""Whatever is asked about runs, the database reads about a page of them, however many there are.

Counted by the server itself: an execution plan tells an index, not where a limit ends the reading.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.support.crowd import RUNS, counting_rows, crowd
from tests.support.mariadb import SERVER
from tests.support.sql_rows import NOW_MS
from warren.sql.engine import Database
from warren.sql.jobs import job_names
from warren.sql.listings import recent, run_relations, run_search
from warren.sql.listings.run_search import RunPage, RunSearch
from warren.sql.run_status import FAILURES, OPEN, RunStatus

LOOKED_AT = 500
#: A few statements of a page each: its keys, then its lines with job and app.
PAGE = 400
#: Where a page ended within a second, the runs of that second before it are passed again.
SECOND = 1_000
#: PostgreSQL may join a page with all jobs that have runs, in the order of their ids.
JOBS_WITH_RUNS = 500
FEW_APPS = frozenset({1, 2, 3})
SUCCEEDED = frozenset({RunStatus.SUCCEEDED})

SEARCHES = [
    ("all", {}, PAGE),
    ("an app", {"app_ids": {3}}, 1_000),
    ("apps of a viewer", {"app_ids": FEW_APPS}, 3_000),
    ("a state", {"statuses": SUCCEEDED}, 1_000),
    ("failures", {"statuses": FAILURES}, 2_000),
    ("open ones of an app", {"statuses": OPEN, "app_ids": {2}}, 1_000),
    ("a state nobody has", {"statuses": frozenset({RunStatus.LOST})}, 100),
    ("a job", {"job_id": 7}, PAGE),
    ("failures of a job", {"job_id": 7, "statuses": FAILURES}, LOOKED_AT + PAGE),
    ("a time of a job", {"job_id": 7, "since_ms": NOW_MS + 9_000}, 1_000),
    ("some jobs", {"job_ids": range(1, 50)}, 50 * 41 + PAGE),
    ("failures of some jobs", {"job_ids": (7, 8), "statuses": FAILURES}, 2 * LOOKED_AT + PAGE),
    ("a message", {"text": "absent"}, SECOND + 2 * LOOKED_AT + PAGE),
    ("a message of failures", {"text": "a # b", "statuses": FAILURES}, 2 * LOOKED_AT + 1_000),
    ("a time", {"since_ms": NOW_MS + 9_000, "until_ms": NOW_MS + 20_000}, PAGE),
    ("a time of an app", {"app_ids": {1}, "until_ms": NOW_MS + 20_000}, 1_000),
    ("a kind nobody has", {"kind": "API"}, SECOND + LOOKED_AT + PAGE),
    ("an address", {"address": "exec-3"}, SECOND + LOOKED_AT + PAGE),
    ("an address nobody has", {"address": "absent", "app_ids": {4}}, LOOKED_AT + 1_000),
    ("a kind of a state", {"kind": "API", "statuses": SUCCEEDED}, LOOKED_AT + 1_000),
    ("a kind of a job", {"kind": "API", "job_id": 9}, LOOKED_AT + PAGE),
    ("everything", {"kind": "API", "app_ids": FEW_APPS, "statuses": OPEN, "address": "x"}, 3_000),
]


@pytest.fixture(scope="module", params=["mysql_server", "postgresql"])
def crowded(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Many jobs, of which few are due, and many runs, of which few are open."""
    if request.param == "mysql_server" and SERVER != "mariadbd":
        pytest.skip("fills its tables from MariaDB's sequences")
    with crowd(request.getfixturevalue(request.param)) as database:
        yield database


def sorted_at_once(database: Database) -> int:
    """Return how many runs of a second are read whole: PostgreSQL's index of times has no ids."""
    return SECOND if database.dialect.name == "postgresql" else 0


def reads(database: Database, work: Callable[[Session], Any]) -> tuple[int, Any]:
    """Return how many rows the server read, of tables and indexes, and what came of it."""
    found, rows = database.read(lambda session: counting_rows(session, work))
    return rows, found


@pytest.mark.parametrize(
    ("asked", "most"), [case[1:] for case in SEARCHES], ids=[case[0] for case in SEARCHES]
)
def test_each_page_reads_a_page(
    crowded: Database,
    asked: dict[str, Any],
    most: int,
) -> None:
    before = None
    most += JOBS_WITH_RUNS if crowded.dialect.name == "postgresql" else 0
    most += sorted_at_once(crowded)

    for _ in range(3):
        wanted = RunSearch(before=before, looked_at=LOOKED_AT, **asked)
        count, found = reads(crowded, lambda session, w=wanted: run_search.page(session, w))

        assert isinstance(found, RunPage)
        assert count <= most < sum(RUNS.values()) / 10
        before = found.older
        if before is None:
            break


def test_a_sweep_ends_at_either_bound(
    crowded: Database,
) -> None:
    failed, absent = RunSearch(statuses=FAILURES), RunSearch(kind="absent")

    count, found = reads(
        crowded, lambda session: run_search.sweep(session, failed, most=300, looked_at=9_999)
    )
    _, none = reads(
        crowded, lambda session: run_search.sweep(session, absent, most=300, looked_at=4_000)
    )

    assert (len(found.run_ids), found.is_all) == (300, False)
    assert (none.run_ids, none.is_all) == ([], False)
    assert count < 10_000


def test_a_sweep_of_states_reads_each_run_about_once(
    crowded: Database,
) -> None:
    failed = RunSearch(statuses=FAILURES)

    count, found = reads(
        crowded, lambda session: run_search.sweep(session, failed, most=9_999, looked_at=9_999)
    )

    assert len(found.run_ids) > 1_000
    assert count < 3 * len(found.run_ids) + 2_000


def test_many_parts_are_asked_for_little_at_a_time(
    crowded: Database,
) -> None:
    wanted = RunSearch(app_ids=frozenset(range(1, 300)), statuses=FAILURES)

    count, found = reads(crowded, lambda session: run_search.page(session, wanted))

    assert len(found.runs) == wanted.limit
    assert count < 8_000


def test_a_run_and_what_belongs_to_it_are_read_by_keys(
    crowded: Database,
) -> None:
    def work(session: Session) -> None:
        run = recent.run(session, 1_234)
        run_relations.relations(session, run, None)

    crowded.read(work)  # the server then knows the statistics of these tables
    count, _ = reads(crowded, work)

    assert count < 50


def test_a_jobs_last_run_is_read_from_the_end_of_its_index(
    crowded: Database,
) -> None:
    count, is_there = reads(crowded, lambda session: recent.has_runs(session, 7, None))

    assert is_there
    assert count < 5


def test_a_job_is_found_by_its_name_in_an_index(
    crowded: Database,
) -> None:
    for name, app_ids in (("job-11", {2}), ("app-2/job-11", None), ("app-2/job-11", {2})):
        count, found = reads(
            crowded, lambda session, n=name, a=app_ids: job_names.ids_named(session, n, a)
        )
        assert list(found) == [11]
        assert count < 50, (name, count)


@pytest.mark.parametrize(
    "asked", [case[1] for case in SEARCHES], ids=[case[0] for case in SEARCHES]
)
def test_runs_are_counted_as_a_sweep_would_find_them(
    crowded: Database,
    asked: dict[str, Any],
) -> None:
    wanted, limits = RunSearch(**asked), {"most": 2_000, "looked_at": 100_000}

    swept = crowded.read(lambda session: run_search.sweep(session, wanted, **limits))
    counted = crowded.read(lambda session: run_search.count(session, wanted, **limits))

    assert (counted.number, counted.is_all) == (len(swept.run_ids), swept.is_all)


def test_a_count_ends_at_either_bound(
    crowded: Database,
) -> None:
    every, absent = RunSearch(), RunSearch(kind="absent")

    read, found = reads(
        crowded, lambda session: run_search.count(session, every, most=300, looked_at=9_999)
    )
    read_more, none = reads(
        crowded, lambda session: run_search.count(session, absent, most=300, looked_at=2_000)
    )

    assert (found.number, found.is_all) == (300, False)
    assert (none.number, none.is_all) == (0, False)
    assert read < 1_000 + sorted_at_once(crowded)
    assert read_more < 5_000
