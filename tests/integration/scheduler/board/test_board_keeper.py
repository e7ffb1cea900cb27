"""The board takes in what ends, whatever commits first and whichever scheduler dies."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from tests.support.acting import acting
from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.sql_rows import plan, put, statements, ticks
from warren.scheduler.audit.board_audit import audit_board
from warren.scheduler.board import history
from warren.scheduler.board.history import DueTime
from warren.scheduler.board.keeper import LEASE, BoardKeeper
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import End
from warren.sql import unfolded
from warren.sql.board import job_states
from warren.sql.engine import Database
from warren.sql.explanation import Explanation
from warren.sql.ids import RunIds
from warren.sql.jobs import history as schedule_history
from warren.sql.models import App, Job, JobState, Lease, Quarter, Run, Unfolded
from warren.sql.run_status import RunStatus

NOW = 1_790_000_000_000 + 60_000


class Desk:
    """A job whose runs a test ends, and the keeper of the board."""

    def __init__(self, database: Database, runs: int = 4) -> None:
        self.database = database
        job = Job(app_id=1, name="work", handler="work")
        database.write(lambda session: session.add(job))
        [self.job_id] = database.read(lambda s: list(s.execute(select(Job.id)).scalars()))
        self.runs = plan(database, *ticks(runs, job_id=self.job_id))
        put(database, self.runs, status=RunStatus.RUNNING, started_at=NOW - 5_000)
        self.completion = Completion(RunIds(database), lambda: NOW)

    def end(self, session: Session, run_id: int, status: RunStatus = RunStatus.FAILED) -> None:
        end = End(run_id=run_id, status=status, message="no luck", finished_at=NOW - 1_000)
        self.completion.end(session, [end])

    def keeper(self, node: str = "one") -> BoardKeeper:
        return BoardKeeper(node=node, database=self.database)

    def state(self) -> dict[str, Any]:
        return self.database.read(lambda s: job_states.rows(s, [self.job_id]))[self.job_id]

    def folded(self) -> list[int]:
        entries = history.from_text(self.state()["strip"]).entries
        return [entry.run_id for entry in entries if isinstance(entry, DueTime)]


def fold(keeper: BoardKeeper, now_ms: int = NOW) -> None:
    while keeper.run_round(now_ms) < 1:
        pass


def test_what_ends_first_and_commits_last_is_taken_in(database: Database) -> None:
    desk = Desk(database)
    first, second = desk.runs[:2]
    keeper = desk.keeper()
    fold(keeper)
    if database.dialect.is_embedded:
        pytest.skip("only one transaction writes at a time")

    with Session(database.engine) as held, held.begin():
        desk.end(held, first)
        desk.database.write(lambda session: desk.end(session, second))
        fold(keeper)
        assert desk.folded() == [second]
    fold(keeper)

    assert desk.folded() == [first, second]
    assert (desk.state()["failing_count"], desk.state()["error_run_id"]) == (2, second)


def test_what_was_taken_in_counts_once(database: Database) -> None:
    desk = Desk(database)
    keepers = [desk.keeper("one"), desk.keeper("two")]
    for keeper in keepers:
        fold(keeper)

    for run_id in desk.runs:
        database.write(lambda session, id_=run_id: desk.end(session, id_))
        for keeper in keepers:
            fold(keeper)

    [quarter] = database.read(lambda s: list(s.execute(select(Quarter)).scalars()))
    assert (quarter.succeeded, quarter.failed) == (0, 4)
    assert not database.read(unfolded.exist)


def test_another_scheduler_goes_on_once_the_lease_has_run_out(database: Database) -> None:
    desk = Desk(database)
    dead, other = desk.keeper("dead"), desk.keeper("other")
    fold(dead)
    database.write(lambda session: desk.end(session, desk.runs[0]))

    fold(other)
    assert desk.folded() == []
    fold(other, NOW + 20_000)

    assert desk.folded() == [desk.runs[0]]
    holder = select(Lease.holder).where(Lease.lock_name == LEASE)
    assert database.read(lambda s: s.execute(holder).scalar_one()) == "other"


def test_only_the_scheduler_with_the_lease_asks_each_second(database: Database) -> None:
    desk = Desk(database)
    holder, other = desk.keeper("holder"), desk.keeper("other")
    for _ in range(2):  # what is to be filled, then what is open
        fold(holder)

    with statements(database) as of_holder:
        assert holder.run_round(NOW + 1_000) == 1
    with statements(database) as of_other:
        assert other.run_round(NOW + 1_000) == 5

    assert [text for text, _ in of_holder if "warren_unfolded" not in text] == []
    assert [text for text, _ in of_other if "BEGIN" not in text and "lock" not in text] == []


def test_a_batch_updates_each_job_once(database: Database) -> None:
    desk = Desk(database, runs=40)
    keeper = desk.keeper()
    for _ in range(2):  # what is to be filled, then what is open
        fold(keeper)
    for run_id in desk.runs:
        database.write(lambda session, id_=run_id: desk.end(session, id_, RunStatus.SUCCEEDED))

    with statements(database) as sent:
        keeper.run_round(NOW)

    changed = [text for text, _ in sent if text.startswith("UPDATE") and "job_state" in text]
    assert len(changed) == 1
    assert len(sent) < 20
    assert len(desk.folded()) == history.LENGTH


def test_a_mute_that_another_error_ended_does_not_come_back(database: Database) -> None:
    desk = Desk(database)
    first, second, third, _ = desk.runs
    keeper = desk.keeper()

    def end(run_id: int, message: str, status: RunStatus = RunStatus.FAILED) -> None:
        one = End(run_id=run_id, status=status, message=message, finished_at=NOW - 1_000)
        database.write(lambda session: desk.completion.end(session, [one]))
        fold(keeper)

    def is_muted() -> bool:
        return database.read(lambda session: job_states.mute_of(session, desk.job_id)) is not None

    database.write(lambda session: session.add(App(id=1, name="reports", title="")))
    fold(keeper)
    end(first, "no luck")
    acting(database, lambda: NOW).mutes.mute(desk.job_id, until_ms=NOW + 60_000)
    end(second, "", RunStatus.SUCCEEDED)
    assert is_muted()
    end(third, "disk full")

    assert not is_muted()


def test_a_deleted_job_leaves_nothing_behind(database: Database) -> None:
    desk = Desk(database)
    keeper = desk.keeper()
    fold(keeper)
    database.write(lambda session: desk.end(session, desk.runs[0]))
    fold(keeper)

    def delete(session: Session) -> None:
        job_states.forget_job(session, desk.job_id)
        session.delete(session.get_one(Job, desk.job_id))
        desk.end(session, desk.runs[1])

    database.write(delete)
    fold(keeper)

    assert database.read(lambda s: s.execute(select(JobState)).first()) is None
    assert not database.read(unfolded.exist)


def test_the_audit_names_what_differs(database: Database) -> None:
    desk = Desk(database)
    keeper = desk.keeper()
    fold(keeper)
    database.write(lambda session: desk.end(session, desk.runs[0]))
    fold(keeper)
    bounds = (NOW - 3_600_000, NOW)
    look: Callable[[Session], Any] = lambda s: audit_board(s, bounds=bounds, now_ms=NOW)  # noqa: E731
    assert database.read(look) == []

    database.write(lambda s: s.execute(update(JobState).values(failing_count=7)))
    database.write(lambda s: s.execute(update(Quarter).values(failed=9)))

    assert [(fault.stored, fault.counted) for fault in database.read(look)] == [
        ("7", "1"),
        ("(0, 9, 0)", "(0, 1, 0)"),
    ]


def test_skips_that_are_not_yet_taken_in_are_no_fault(database: Database) -> None:
    desk = Desk(database)
    keeper = desk.keeper()
    fold(keeper)
    bounds = (NOW - 3_600_000, NOW)
    look: Callable[[Session], Any] = lambda s: audit_board(s, bounds=bounds, now_ms=NOW)  # noqa: E731
    skip = schedule_history.skipped(
        desk.job_id, NOW - 3_000, NOW - 1_000, count=3, why=Explanation("x"), now_ms=NOW
    )

    database.write(lambda session: schedule_history.record_skips(session, [skip]))
    before = database.read(look)
    fold(keeper)
    after = database.read(look)
    database.write(lambda s: s.execute(update(Quarter).values(skipped=9)))

    assert before == after == []
    assert [(fault.stored, fault.counted) for fault in database.read(look)] == [
        ("(0, 0, 9)", "(0, 0, 3)")
    ]


@on_memory
def test_a_cluster_keeps_its_board(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.executor()
    cluster.job("good", handler="noop")
    cluster.job("bad", handler="fail")
    for _ in range(3):
        for name in ("good", "bad"):
            cluster.wait_final(cluster.trigger(name))

    def states() -> dict[str, tuple[int, int]]:
        wanted = select(Job.name, JobState.failing_count, JobState.newest_run_id).join(
            JobState, JobState.job_id == Job.id
        )
        rows = cluster.database.read(lambda s: s.execute(wanted).all())
        return {name: (count, run_id) for name, count, run_id in rows}

    def counts() -> dict[str, int]:
        return {name: count for name, (count, _) in states().items()}

    eventually(lambda: counts() == {"good": 0, "bad": 3})
    last = select(Run.id).order_by(Run.id)
    newest = cluster.database.read(lambda s: list(s.execute(last).scalars()))[-2:]
    eventually(lambda: sorted(run_id for _, run_id in states().values()) == newest)
    assert cluster.database.read(lambda s: s.execute(select(Unfolded)).first()) is None
