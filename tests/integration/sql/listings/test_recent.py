"""What the command line reads, on SQLite and on MariaDB."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.support.stored_rows import Rows
from warren.sql.errors import Ambiguous, NotFound
from warren.sql.jobs import job_names
from warren.sql.listings import job_search, recent, run_messages, run_search
from warren.sql.listings.job_search import JobFilter
from warren.sql.listings.recent import DetailedRun
from warren.sql.listings.run_search import RunSearch
from warren.sql.run_status import RunStatus

NOON = 1_796_126_400_000  # 2026-12-01T12:00:00Z


@pytest.fixture
def rows(any_schema_url: str) -> Iterator[Rows]:
    rows = Rows(any_schema_url)
    yield rows
    rows.database.close()


def ids(
    rows: Rows, *, job: str | None = None, status: RunStatus | None = None, **wanted: Any
) -> list[int]:
    def read(session: Session) -> list[int]:
        search = RunSearch(
            job_id=None if job is None else job_names.find(session, job).id,
            statuses=frozenset({status} if status else ()),
            **wanted,
        )
        search = recent.along_jobs(session, search, app_ids=None)
        return [run.id for run in run_search.page(session, search).runs]

    return rows.database.read(read)


def jobs(rows: Rows, app: str | None = None) -> list[tuple[str, str, str | None]]:
    wanted = JobFilter(app=app)
    found = rows.database.read(lambda session: job_search.search(session, wanted, now_ms=NOON))
    return [(row.app, row.name, row.last_status) for row in found]


def test_jobs_are_in_the_order_of_app_and_name(rows: Rows) -> None:
    for app, name in (("reports", "b"), ("reports", "a"), ("mails", "c")):
        rows.job(name, app)

    assert jobs(rows) == [("reports", "a", None), ("reports", "b", None), ("mails", "c", None)]
    assert jobs(rows, app="mails") == [("mails", "c", None)]


def test_job_shows_the_last_attempt_of_its_last_tick(rows: Rows) -> None:
    job = rows.job("a")
    rows.run(job, NOON - 60_000, status="SUCCEEDED")
    rows.run(job, NOON - 30_000, status="FAILED")
    rows.run(job, NOON - 20_000, scheduled_at=NOON - 30_000, attempt=1, status="RUNNING")
    rows.run(job, NOON + 5_000, status="PLANNED")

    assert jobs(rows) == [("reports", "a", "RUNNING")]


def test_job_without_a_run_is_shown_all_the_same(rows: Rows) -> None:
    rows.job("a")

    assert jobs(rows) == [("reports", "a", None)]


def test_runs_due_last_come_first_up_to_the_limit(rows: Rows) -> None:
    job = rows.job("a")
    made = [rows.run(job, NOON + second * 1_000) for second in (3, 1, 2)]

    assert ids(rows) == [made[0], made[2], made[1]]
    assert ids(rows, limit=1) == [made[0]]


def test_runs_are_filtered_by_job_status_and_time(rows: Rows) -> None:
    one, other = rows.job("one"), rows.job("other")
    first = rows.run(one, NOON, status="FAILED")
    second = rows.run(one, NOON + 10_000, status="SUCCEEDED")
    third = rows.run(other, NOON + 20_000, status="FAILED")

    assert ids(rows, job="one") == [second, first]
    assert ids(rows, status=RunStatus.FAILED) == [third, first]
    assert ids(rows, since_ms=NOON + 10_000) == [third, second]
    assert ids(rows, since_ms=NOON + 10_001) == [third]
    assert ids(rows, job="one", status=RunStatus.FAILED, since_ms=NOON) == [first]
    assert ids(rows, job="other", status=RunStatus.SUCCEEDED) == []


@pytest.mark.parametrize("millisecond", [0, 1, 499, 500, 501, 999])
def test_since_is_exact_to_the_millisecond(rows: Rows, millisecond: int) -> None:
    job = rows.job("a")
    run = rows.run(job, NOON + millisecond)

    assert ids(rows, since_ms=NOON + millisecond) == [run]
    assert ids(rows, since_ms=NOON + millisecond + 1) == []


def test_tick_is_all_shards_and_attempts_and_nothing_else(rows: Rows) -> None:
    job = rows.job("a")
    shards = [rows.run(job, NOON, shard_index=n, shard_total=2, status="FAILED") for n in (0, 1)]
    retry = rows.run(job, NOON + 5_000, scheduled_at=NOON, shard_index=1, shard_total=2, attempt=1)
    rows.run(job, NOON, origin_id=None)
    rows.run(job, NOON + 1_000)
    rows.run(rows.job("b"), NOON)

    assert set(ids(rows, tick_of=shards[0])) == {*shards, retry}
    assert set(ids(rows, tick_of=retry)) == {*shards, retry}
    assert set(ids(rows, tick_of=retry, job="a", status=RunStatus.FAILED)) == set(shards)
    assert ids(rows, tick_of=retry, job="b") == []


def test_of_a_large_tick_the_last_attempts_are_listed_in_order_without_logs(rows: Rows) -> None:
    job = rows.job("a")
    made = {
        (shard, attempt): rows.run(
            *(job, NOON), shard_index=shard, shard_total=3, attempt=attempt, log_tail="the end"
        )
        for attempt in (0, 1)
        for shard in (2, 1, 0)
    }

    def last(**limits: int) -> list[DetailedRun]:
        def read(session: Session) -> list[DetailedRun]:
            return recent.last_of_tick(session, recent.run(session, made[0, 0]), **limits)

        return rows.database.read(read)

    assert [run.id for run in last()] == [made[place] for place in sorted(made)]
    few = [made[0, 0], made[0, 1], made[1, 1], made[2, 1]]
    assert [run.id for run in last(most=4)] == few
    assert {run.log_tail for run in last()} == {None}


@pytest.mark.parametrize(("most_bytes", "attempts"), [(30, [0, 1, 2]), (29, [1, 2]), (1, [2])])
def test_a_tick_is_listed_up_to_the_size_of_its_texts_but_never_nothing(
    rows: Rows, most_bytes: int, attempts: list[int]
) -> None:
    job = rows.job("a")
    texts = {"param": "four", "message": "three", "trigger_message": "1"}
    made = [rows.run(job, NOON, attempt=attempt, **texts) for attempt in range(3)]

    def read(session: Session) -> list[DetailedRun]:
        run = recent.run(session, made[0])
        return recent.last_of_tick(session, run, most_bytes=most_bytes)

    assert [run.attempt for run in rows.database.read(read)] == attempts


def test_run_of_a_deleted_job_is_kept_without_its_name(rows: Rows) -> None:
    run = rows.run(4711, NOON)

    found = rows.database.read(lambda session: recent.run(session, run))

    assert (found.job, found.job_id, found.app) == (None, 4711, "reports")


def test_what_is_not_there_is_named(rows: Rows) -> None:
    with pytest.raises(NotFound, match="NO_RUN id=7"):
        rows.database.read(lambda session: recent.run(session, 7))
    with pytest.raises(NotFound, match="NO_RUN id=7"):
        ids(rows, tick_of=7)
    with pytest.raises(NotFound, match="NO_JOB_NAMED name='x'"):
        ids(rows, job="x")
    with pytest.raises(NotFound, match="NO_JOB_NAMED name='x'"):
        rows.database.read(lambda session: job_names.find(session, "x"))


def test_name_of_two_apps_needs_its_app(rows: Rows) -> None:
    rows.job("a", "reports")
    mail = rows.job("a", "mails")

    with pytest.raises(Ambiguous, match="name='a'"):
        rows.database.read(lambda session: job_names.find(session, "a"))
    assert rows.database.read(lambda session: job_names.find(session, "mails/a")).id == mail


def test_runs_in_flight_are_counted(rows: Rows) -> None:
    job = rows.job("a")
    for second, status in enumerate(RunStatus):
        rows.run(job, NOON + second * 1_000, status=status)

    assert rows.database.read(recent.count_in_flight) == 3


def test_runs_are_found_by_their_ids(rows: Rows) -> None:
    job = rows.job("a")
    one, two = rows.run(job, NOON), rows.run(job, NOON + 1)

    found = rows.database.read(lambda session: run_messages.by_ids(session, [one, two, 99_999]))

    assert {row.id for row in found} == {one, two}
