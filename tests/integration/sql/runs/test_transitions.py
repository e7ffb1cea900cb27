"""Runs move along the arrows of their life, and along nothing else."""

import threading
from collections.abc import Callable, Mapping

import pytest
from sqlalchemy.exc import DataError
from sqlalchemy.orm import Session

from tests.support import sql_rows
from tests.support.server_words import wait_briefly, words_of
from tests.support.sql_rows import (
    NODE,
    NOW_MS,
    ended,
    new_run,
    plan,
    planned_in,
    put,
    routed,
    side_by_side,
    statements,
    statuses,
    ticks,
)
from warren.sql.engine import Database
from warren.sql.explanation import Explanation
from warren.sql.ids import RunIds
from warren.sql.instants import at
from warren.sql.models import Job
from warren.sql.run_status import CODES, ENTERED_FROM, FINAL, IN_FLIGHT, Kind, RunStatus
from warren.sql.runs import planned_runs, queries, transitions

NOT_FINAL_ARROWS: Mapping[RunStatus, Callable[[Session, list[int]], int]] = {
    RunStatus.ROUTED: lambda session, ids: transitions.route(
        session, [routed(run_id) for run_id in ids], node=NODE, now_ms=NOW_MS
    ),
    RunStatus.SENT: lambda session, ids: transitions.mark_sent(
        session, ids, node=NODE, now_ms=NOW_MS
    ),
    RunStatus.RUNNING: lambda session, ids: transitions.start(session, dict.fromkeys(ids, NOW_MS)),
}


def move(session: Session, ids: list[int], to: RunStatus) -> int:
    if to in FINAL:
        return transitions.end(session, [ended(run_id, to) for run_id in ids])
    return NOT_FINAL_ARROWS[to](session, ids)


class TestRoute:
    def test_runs_that_go_the_same_way_are_moved_by_one_statement_and_others_by_another(
        self, database: Database
    ) -> None:
        ids = planned_in(database, RunStatus.PLANNED, 13)
        put(database, ids[:1], status=RunStatus.CANCELLED)
        ways = [routed(one) for one in ids[:10]]
        ways += [routed(one, Explanation(f"to {one}")) for one in ids[10:]]

        with statements(database) as sent:
            count = database.write(
                lambda session: transitions.route(session, ways, node=NODE, now_ms=NOW_MS)
            )

        rows = sql_rows.all_runs(database)
        assert count == 12
        assert sum(words.startswith("UPDATE") for words, _ in sent) == 2
        assert [row.status for row in rows] == ["CANCELLED"] + ["ROUTED"] * 12
        assert {row.address for row in rows[1:]} == {"exec-1"}
        assert [row.trigger_message for row in rows[10:]] == [f"to {one}" for one in ids[10:]]
        assert {row.trigger_message for row in rows[1:10]} == {ways[0].message.text}

    def test_the_number_of_statements_does_not_grow_with_the_number_of_ways(
        self, database: Database
    ) -> None:
        count = transitions.MIN_ALIKE
        ids = planned_in(database, RunStatus.PLANNED, 20 * count)
        ways = [routed(one, Explanation(f"way {n // count}")) for n, one in enumerate(ids)]

        with statements(database) as sent:
            moved = database.write(
                lambda session: transitions.route(session, ways, node=NODE, now_ms=NOW_MS)
            )

        updates = [words for words, _ in sent if words.startswith("UPDATE")]
        rows = sql_rows.all_runs(database)
        assert (moved, len(updates)) == (len(ids), transitions.MAX_ALIKE_STATEMENTS + 1)
        assert [row.trigger_message for row in rows] == [way.message.text for way in ways]
        assert {(row.status, row.routed_at, row.routed_by) for row in rows} == {
            ("ROUTED", NOW_MS, NODE)
        }


