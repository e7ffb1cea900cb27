"""Whatever happened, and in whatever order: what was folded is what the rows say."""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TypeVar

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from tests.support.stored_rows import Rows
from warren.scheduler.audit.board_audit import audit_board
from warren.scheduler.board import history
from warren.scheduler.board.keeper import BoardKeeper
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import End
from warren.sql.board import job_states
from warren.sql.explanation import Explanation
from warren.sql.ids import RunIds
from warren.sql.instants import HOUR_MS, MINUTE_MS
from warren.sql.jobs import history as schedule_history
from warren.sql.models import JobError, JobState, Quarter, Run
from warren.sql.run_status import FINAL, IN_FLIGHT, Kind, RunStatus
from warren.sql.runs import planned_runs, purges, transitions
from warren.sql.runs.planned_runs import NewRun

T = TypeVar("T")
START = 1_800_000_000_000
ERRORS = (
    "psycopg.OperationalError: connection to pg-main, port 5432 failed: Connection refused",
    "psycopg.OperationalError: connection to pg-main, port 5432 failed: wrong password",
    "RuntimeError: page {number} of 31",
)
ENDS = (
    *(RunStatus.SUCCEEDED,) * 8,
    *(RunStatus.FAILED,) * 5,
    *(RunStatus.TIMED_OUT, RunStatus.LOST, RunStatus.KILLED, RunStatus.SKIPPED),
)


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    yield rows
    rows.database.close()


