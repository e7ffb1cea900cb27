"""Apps, ids, history and what routes remember."""

import threading
from collections.abc import Sequence

import pytest
from sqlalchemy.orm import Session

from tests.support.sql_rows import NOW_MS, add_job, side_by_side, statements
from warren.sql.accounts import users
from warren.sql.accounts.users import Rights, Role
from warren.sql.engine import Database
from warren.sql.errors import NotFound
from warren.sql.explanation import Explanation
from warren.sql.ids import LARGEST_BLOCK, SMALLEST_BLOCK, RunIds
from warren.sql.jobs import due_jobs, history, job_rows
from warren.sql.models import Job, SkippedTicks
from warren.sql.registry import apps
from warren.sql.runs import tick_rows


class TestApps:
    def test_an_app_is_made_once(self, database: Database) -> None:
        def ensure(name: str, title: str | None = None) -> tuple[int, bool]:
            return database.write(lambda session: apps.ensure(session, name, title))

        app_id, made = ensure("demo")

        assert made
        assert ensure("demo") == (app_id, False)
        assert ensure("demo", "A title") == (app_id, True)
        assert ensure("demo", "A title") == (app_id, False)
        assert ensure("demo") == (app_id, False)
        app = database.read(lambda session: apps.find(session, "demo"))
        assert (app.id, app.title, app.address_type) == (app_id, "A title", 0)
        assert database.read(apps.ids_by_name) == {"demo": app_id}

    def test_an_app_that_many_meet_first_is_made_once(self, database: Database) -> None:
        made = side_by_side(
            *[lambda: database.write(lambda session: apps.ensure(session, "demo"))] * 4
        )

        assert len({app_id for app_id, _ in made}) == 1

    def test_an_app_may_have_a_list_of_addresses_in_an_order_of_its_own(
        self, database: Database
    ) -> None:
        app_id, _ = database.write(lambda session: apps.ensure(session, "demo"))
        database.write(lambda session: apps.ensure(session, "automatic"))

        def give(*addresses: str) -> bool:
            return database.write(lambda s: apps.list_addresses(s, app_id, addresses))

        assert not give()
        assert give("b", "a")
        assert not give("b", "a")
        assert database.read(apps.listed) == {app_id: ("b", "a")}
        assert give("a", "b")
        assert give()
        assert not give()
        assert database.read(apps.listed) == {}

    def test_a_list_that_another_program_wrote_is_read_kindly(self) -> None:
        assert apps.split(" b , a,,b\n") == ("b", "a")
        assert apps.split(None) == apps.split("") == ()

    def test_an_absent_app_is_said_so(self, database: Database) -> None:
        with pytest.raises(NotFound, match="NO_APP_NAMED name='absent'"):
            database.read(lambda session: apps.find(session, "absent"))


class TestUsers:
    @pytest.mark.parametrize("name", ["viewb ", "viewb   ", "Viewb"])
    def test_a_name_that_is_nearly_a_users_is_nobodys(self, database: Database, name: str) -> None:
        """MariaDB and MySQL compare texts as if there were no spaces at their end."""
        rights = Rights(role=Role.ADMINISTRATOR)
        database.write(lambda session: users.add(session, "viewb", "a hash", rights))

        assert database.read(lambda session: users.by_name(session, "viewb")) is not None
        assert database.read(lambda session: users.by_name(session, name)) is None
        with pytest.raises(NotFound, match="NO_USER_NAMED"):
            database.write(lambda session: users.find(session, name))


class TestRunIds:
    def test_ids_of_several_processes_and_threads_never_meet(self, database: Database) -> None:
        url = database.url.render_as_string(hide_password=False)
        sources = [RunIds(Database(url)) for _ in range(2)]

        def take(ids: RunIds) -> list[int]:
            taken: list[int] = []
            for count in (1, 30, 7):
                ids.reserve()
                taken += database.write(lambda session, n=count: ids.take(session, n))
                taken.append(ids.take_one())
            return taken

        taken = side_by_side(*[lambda ids=ids: take(ids) for ids in (*sources, *sources)])

        flat = [run_id for some in taken for run_id in some]
        assert len(flat) == len(set(flat)) == 4 * 41
        assert min(flat) >= 1

    def test_a_reserve_is_fetched_once_for_many_runs(self, database: Database) -> None:
        ids = RunIds(database)
        for _ in range(8):  # the reserve learns how many are wanted
            ids.reserve()
            database.write(lambda session: ids.take(session, 100))
        ids.reserve()

        with statements(database) as sent:
            database.write(lambda session: ids.take(session, 100))

        assert not any("warren_sequence" in words for words, _ in sent)

    def test_a_reserve_grows_while_single_ids_are_taken_quickly(self, database: Database) -> None:
        now = 0.0
        ids = RunIds(database, clock=lambda: now)

        def fetches(seconds_each: float) -> int:
            nonlocal now
            with statements(database) as sent:
                for _ in range(200):
                    ids.reserve()
                    ids.take_one()
                    now += seconds_each
            return sum("UPDATE warren_sequence" in words for words, _ in sent)

        slow, quick = fetches(1.0), fetches(0.001)

        assert slow >= 200 / SMALLEST_BLOCK - 1
        assert quick <= 6

    def test_ids_of_a_unit_that_failed_are_not_given_twice(self, database: Database) -> None:
        ids = RunIds(database)
        lost: list[int] = []

        def fail(session: Session) -> None:
            lost.extend(ids.take(session, 5))
            raise RuntimeError("no")

        with pytest.raises(RuntimeError):
            database.write(fail)
        kept = database.write(lambda session: ids.take(session, 5))
        again = database.write(lambda session: ids.take(session, 5))

        # Those of the failed unit came from its own transaction, so nobody has them.
        assert kept == lost
        assert set(again).isdisjoint(kept)

    def test_a_huge_batch_gets_its_ids_at_once(self, database: Database) -> None:
        ids = RunIds(database)

        taken = database.write(lambda session: ids.take(session, 3 * LARGEST_BLOCK))

        assert len(set(taken)) == 3 * LARGEST_BLOCK