class TestPlan:
    def test_a_new_run_is_planned_and_carries_what_its_trigger_needs(
        self, database: Database
    ) -> None:
        [run_id] = plan(
            database,
            new_run(due_at=NOW_MS + 1_700, shard_index=2, shard_total=3, retries_left=4),
        )

        row = sql_rows.run(database, run_id)
        assert (row.status, row.kind, row.scheduled_at, row.due_at) == (
            "PLANNED",
            "CRON",
            NOW_MS,
            NOW_MS + 1_700,
        )
        assert (row.trigger_code, row.handle_code, row.alarm_status) == (0, 0, 0)
        assert (row.handler, row.param) == ("demo.echo", "hello")
        assert (row.sharding, row.retries_left) == ("2/3", 4)
        assert row.due_second == at(NOW_MS + 1_700)

    def test_a_tick_that_is_there_already_is_left_out(self, database: Database) -> None:
        [first] = plan(database, new_run(param="first"))

        plan(database, new_run(param="second"), new_run(scheduled_at=NOW_MS + 1_000))

        rows = sql_rows.all_runs(database)
        assert [(row.scheduled_at, row.param) for row in rows] == [
            (NOW_MS, "first"),
            (NOW_MS + 1_000, "hello"),
        ]
        assert rows[0].id == first

    @pytest.mark.parametrize(
        "difference",
        [{"job_id": 2}, {"scheduled_at": 5}, {"origin_id": 7}, {"shard_index": 1}, {"attempt": 1}],
    )
    def test_whatever_tells_two_runs_apart_makes_two_rows(
        self, database: Database, difference: dict[str, int]
    ) -> None:
        plan(database, new_run(), new_run(**difference))

        assert len(sql_rows.all_runs(database)) == 2

    def test_the_same_ticks_from_two_threads_give_one_row_each_and_no_error(
        self, database: Database
    ) -> None:
        forwards = ticks(200)
        works = [lambda new=new: plan(database, *new) for new in (forwards, forwards[::-1]) * 2]

        side_by_side(*works)

        assert [row.scheduled_at for row in sql_rows.all_runs(database)].count(NOW_MS) == 1
        assert len(sql_rows.all_runs(database)) == 200

    def test_a_run_without_origin_is_its_own(self, database: Database) -> None:
        first, second = plan(database, new_run(origin_id=None), new_run(origin_id=None))

        assert [row.origin_id for row in sql_rows.all_runs(database)] == [first, second]

    def test_a_batch_of_500_is_one_statement(self, database: Database) -> None:
        ids = RunIds(database)
        new = ticks(500)
        with statements(database) as sent:
            database.write(lambda session: planned_runs.plan(session, new, ids))

        inserts = [words for words, _ in sent if words.startswith("INSERT")]
        assert len(inserts) == 1
        assert len(sql_rows.all_runs(database)) == 500

    def test_nothing_to_plan_says_nothing_to_the_database(self, database: Database) -> None:
        ids = RunIds(database)
        with statements(database) as sent:
            planned = database.write(lambda session: planned_runs.plan(session, [], ids))

        assert planned == []
        assert [words for words, _ in sent if "BEGIN" not in words] == []

    def test_an_id_taken_before_makes_a_repeated_insert_harmless(self, database: Database) -> None:
        run_id = RunIds(database).take_one()
        manual = new_run(kind=Kind.MANUAL, origin_id=None, run_id=run_id)

        assert plan(database, manual) == plan(database, manual) == [run_id]

        assert [(row.id, row.origin_id) for row in sql_rows.all_runs(database)] == [
            (run_id, run_id)
        ]

    def test_params_that_fill_more_than_a_packet_are_stored(self, database: Database) -> None:
        plan(database, *ticks(300, param="é" * 60_000))

        assert {len(row.param or "") for row in sql_rows.all_runs(database)} == {60_000}
        assert len(sql_rows.all_runs(database)) == 300

    def test_a_handler_that_does_not_fit_fails_the_whole_batch(
        self, mariadb_database: Database
    ) -> None:
        with pytest.raises(DataError):
            plan(mariadb_database, *ticks(3), new_run(handler="x" * 256, job_id=2))

        assert sql_rows.all_runs(mariadb_database) == []