class Play:
    """Jobs of two apps to which anything may happen."""

    def __init__(self, rows: Rows, seed: int) -> None:
        self.database = rows.database
        self.chance = random.Random(seed)
        self.now_ms = START
        self.jobs = [
            (rows.app(app), rows.job(f"{app}-{number}", app, retries=number % 3))
            for app in ("billing", "search")
            for number in range(3)
        ]
        self._ids = RunIds(self.database)
        self._completion = Completion(self._ids, lambda: self.now_ms)
        self._later = count(1)
        self._session = Session()
        self.keeper = BoardKeeper(node="one", database=self.database)

    def steps(self, number: int) -> None:
        """Do a number of things in one transaction, which is faster."""

        def unit(session: Session) -> None:
            self._session = session
            for _ in range(number):
                self.step()

        self.database.write(unit)

    def within(self, unit: Callable[[Session], T]) -> T:
        done = unit(self._session)
        self._session.flush()
        self._session.expire_all()
        return done

    def step(self) -> None:
        self.now_ms += self.chance.randrange(1, 6 * MINUTE_MS)
        what = self.chance.choices(
            [
                self.plan,
                self.plan_many,
                self.end,
                self.again,
                self.backfill,
                self.cancel,
                self.skip,
                self.late,
            ],
            [30, 3, 45, 6, 3, 3, 4, 2],
        )[0]
        what()

    def plan(self) -> None:
        app_id, job_id = self.chance.choice(self.jobs)
        shards = self.chance.choice([1, 1, 1, 1, 3])
        kind, origin = self.chance.choice([(Kind.SCHEDULE, 0), (Kind.MANUAL, None)])
        new = [
            self.new(app_id, job_id, self.now_ms, kind=kind, origin_id=origin)
            if shards == 1
            else self.new(app_id, job_id, self.now_ms, shard_index=index, shard_total=shards)
            for index in range(shards)
        ]
        self.within(lambda session: planned_runs.plan(session, new, self._ids))

    def plan_many(self) -> None:
        """Plan many runs with different params for one due time, or one each for many."""
        app_id, job_id = self.chance.choice(self.jobs)
        apart = self.chance.choice([0, 0, 1])
        new = [
            self.new(app_id, job_id, self.now_ms + apart * number, kind=Kind.API, origin_id=None)
            for number in range(self.chance.randrange(15, 60))
        ]
        self.within(lambda session: planned_runs.plan(session, new, self._ids))

    def end(self) -> None:
        found = self.runs(*IN_FLIGHT, RunStatus.PLANNED)
        if self.chance.random() < 0.1:
            self.end_all_of(found)
            return
        self.chance.shuffle(found)
        self.end_each(found[: self.chance.randrange(1, 6)], ENDS)

    def end_all_of(self, found: Sequence[Run]) -> None:
        """End the runs of one job, mostly all of them well."""
        if found:
            job_id = self.chance.choice(found).job_id
            ends = self.chance.choice([(RunStatus.SUCCEEDED,), (RunStatus.SUCCEEDED,), ENDS])
            self.end_each([run for run in found if run.job_id == job_id], ends)

    def end_each(self, runs: Sequence[Run], statuses: Sequence[RunStatus]) -> None:
        for run in runs:
            status = self.chance.choice(statuses)
            self.set(run, status=RunStatus.RUNNING, started_at=self.now_ms - 5_000)
            error = self.chance.choice(ERRORS).format(number=self.chance.randrange(99))
            end = End(
                run_id=run.id,
                status=status,
                message=error if status is RunStatus.FAILED else "",
                finished_at=self.now_ms - self.chance.randrange(5_000),
            )
            self.within(lambda session, end=end: self._completion.end(session, [end]))

    def again(self) -> None:
        if found := self.runs(*FINAL):
            run = self.chance.choice(found)
            self.add(run, kind=Kind.RERUN, origin_id=None, rerun_of=run.id)

    def backfill(self) -> None:
        if found := self.runs(*FINAL):
            run = self.chance.choice(found)
            number = 10**9 + next(self._later)
            self.add(run, kind=Kind.BACKFILL, origin_id=number, backfill_id=number)

    def cancel(self) -> None:
        found = [run.id for run in self.runs(RunStatus.PLANNED)][:2]
        why = Explanation("stopped")
        self.within(
            lambda session: transitions.cancel_these(session, found, reason=why, now_ms=self.now_ms)
        )

    def skip(self) -> None:
        _, job_id = self.chance.choice(self.jobs)
        number = self.chance.randrange(1, 9)
        first = self.now_ms - number * 7 * MINUTE_MS
        skip = schedule_history.skipped(
            job_id, first, self.now_ms, count=number, why=Explanation("late"), now_ms=self.now_ms
        )
        self.within(lambda session: schedule_history.record_skips(session, [skip]))

    def late(self) -> None:
        """An executor says of a lost run that it never started, so it runs again."""
        for run in self.runs(RunStatus.LOST)[:1]:
            self.set(run, started_at=None, address="one", boot_id="boot")
            end = End(
                run_id=run.id,
                status=RunStatus.FAILED,
                message="never",
                finished_at=self.now_ms,
                never_started=True,
                sent_to=(run.app_id, "one", "boot"),  # type: ignore[arg-type]
            )
            self.within(lambda session, end=end: self._completion.end(session, [end]))

    def purge(self, session: Session) -> None:
        self._session = session
        found = self.runs(*FINAL)
        if not found:
            return
        last = sorted(run.scheduled_at for run in found)[len(found) // 5]
        ids = [run.id for run in found if run.scheduled_at <= last]
        self.within(
            lambda session: purges.clear(
                session, ids, by="me", now_ms=self.now_ms, day_of=lambda due: due.date()
            )
        )

    def fold(self) -> None:
        while self.keeper.run_round(self.now_ms) < 1:
            pass

    def new(self, app_id: int, job_id: int, at: int, **columns: object) -> NewRun:
        facts = {"kind": Kind.SCHEDULE, "origin_id": 0, "due_at": at} | columns
        return NewRun(
            app_id=app_id,
            job_id=job_id,
            handler="work",
            param="",
            scheduled_at=at,
            retries_left=self.chance.choice([0, 0, 1]),
            **facts,  # type: ignore[arg-type]
        )

    def add(self, run: Run, **columns: object) -> None:
        new = self.new(
            run.app_id,
            run.job_id,
            run.scheduled_at,
            due_at=self.now_ms,
            shard_index=run.shard_index,
            shard_total=run.shard_total,
            **columns,
        )
        self.within(lambda session: planned_runs.plan(session, [new], self._ids))

    def runs(self, *statuses: RunStatus) -> list[Run]:
        wanted = select(Run).where(Run.status.in_(statuses)).order_by(Run.id)
        return self.within(lambda session: list(session.execute(wanted).scalars()))

    def set(self, run: Run, **columns: object) -> None:
        changed = update(Run).where(Run.id == run.id).values(**columns)
        self.within(lambda session: session.execute(changed))

    def faults(self) -> Sequence[object]:
        return self.database.read(
            lambda session: audit_board(
                session, bounds=(START - HOUR_MS, self.now_ms), now_ms=self.now_ms
            )
        )


@pytest.mark.parametrize("seed", range(1))
def test_what_was_folded_is_what_a_rebuild_finds(rows: Rows, seed: int) -> None:
    play = Play(rows, seed)
    play.fold()
    for _ in range(14):
        play.steps(play.chance.randrange(1, 25))
        play.fold()

        assert play.faults() == []

    states = play.database.read(
        lambda session: job_states.rows(session, [job_id for _, job_id in play.jobs])
    )
    assert all(history.from_text(state["strip"]).entries for state in states.values())
    assert len(states) == len(play.jobs)
    for model in (JobState, JobError, Quarter):
        assert play.database.read(lambda s, it=model: s.execute(select(it)).first()), model  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(1))
def test_what_was_there_before_the_board_is_filled_in(rows: Rows, seed: int) -> None:
    play = Play(rows, seed)
    play.steps(300)

    play.fold()

    assert play.faults() == []
    play.steps(1)
    play.now_ms += HOUR_MS
    play.fold()
    assert play.faults() == []


@pytest.mark.parametrize("seed", range(1))
def test_what_was_deleted_is_forgotten(rows: Rows, seed: int) -> None:
    play = Play(rows, seed)
    play.fold()
    for _ in range(10):
        play.steps(30)
        play.database.write(play.purge)
        play.fold()

        assert play.faults() == []
