"""Jobs are claimed without overlap and without waiting, and read as they are now."""

import threading

import pytest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tests.support.server_words import wait_briefly
from tests.support.sql_rows import NOW_MS, add_job, side_by_side
from warren.sql.engine import Database
from warren.sql.errors import Ambiguous, NotFound
from warren.sql.explanation import Explanation
from warren.sql.jobs import due_jobs, job_names, job_rows
from warren.sql.models import Job
from warren.sql.registry import apps


def add_due(database: Database, count: int) -> list[int]:
    return [
        add_job(database, f"job-{number}", is_enabled=1, next_tick_at=NOW_MS + number)
        for number in range(count)
    ]


def get(database: Database, job_id: int) -> Job:
    return database.read(lambda session: session.get_one(Job, job_id))


class TestClaimDue:
    def test_due_jobs_come_in_the_order_of_their_ticks(self, database: Database) -> None:
        late = add_job(database, "late", is_enabled=1, next_tick_at=NOW_MS + 9)
        early = add_job(database, "early", is_enabled=1, next_tick_at=NOW_MS)
        add_job(database, "resting", is_enabled=0, next_tick_at=NOW_MS)
        add_job(database, "later", is_enabled=1, next_tick_at=NOW_MS + 11)

        def claim(limit: int) -> list[int]:
            return database.write(
                lambda session: [
                    row.id for row in due_jobs.claim_due(session, until_ms=NOW_MS + 10, limit=limit)
                ]
            )

        assert claim(10) == [early, late]
        assert claim(1) == [early]

    def test_two_planners_share_the_jobs_without_waiting(self, mariadb_database: Database) -> None:
        job_ids = add_due(mariadb_database, 10)
        claimed, let_go = threading.Event(), threading.Event()

        def hold(session: Session) -> list[int]:
            rows = due_jobs.claim_due(session, until_ms=NOW_MS + 99, limit=6)
            claimed.set()
            assert let_go.wait(60)
            return [row.id for row in rows]

        def take(session: Session) -> list[int]:
            assert claimed.wait(30)
            wait_briefly(session, mariadb_database)
            rows = due_jobs.claim_due(session, until_ms=NOW_MS + 99, limit=6)
            let_go.set()
            return [row.id for row in rows]

        first, second = side_by_side(
            lambda: mariadb_database.write(hold), lambda: mariadb_database.write(take)
        )

        assert (first, second) == (job_ids[:6], job_ids[6:])

    def test_an_empty_claim_does_not_keep_others_from_inserting(
        self, mariadb_database: Database
    ) -> None:
        empty, inserted = threading.Event(), threading.Event()

        def claim(session: Session) -> int:
            rows = due_jobs.claim_due(session, until_ms=NOW_MS + 99, limit=6)
            empty.set()
            assert inserted.wait(60)
            return len(rows)

        def insert() -> int:
            assert empty.wait(30)
            add_due(mariadb_database, 2)
            inserted.set()
            return 0

        found, _ = side_by_side(lambda: mariadb_database.write(claim), insert)

        assert found == 0

    def test_the_next_tick_is_the_earliest_of_an_enabled_job(self, database: Database) -> None:
        assert database.read(due_jobs.next_tick) is None
        add_job(database, "resting", next_tick_at=5)
        add_due(database, 3)

        assert database.read(due_jobs.next_tick) == NOW_MS


class TestAdvance:
    def test_each_job_moves_to_its_own_tick(self, database: Database) -> None:
        job_ids = add_due(database, 3)
        add_job(database, "stopped")
        rows = [
            {"id": job_id, "last_tick_at": NOW_MS + job_id, "next_tick_at": 7 + job_id}
            for job_id in job_ids
        ]

        database.write(lambda session: due_jobs.advance(session, rows))

        for job_id in job_ids:
            job = get(database, job_id)
            assert (job.last_tick_at, job.next_tick_at) == (NOW_MS + job_id, 7 + job_id)

    def test_a_job_that_rests_stays_where_it_is(self, database: Database) -> None:
        job_id = add_job(database, last_tick_at=3)
        row = {"id": job_id, "last_tick_at": 9, "next_tick_at": 9}

        database.write(lambda session: due_jobs.advance(session, [row]))

        assert get(database, job_id).last_tick_at == 3

    def test_a_job_that_stops_by_itself_says_why(self, database: Database) -> None:
        [job_id] = add_due(database, 1)

        database.write(
            lambda session: due_jobs.stop(
                session,
                [
                    due_jobs.JobStop(
                        job_id=job_id, reason=Explanation("🛑" * 600, "{}"), watermark_ms=NOW_MS
                    )
                ],
            )
        )

        job = get(database, job_id)
        assert (job.is_enabled, job.next_tick_at, job.last_tick_at) == (
            0,
            0,
            NOW_MS,
        )
        assert job.stop_reason == "🛑" * 512