class TestArrows:
    def test_every_pair_of_statuses_is_joined_by_an_arrow_or_by_nothing(
        self, database: Database
    ) -> None:
        wrong = []
        for to in set(RunStatus) - {RunStatus.PLANNED}:
            ids = {start: planned_in(database, start)[0] for start in RunStatus}
            put(database, list(ids.values()), routed_by=NODE)

            moved = database.write(
                lambda session, to=to, them=ids: move(session, [*them.values()], to)
            )

            after = dict(zip(ids, statuses(database, [*ids.values()]), strict=True))
            expected = {start: to if start in ENTERED_FROM[to] else start for start in RunStatus}
            if after != expected or moved != len(ENTERED_FROM[to]):
                wrong.append((to, moved, after))
        assert wrong == []

    @pytest.mark.parametrize("status", sorted(set(RunStatus) - FINAL))
    def test_a_run_cannot_end_in_a_status_that_is_not_final(
        self, sqlite_database: Database, status: RunStatus
    ) -> None:
        [run_id] = planned_in(sqlite_database, RunStatus.RUNNING)

        with pytest.raises(ValueError, match=f"expected status to be final, got: {status}"):
            sqlite_database.write(lambda session: transitions.end(session, [ended(run_id, status)]))

        assert statuses(sqlite_database, [run_id]) == ["RUNNING"]

    def test_each_arrow_writes_the_codes_of_the_status_it_leads_to(
        self, database: Database
    ) -> None:
        for to in set(RunStatus) - {RunStatus.PLANNED}:
            [run_id] = planned_in(database, min(ENTERED_FROM[to]))
            put(database, [run_id], routed_by=NODE)

            database.write(lambda session, to=to, run_id=run_id: move(session, [run_id], to))

            row = sql_rows.run(database, run_id)
            assert (row.trigger_code, row.handle_code) == CODES[to], to

    def test_one_batch_may_end_runs_in_many_ways(self, database: Database) -> None:
        flying = planned_in(database, RunStatus.SENT, 2)
        [waiting] = planned_in(database, RunStatus.PLANNED)
        ends = [
            ended(flying[0]),
            ended(flying[1], RunStatus.UNDELIVERED),
            ended(waiting, RunStatus.CANCELLED),
        ]

        assert database.write(lambda session: transitions.end(session, ends)) == 3

        assert statuses(database, [*flying, waiting]) == ["SUCCEEDED", "UNDELIVERED", "CANCELLED"]

    def test_a_result_keeps_all_that_is_known(self, database: Database) -> None:
        [run_id] = planned_in(database, RunStatus.RUNNING)
        facts = {"started_at": NOW_MS + 100, "log_tail": "bye\n", "result": "[42]"}
        end = ended(run_id, message="42 rows", **facts)

        database.write(lambda session: transitions.end(session, [end]))

        row = sql_rows.run(database, run_id)
        assert (row.message, row.started_at, row.finished_at) == (
            "42 rows",
            NOW_MS + 100,
            NOW_MS + 500,
        )
        assert (row.log_tail, row.result) == ("bye\n", "[42]")
        assert row.finished_second == at(NOW_MS + 500)

    def test_a_reason_is_kept_beside_its_text_and_a_success_has_none(
        self, database: Database
    ) -> None:
        done, timed_out = planned_in(database, RunStatus.RUNNING, 2)
        ends = [ended(done), ended(timed_out, RunStatus.TIMED_OUT, message="late", why="{}")]

        assert database.write(lambda session: transitions.end(session, ends)) == 2

        found = {row.id: (row.message, row.message_why) for row in sql_rows.all_runs(database)}
        assert found == {done: ("done", None), timed_out: ("late", "{}")}

    def test_of_two_results_at_once_exactly_one_wins(self, database: Database) -> None:
        run_ids = planned_in(database, RunStatus.RUNNING, 300)
        good = [ended(run_id, message="good") for run_id in run_ids]
        bad = [ended(run_id, RunStatus.FAILED, message="bad") for run_id in run_ids]

        won = side_by_side(
            lambda: database.write(lambda session: transitions.end(session, good)),
            lambda: database.write(lambda session: transitions.end(session, bad)),
        )

        assert sum(won) == 300
        written = {(row.status, row.message) for row in sql_rows.all_runs(database)}
        assert written <= {("SUCCEEDED", "good"), ("FAILED", "bad")}

    def test_a_confirm_that_comes_after_the_result_changes_nothing(
        self, database: Database
    ) -> None:
        [run_id] = planned_in(database, RunStatus.ROUTED)
        put(database, [run_id], routed_by=NODE)
        database.write(lambda session: transitions.end(session, [ended(run_id)]))

        moved = database.write(
            lambda session: transitions.mark_sent(session, [run_id], node=NODE, now_ms=NOW_MS)
        )

        row = sql_rows.run(database, run_id)
        assert (moved, row.status, row.sent_at) == (0, "SUCCEEDED", None)

    def test_only_its_owner_marks_a_run_sent(self, database: Database) -> None:
        [run_id] = planned_in(database, RunStatus.ROUTED)
        put(database, [run_id], routed_by="another")

        moved = database.write(
            lambda session: transitions.mark_sent(session, [run_id], node=NODE, now_ms=NOW_MS)
        )

        assert (moved, statuses(database, [run_id])) == (0, ["ROUTED"])

    def test_many_runs_move_together(self, database: Database) -> None:
        run_ids = planned_in(database, RunStatus.PLANNED, 1_203)
        works = [
            lambda session: move(session, run_ids, RunStatus.ROUTED),
            lambda session: move(session, run_ids, RunStatus.SENT),
            lambda session: move(session, run_ids, RunStatus.RUNNING),
            lambda session: len(transitions.lock(session, run_ids)),
            lambda session: len(queries.by_ids(session, run_ids)),
            lambda session: len(queries.statuses(session, run_ids)),
            lambda session: move(session, run_ids, RunStatus.SUCCEEDED),
        ]

        assert [database.write(work) for work in works] == [1_203] * 7


