"""A scheduler and an executor in this process, on SQLite and the broker in memory.

Runs end at once, without job processes: a process for each job would cost most of it.
"""

import tempfile
import time
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from benchmarks.stack import none_open
from tests.support.cluster import APP, Cluster
from tests.support.eventually import eventually
from tests.support.one_instant import start_all
from warren.broker.memory import MemoryBroker
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.engine import Database
from warren.sql.models import Run
from warren.sql.run_status import RunStatus
from warren.sql.schema import migration

SLOTS = 50
#: How long before their tick the jobs start: long enough to plan them.
AHEAD_SECONDS = 8


def storm(jobs: int) -> float:
    """Let jobs be due in one second; return how many seconds later the last run had ended."""
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        database = Database(f"sqlite:///{folder}/warren.db")
        migration.upgrade(database)
        cluster = Cluster(Path(folder), database, MemoryBroker().transport)
        try:
            cluster.scheduler()
            cluster.executor(slots=SLOTS)
            cluster.wait_online()
            cluster.apply(
                *(JobSpec(name=f"storm-{n}", app=APP, handler="noop") for n in range(jobs))
            )
            at_ms = start_all(database, now_ms=cluster.now_ms(), in_seconds=AHEAD_SECONDS)
            time.sleep((at_ms - cluster.now_ms()) / 1000)
            eventually(lambda: database.read(none_open), 120.0, 0.05)
            return (database.read(lambda session: _last_end(session, jobs)) - at_ms) / 1000
        finally:
            cluster.close()
            database.close()


def _last_end(session: Session, jobs: int) -> int:
    count, last = session.execute(
        select(func.count(), func.max(Run.finished_at)).where(Run.status == RunStatus.SUCCEEDED)
    ).one()
    assert count == jobs, f"expected {jobs} runs to succeed, got: {count}"
    return int(last)