class TestLock:
    def test_a_locked_job_is_as_it_is_now_though_it_was_read_before(
        self, mariadb_database: Database
    ) -> None:
        [job_id] = add_due(mariadb_database, 1)
        read, moved = threading.Event(), threading.Event()

        def edit(session: Session) -> int:
            assert session.get_one(Job, job_id).last_tick_at == 0
            read.set()
            assert moved.wait(30)
            return job_rows.lock(session, job_id).last_tick_at

        def advance() -> int:
            assert read.wait(30)
            row = {"id": job_id, "last_tick_at": NOW_MS, "next_tick_at": NOW_MS + 1}
            mariadb_database.write(lambda session: due_jobs.advance(session, [row]))
            moved.set()
            return 0

        seen, _ = side_by_side(lambda: mariadb_database.write(edit), advance)

        assert seen == NOW_MS

    def test_a_job_that_is_gone_is_said_so(self, database: Database) -> None:
        with pytest.raises(NotFound, match="NO_JOB id=5"):
            database.write(lambda session: job_rows.lock(session, 5))


class TestFind:
    @pytest.fixture
    def two_apps(self, database: Database) -> Database:
        def unit(session: Session) -> None:
            for app, name in (("one", "shared"), ("two", "shared"), ("two", "single")):
                app_id, _ = apps.ensure(session, app)
                session.add(Job(app_id=app_id, name=name))

        database.write(unit)
        return database

    @pytest.mark.parametrize(
        ("name", "app"), [("single", "two"), ("one/shared", "one"), ("two/shared", "two")]
    )
    def test_a_job_is_found_by_its_name(self, two_apps: Database, name: str, app: str) -> None:
        job = two_apps.read(lambda session: job_names.find(session, name))

        app_ids = two_apps.read(apps.ids_by_name)
        assert (job.name, job.app_id) == (name.rpartition("/")[2], app_ids[app])

    @pytest.mark.parametrize("name", ["absent", "one/single", "three/single", "", "/", "%"])
    def test_a_name_that_no_job_has_is_said_so(self, two_apps: Database, name: str) -> None:
        with pytest.raises(NotFound, match="NO_JOB_NAMED"):
            two_apps.read(lambda session: job_names.find(session, name))

    def test_a_name_that_two_apps_share_must_name_its_app(self, two_apps: Database) -> None:
        with pytest.raises(Ambiguous, match="SEVERAL_JOBS_NAMED name='shared'"):
            two_apps.read(lambda session: job_names.find(session, "shared"))

    def test_one_app_has_no_two_jobs_of_one_name(self, database: Database) -> None:
        add_job(database, "same")

        with pytest.raises(IntegrityError):
            add_job(database, "same")

    def test_a_deleted_jobs_id_is_not_given_again(self, database: Database) -> None:
        first = add_job(database, "first")
        database.write(lambda session: session.delete(session.get_one(Job, first)))

        assert add_job(database, "second") > first

    def test_what_runs_need_of_their_jobs_is_found_for_many_at_once(
        self, database: Database
    ) -> None:
        job_id = add_job(database, retry_delay=7)

        found = database.read(
            lambda session: job_rows.for_runs(session, range(job_id - 700, job_id + 800))
        )

        assert list(found) == [job_id]
        assert (found[job_id].retry_delay, found[job_id].delivery) == (7, "AT_MOST_ONCE")
