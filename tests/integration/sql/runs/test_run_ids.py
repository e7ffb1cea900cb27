"""Whatever happened to the counter of run ids, what is planned is a row with an id of its own."""

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from tests.support.sql_rows import all_runs, new_run, plan, statements, ticks
from warren.sql import epochs
from warren.sql.engine import Database, SeenIds
from warren.sql.epochs import BELIEVED, LEFT_OUT, TOLD_LIMIT, Cause, EpochRow
from warren.sql.errors import RunIdTaken
from warren.sql.ids import SMALLEST_BLOCK, RunIds, has_gone_back, take_block
from warren.sql.instants import HOUR_MS
from warren.sql.models import Backfill, Epoch, Sequence
from warren.sql.runs import flow_nodes, planned_runs


def turn_back(database: Database, to: int = 1) -> None:
    """Set the counter to an id that was given out, as an older copy of the database has it."""
    database.write(lambda session: session.execute(update(Sequence).values(next_id=to)))


def begun(database: Database) -> list[EpochRow]:
    return database.read(epochs.all_epochs)


def test_due_times_are_rows_although_their_ids_are_taken(database: Database) -> None:
    first = plan(database, *ticks(5))
    turn_back(database)

    second = plan(database, *ticks(5, job_id=2))

    assert [run.id for run in all_runs(database)] == [*first, *second]
    assert min(second) >= LEFT_OUT + max(first)
    [epoch] = begun(database)
    assert (epoch.cause, epoch.found_id, epoch.next_id) == (Cause.COUNTER, 1, second[0])


def test_some_taken_ids_among_free_ones_cost_no_due_time(database: Database) -> None:
    first = plan(database, *ticks(5))
    turn_back(database, first[-1])

    plan(database, *ticks(700, job_id=2))

    assert len(all_runs(database)) == 705
    assert len(begun(database)) == 1


def test_taken_ids_are_told_although_the_counter_has_passed_them_again(database: Database) -> None:
    plan(database, *ticks(5))
    turn_back(database, 3)
    database.seen_ids = SeenIds()
    ids = RunIds(database)
    ids.reserve()

    database.write(lambda session: planned_runs.plan(session, ticks(4, job_id=2), ids))

    assert len(all_runs(database)) == 9
    [epoch] = begun(database)
    assert (epoch.cause, epoch.found_id) == (Cause.COUNTER, 3)


def test_a_due_time_that_has_its_row_is_no_sign_of_anything(database: Database) -> None:
    plan(database, *ticks(5))
    plan(database, *ticks(7))

    assert len(all_runs(database)) == 7
    assert begun(database) == []


def test_a_unit_repeated_after_a_lost_answer_finds_its_own_row(database: Database) -> None:
    ids = RunIds(database)
    run = new_run(run_id=ids.take_one(), origin_id=None)

    for _ in range(2):
        database.write(lambda session: planned_runs.plan_asked(session, [run], ids))

    assert [row.id for row in all_runs(database)] == [run.run_id]
    assert begun(database) == []


def test_an_id_that_was_taken_in_advance_and_belongs_to_another_run_is_an_error(
    database: Database,
) -> None:
    [run_id] = plan(database, new_run())
    other = new_run(job_id=2, run_id=run_id, origin_id=None)

    with pytest.raises(RunIdTaken):
        database.write(lambda session: planned_runs.plan_asked(session, [other], RunIds(database)))

    assert [row.job_id for row in all_runs(database)] == [1]


def test_a_reserve_from_before_is_given_up(database: Database) -> None:
    ids, other = RunIds(database), RunIds(database)
    ids.reserve()
    other.reserve()
    reserved = ids.take_one()
    turn_back(database)

    seen_id = database.seen_ids.highest
    assert has_gone_back(database, 1, seen_id)

    assert min(ids.take_one(), other.take_one()) >= LEFT_OUT + reserved
    [epoch] = begun(database)
    assert (epoch.cause, epoch.found_id) == (Cause.COUNTER, 1)
    assert epoch.next_id > LEFT_OUT + seen_id