class TestClaim:
    def test_two_claims_share_the_runs_without_waiting(self, mariadb_database: Database) -> None:
        run_ids = plan(mariadb_database, *ticks(10))
        claimed, let_go = threading.Event(), threading.Event()

        def hold(session: Session) -> list[int]:
            rows = transitions.claim(session, run_ids[:6])
            claimed.set()
            assert let_go.wait(60)
            return [row.id for row in rows]

        def take(session: Session) -> list[int]:
            assert claimed.wait(30)
            wait_briefly(session, mariadb_database)
            rows = transitions.claim(session, run_ids)
            let_go.set()
            return [row.id for row in rows]

        first, second = side_by_side(
            lambda: mariadb_database.write(hold), lambda: mariadb_database.write(take)
        )

        assert (first, second) == (run_ids[:6], run_ids[6:])

    def test_a_claim_takes_what_is_still_planned_oldest_first(self, database: Database) -> None:
        run_ids = plan(database, *ticks(4))
        put(database, [run_ids[0]], due_at=NOW_MS + 60_000)
        put(database, [run_ids[2]], status="CANCELLED")

        rows = database.write(lambda session: transitions.claim(session, run_ids))

        assert [row.id for row in rows] == [run_ids[1], run_ids[3], run_ids[0]]


class TestTakeOver:
    def test_a_run_is_taken_over_as_it_was_seen(self, database: Database) -> None:
        run_ids = planned_in(database, RunStatus.ROUTED, 3)
        put(database, run_ids, routed_by="dead", routed_at=1)
        seen = database.read(lambda session: queries.by_ids(session, run_ids))
        put(database, run_ids[:1], routed_by="quicker", routed_at=2)
        put(database, run_ids[1:2], status="SENT")

        won = database.write(
            lambda session: transitions.take_over(session, seen, node=NODE, now_ms=NOW_MS)
        )

        owners = [sql_rows.run(database, run_id).routed_by for run_id in run_ids]
        assert (won, owners) == ([run_ids[2]], ["quicker", "dead", NODE])

    def test_of_two_takers_one_wins_each_run(self, database: Database) -> None:
        run_ids = planned_in(database, RunStatus.ROUTED, 100)
        put(database, run_ids, routed_by="dead", routed_at=1)
        seen = database.read(lambda session: queries.by_ids(session, run_ids))

        def take(node: str) -> list[int]:
            return database.write(
                lambda session: transitions.take_over(session, seen, node=node, now_ms=NOW_MS)
            )

        first, second = side_by_side(lambda: take("one"), lambda: take("two"))

        assert set(first).isdisjoint(second)
        owners = {row.id: row.routed_by for row in sql_rows.all_runs(database)}
        assert [owners[run_id] for run_id in first] == ["one"] * len(first)
        assert [owners[run_id] for run_id in second] == ["two"] * len(second)