class TestHistory:
    def test_changes_are_kept_in_order_with_what_decides_the_ticks(
        self, database: Database
    ) -> None:
        job_id = add_job(
            database,
            schedule_kind="CRON",
            schedule_value="0 0 2 * * ?",
            is_enabled=1,
            last_tick_at=NOW_MS,
        )

        def record(session: Session) -> None:
            job = session.get_one(Job, job_id)
            history.record_change(
                session, job, timezone="UTC", by="ops", now_ms=NOW_MS + 1, anchor_ms=3
            )
            session.flush()
            stop = due_jobs.JobStop(
                job_id=job_id, watermark_ms=NOW_MS + 2, reason=Explanation("done")
            )
            history.record_stops(session, [stop], by="scheduler", now_ms=NOW_MS + 3)

        database.write(record)

        first, second = database.read(lambda session: list(history.changes(session)))
        assert (first.schedule_value, first.enabled, first.watermark, first.anchor) == (
            "0 0 2 * * ?",
            1,
            NOW_MS,
            3,
        )
        assert (first.changed_by, first.changed_at, first.timezone) == ("ops", NOW_MS + 1, "UTC")
        assert (second.enabled, second.watermark, second.schedule_kind) == (0, NOW_MS + 2, "NONE")

    def test_changes_come_by_job_however_many_are_read_at_once(self, database: Database) -> None:
        jobs_of_changes = [add_job(database, name=f"job-{n}") for n in range(3)]

        def record(session: Session) -> None:
            for job_id in (*jobs_of_changes, *reversed(jobs_of_changes), jobs_of_changes[1]):
                stop = due_jobs.JobStop(
                    job_id=job_id, watermark_ms=NOW_MS, reason=Explanation("done")
                )
                history.record_stops(session, [stop], by="scheduler", now_ms=NOW_MS)

        database.write(record)

        whole, paged = (
            database.read(lambda s, n=n: [(c.job_id, c.id) for c in history.changes(s, at_once=n)])  # type: ignore[misc]
            for n in (100, 2)
        )
        assert paged == whole == sorted(whole)
        assert len(whole) == 7

    def test_skips_of_a_batch_are_one_statement(self, database: Database) -> None:
        skips = [
            SkippedTicks(
                job_id=1,
                from_at=number,
                to_at=number + 1,
                count=2,
                reason="misfire",
                recorded_at=NOW_MS,
            )
            for number in range(50)
        ]

        with statements(database) as sent:
            database.write(lambda session: history.record_skips(session, skips))
            database.write(lambda session: history.record_skips(session, []))

        assert sum("warren_skip" in words for words, _ in sent) == 1
        found = database.read(lambda session: tick_rows.skips(session, 1))
        assert [(skip.from_at, skip.count, skip.reason) for skip in found] == [
            (number, 2, "misfire") for number in range(50)
        ]


class TestRouteMemory:
    def remember(self, database: Database, memories: dict[int, dict[str, object]]) -> None:
        database.write(lambda session: job_rows.store_route_memories(session, memories))

    def recall(self, database: Database, job_ids: Sequence[int]) -> dict[int, dict[str, object]]:
        return database.write(lambda session: job_rows.lock_route_memories(session, job_ids))

    def test_what_is_stored_replaces_what_was(self, database: Database) -> None:
        self.remember(database, {})
        self.remember(database, {2: {"next": 1}, 1: {"seen": {"héte": 3}}})
        self.remember(database, {2: {"next": 2}, 3: {}})

        assert self.recall(database, [1, 2, 3, 4]) == {
            1: {"seen": {"héte": 3}},
            2: {"next": 2},
            3: {},
            4: {},
        }
        assert self.recall(database, []) == {}

    def test_of_two_that_begin_a_memory_one_waits_for_the_other(self, database: Database) -> None:
        def begin(session: Session) -> int:
            turn = int(job_rows.lock_route_memories(session, [5, 6])[5].get("turn", 0))  # type: ignore[call-overload]
            job_rows.store_route_memories(session, {5: {"turn": turn + 1}})
            return turn

        turns = side_by_side(*[lambda: database.write(begin)] * 4)

        assert sorted(turns) == [0, 1, 2, 3]

    def test_a_rotation_holds_across_two_schedulers(self, database: Database) -> None:
        self.remember(database, {1: {"next": 0}})

        def step(session: Session) -> int:
            number = int(job_rows.lock_route_memories(session, [1])[1]["next"])
            job_rows.store_route_memories(session, {1: {"next": number + 1}})
            return number

        def rotate() -> list[int]:
            return [database.write(step) for _ in range(20)]

        first, second = side_by_side(rotate, rotate)

        assert sorted(first + second) == list(range(40))

    def test_memories_of_other_jobs_are_not_in_the_way(self, mariadb_database: Database) -> None:
        self.remember(mariadb_database, {number: {} for number in range(1, 50)})
        held, done = threading.Event(), threading.Event()

        def hold(session: Session) -> None:
            job_rows.lock_route_memories(session, range(1, 40))
            held.set()
            assert done.wait(30)

        def work() -> None:
            assert held.wait(30)
            self.recall(mariadb_database, [45, 46])
            self.remember(mariadb_database, {47: {"x": 1}, 90: {}})
            done.set()

        side_by_side(lambda: mariadb_database.write(hold), work)

        assert self.recall(mariadb_database, [47]) == {47: {"x": 1}}