def test_a_counter_behind_what_this_process_reserved_is_noticed_when_it_reserves_again(
    database: Database,
) -> None:
    ids = RunIds(database)
    ids.reserve()
    for _ in range(SMALLEST_BLOCK):
        ids.take_one()
    turn_back(database)

    ids.reserve()
    planned = database.write(lambda session: planned_runs.plan(session, ticks(50), ids))

    assert len(all_runs(database)) == 50
    assert len(begun(database)) == 1
    assert max(planned) > LEFT_OUT


def test_two_processes_that_notice_it_begin_one_epoch(database: Database) -> None:
    first, second = database, Database(database.url.render_as_string(hide_password=False))
    for each in (first, second):
        RunIds(each).reserve()
    turn_back(database)

    assert [has_gone_back(each, 1, each.seen_ids.highest) for each in (first, second)] == [True] * 2

    assert len(begun(database)) == 1
    second.close()


def test_a_counter_that_only_grew_begins_nothing(database: Database) -> None:
    ids = RunIds(database)
    for _ in range(5):
        ids.reserve()
        database.write(lambda session: take_block(session, 1_000))
        assert not has_gone_back(database, database.seen_ids.highest + 1, database.seen_ids.highest)

    assert begun(database) == []


def test_nodes_of_flows_and_backfills_get_new_ids_too(database: Database) -> None:
    ids = RunIds(database)

    def node(session: Session, name: str) -> None:
        [node_id] = ids.take(session, 1)
        row = {"id": node_id, "flow_run_id": 1, "node": name, "job_id": 1}
        flow_nodes.add(session, [row])

    def backfill(session: Session, key: str) -> None:
        [backfill_id] = ids.take(session, 1)
        facts = {"schedule": "", "spans": "", "ticks": 1, "made_at": 1, "made_by": ""}
        session.add(Backfill(id=backfill_id, job_id=1, key=key, moved_at=1, **facts))

    for name in ("a", "b"):
        database.write(lambda session, it=name: node(session, it))  # type: ignore[misc]
        database.write(lambda session, it=name: backfill(session, it))  # type: ignore[misc]
        turn_back(database)

    with database.engine.connect() as connection:
        for table in ("warren_flow_node", "warren_backfill"):
            count = connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar()
            assert count == 2, table
    assert begun(database)


def test_planning_costs_no_further_statement(database: Database) -> None:
    ids = RunIds(database)
    ids.reserve()

    with statements(database) as sent:
        database.write(lambda session: planned_runs.plan(session, ticks(5), ids))

    assert [text.split()[0] for text, _ in sent if "BEGIN" not in text] == ["INSERT"]


def test_a_restore_begins_an_epoch_in_any_case(database: Database) -> None:
    database.begin_epoch(Cause.RESTORED, told_by="alice")

    [run_id] = plan(database, new_run())
    [epoch] = begun(database)
    assert (epoch.told_by, epoch.next_id) == ("alice", run_id)


def test_executors_move_the_counter_a_few_times_an_hour_at_most(database: Database) -> None:
    def lie() -> bool:
        [next_id] = database.read(lambda s: s.execute(select(Sequence.next_id)).scalars().all())
        return database.begin_epoch(Cause.EXECUTOR, seen_id=next_id + BELIEVED - 1, told_by="liar")

    believed = [lie() for _ in range(2 * TOLD_LIMIT)]
    database.begin_epoch(Cause.RESTORED, told_by="ann")
    database.write(lambda s: s.execute(update(Epoch).values(began_at=Epoch.began_at - 2 * HOUR_MS)))

    assert believed == [True] * TOLD_LIMIT + [False] * TOLD_LIMIT
    assert len(begun(database)) == TOLD_LIMIT + 1
    assert lie()