class TestEdits:
    def test_stopping_a_job_cancels_what_its_schedule_planned(self, database: Database) -> None:
        [cron, sent, manual] = plan(
            database,
            new_run(),
            new_run(scheduled_at=5),
            new_run(kind=Kind.MANUAL, origin_id=None),
        )
        put(database, [sent], status="SENT")
        [other] = plan(database, new_run(job_id=2))

        count = database.write(
            lambda session: transitions.cancel(
                session,
                [1],
                reason=Explanation("job stopped", "{}"),
                now_ms=NOW_MS,
                kinds=(Kind.SCHEDULE, Kind.MANUAL),
                schedule_only=True,
            )
        )

        assert count == {1: 1}
        assert statuses(database, [cron, sent, manual, other]) == [
            "CANCELLED",
            "SENT",
            "PLANNED",
            "PLANNED",
        ]
        row = sql_rows.run(database, cron)
        assert (row.message, row.finished_at, row.trigger_code) == ("job stopped", NOW_MS, 500)

    def test_deleting_a_job_cancels_what_people_planned_too(self, database: Database) -> None:
        run_ids = plan(database, new_run(), new_run(kind=Kind.API, origin_id=None))

        count = database.write(
            lambda session: transitions.cancel(
                session,
                [1],
                reason=Explanation("deleted"),
                now_ms=NOW_MS,
                kinds=Kind,
                schedule_only=False,
            )
        )

        assert (count, statuses(database, run_ids)) == ({1: 2}, ["CANCELLED"] * 2)

    def test_an_edited_job_changes_its_planned_runs_alone(self, database: Database) -> None:
        planned, sent = plan(database, new_run(), new_run(scheduled_at=5))
        put(database, [sent], status="SENT")

        database.write(
            lambda session: planned_runs.give_payloads(
                session,
                [Job(id=1, handler="other", param=None, script_version=None)],
                kinds=[Kind.SCHEDULE],
            )
        )

        rows = [sql_rows.run(database, run_id) for run_id in (planned, sent)]
        assert [(row.handler, row.param) for row in rows] == [
            ("other", None),
            ("demo.echo", "hello"),
        ]

    def test_planned_runs_keep_their_version_of_a_script_and_others_get_one(
        self, database: Database
    ) -> None:
        with_script, with_handler = plan(
            database, new_run(script_version=3), new_run(scheduled_at=5)
        )

        def versions_after(script_version: int | None) -> list[int | None]:
            database.write(
                lambda session: planned_runs.give_payloads(
                    session,
                    [Job(id=1, handler="", param=None, script_version=script_version)],
                    kinds=[Kind.SCHEDULE],
                )
            )
            return [
                sql_rows.run(database, each).script_version for each in (with_script, with_handler)
            ]

        assert versions_after(7) == [3, 7]
        assert versions_after(None) == [None, None]

    def test_a_kill_is_asked_for_once_and_only_in_flight(self, database: Database) -> None:
        flying = {status: planned_in(database, status)[0] for status in RunStatus}

        def ask() -> set[RunStatus]:
            return {
                status
                for status, run_id in flying.items()
                if database.write(
                    lambda session, it=run_id: transitions.request_kill(session, it, now_ms=NOW_MS)
                )
            }

        assert ask() == IN_FLIGHT
        assert ask() == set()

    def test_only_the_first_late_result_of_a_lost_run_is_kept(self, database: Database) -> None:
        [lost] = planned_in(database, RunStatus.LOST)
        [over] = planned_in(database, RunStatus.FAILED)

        def late(results: dict[int, RunStatus]) -> set[int]:
            return database.write(lambda session: transitions.note_late(session, results))

        assert late({lost: RunStatus.SUCCEEDED, over: RunStatus.SUCCEEDED}) == {lost}
        assert late({lost: RunStatus.FAILED}) == set()
        assert sql_rows.run(database, lost).late_status == "SUCCEEDED"
        assert statuses(database, [lost, over]) == ["LOST", "FAILED"]


class TestNobodyWaitsForStrangers:
    """While another scheduler holds rows of the same status, ours move at once."""

    @pytest.mark.parametrize(
        ("held", "ours", "work"),
        [
            (RunStatus.ROUTED, RunStatus.ROUTED, lambda s, ids: move(s, ids, RunStatus.SENT)),
            (RunStatus.ROUTED, RunStatus.ROUTED, lambda s, ids: move(s, ids, RunStatus.FAILED)),
            (RunStatus.PLANNED, RunStatus.PLANNED, lambda s, ids: move(s, ids, RunStatus.ROUTED)),
            (RunStatus.SENT, RunStatus.SENT, lambda s, ids: len(transitions.lock(s, ids))),
            (
                RunStatus.PLANNED,
                RunStatus.PLANNED,
                lambda s, _ids: transitions.cancel(
                    s,
                    [77],
                    reason=Explanation(),
                    now_ms=1,
                    kinds=[Kind.SCHEDULE],
                    schedule_only=True,
                )[77],
            ),
        ],
    )
    def test_rows_of_others_are_not_in_the_way(
        self,
        mariadb_database: Database,
        held: RunStatus,
        ours: RunStatus,
        work: Callable[[Session, list[int]], int],
    ) -> None:
        strangers = planned_in(mariadb_database, held, 5, job_id=76)
        mine = planned_in(mariadb_database, ours, 5, job_id=77)
        put(mariadb_database, mine, routed_by=NODE)

        def quickly(session: Session) -> int:
            wait_briefly(session, mariadb_database)
            return work(session, mine)

        with mariadb_database.engine.begin() as other:
            other.exec_driver_sql(  # by the key: a scan of the whole table would lock ours too
                f"SELECT id FROM xxl_job_log {words_of(mariadb_database).by_key} "
                f"WHERE id BETWEEN {strangers[0]} AND {strangers[-1]} FOR UPDATE"
            )

            assert mariadb_database.write(quickly) == 5
