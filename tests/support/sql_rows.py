"""Rows, threads and statements for database tests."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import event, select, update

from warren.sql.engine import Database
from warren.sql.explanation import Explanation
from warren.sql.ids import RunIds
from warren.sql.models import Job, Run
from warren.sql.run_status import Kind, RunStatus
from warren.sql.runs import planned_runs, transitions

T = TypeVar("T")

NOW_MS = 1_790_000_000_000
NODE = "node-1"


def new_run(**values: Any) -> planned_runs.NewRun:
    facts: dict[str, Any] = {
        "app_id": 1,
        "job_id": 1,
        "handler": "demo.echo",
        "param": "hello",
        "kind": Kind.SCHEDULE,
        "scheduled_at": NOW_MS,
        "due_at": NOW_MS,
        "retries_left": 0,
    }
    return planned_runs.NewRun(**(facts | values))


def ticks(count: int, **values: Any) -> list[planned_runs.NewRun]:
    """Return new runs of one job, one second apart."""
    moments = [NOW_MS + 1_000 * number for number in range(count)]
    return [new_run(scheduled_at=moment, due_at=moment, **values) for moment in moments]


def plan(database: Database, *new: planned_runs.NewRun) -> list[int]:
    ids = RunIds(database)
    return database.write(lambda session: planned_runs.plan(session, new, ids))


def planned_in(database: Database, status: RunStatus, count: int = 1, **values: Any) -> list[int]:
    """Plan runs of a new job and set their status directly."""
    job_id = 1_000_000 + max((row.id for row in all_runs(database)), default=0)
    run_ids = plan(database, *ticks(count, **({"job_id": job_id} | values)))
    put(database, run_ids, status=status)
    return run_ids


def put(database: Database, run_ids: Sequence[int], **values: Any) -> None:
    statement = update(Run).where(Run.id.in_(run_ids)).values(**values)
    database.write(lambda session: session.execute(statement))


def all_runs(database: Database) -> list[Run]:
    statement = select(Run).order_by(Run.id)
    return database.read(lambda session: list(session.execute(statement).scalars()))


def run(database: Database, run_id: int) -> Run:
    return database.read(lambda session: session.get_one(Run, run_id))


def statuses(database: Database, run_ids: Sequence[int]) -> list[str]:
    found = {row.id: row.status for row in all_runs(database)}
    return [found[run_id] for run_id in run_ids]


def ended(
    run_id: int,
    status: RunStatus = RunStatus.SUCCEEDED,
    *,
    message: str = "done",
    why: str | None = None,
    **values: Any,
) -> transitions.FinalState:
    facts: dict[str, Any] = {"finished_at": NOW_MS + 500} | values
    return transitions.FinalState(
        run_id=run_id, status=status, message=Explanation(message, why), **facts
    )


FIRST = Explanation("FIRST: exec-1", '{"code":"x"}')


def routed(run_id: int, message: Explanation = FIRST) -> transitions.Routed:
    return transitions.Routed(
        run_id=run_id,
        address="exec-1",
        boot_id="boot-1",
        message=message,
    )


def add_job(database: Database, name: str = "job", **values: Any) -> int:
    job = Job(app_id=1, name=name, **values)

    def unit(session: Any) -> int:
        session.add(job)
        session.flush()
        return job.id

    return database.write(unit)


def side_by_side(*works: Callable[[], T]) -> list[T]:
    """Start all functions at the same moment, each in a thread; return their results."""
    start = threading.Barrier(len(works))

    def begin(work: Callable[[], T]) -> T:
        start.wait(30)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result(60) for future in [pool.submit(begin, work) for work in works]]


@contextmanager
def statements(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """Collect the statements sent to the database: text and parameters."""
    sent: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, text: str, values: Any, *_rest: Any) -> None:
        sent.append((text, values))

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(database.engine, "before_cursor_execute", note)


def trigger_at_once(database: Database, job: Job, count: int, *, now_ms: int) -> list[int]:
    """Plan runs of a job that are all due now, in one transaction, for a single claim."""
    return plan(database, *[_run_now(job, now_ms)] * count)


def trigger_each(database: Database, jobs: Sequence[Job], *, now_ms: int) -> list[int]:
    """Plan a run of each of these jobs, all due now, in one transaction."""
    return plan(database, *[_run_now(job, now_ms) for job in jobs])


def _run_now(job: Job, now_ms: int) -> planned_runs.NewRun:
    return new_run(
        app_id=job.app_id,
        job_id=job.id,
        handler=job.handler,
        param=job.param or "",
        kind=Kind.API,
        scheduled_at=now_ms,
        due_at=now_ms,
        retries_left=job.retries,
        origin_id=None,
    )
