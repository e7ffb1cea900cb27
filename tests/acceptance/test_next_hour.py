"""The late starts that the board foretells are those that come."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.scheduler.board import next_hour
from warren.sql.instants import MINUTE_MS
from warren.sql.models import Outlook
from warren.sql.run_status import LATE_MS, RunStatus

#: As long as is assumed of jobs that never ran.
LASTS_SECONDS = next_hour.UNKNOWN_MS / 1_000
JOBS, SLOTS = 20, 2
#: A run lasts as long as foretold or a little longer, so what waits for it never starts sooner.
EXACT_MS = 500

HANDLERS = f"""
import time

from warren import job


@job("work")
def work(context):
    time.sleep({LASTS_SECONDS})
"""

JOB = """
  - {{name: {name}, handler: work, enabled: true, schedule: {{at: "{at}"}}}}"""


def test_the_late_starts_foretold_are_those_that_come(
    mariadb_url: str, vhost: str, tmp_path: Path
) -> None:
    with Deployment(tmp_path, database_url=mariadb_url, broker_url=vhost) as warren:
        handlers = tmp_path / "work.py"
        handlers.write_text(HANDLERS)
        warren.handlers = str(handlers)
        scheduler, executor = warren.scheduler(), warren.executor(slots=SLOTS)
        warren.await_schedulers(scheduler)
        warren.await_executors(executor)
        due_at = warren.now_ms() // 1_000 * 1_000 + 20_000
        names = [f"job-{number}" for number in range(JOBS)]
        _apply(warren, names, due_at)

        foretold = _foretold(warren)
        assert foretold["due"] == JOBS
        late = {row["job_id"]: row["starts_at"] for row in foretold["late"]}
        in_time = 1 + LATE_MS // next_hour.UNKNOWN_MS
        assert len(late) == JOBS - in_time * SLOTS

        runs = [run for name in names for run in eventually(lambda name=name: warren.runs(name))]
        ended = [warren.await_final(run.id)[0] for run in runs]
        assert {run.status for run in ended} == {RunStatus.SUCCEEDED}
        started = sorted(run.started_at or 0 for run in ended)
        expected = sorted(late.values())
        # Which of the jobs that are due together goes first is open.
        for came, told in zip(started[-len(expected) :], expected, strict=True):
            assert told - EXACT_MS < came < told + MINUTE_MS


def _apply(warren: Deployment, names: list[str], due_at: int) -> None:
    at = datetime.fromtimestamp(due_at / 1_000, UTC).isoformat()
    text = "defaults: {app: demo}\njobs:" + "".join(JOB.format(name=name, at=at) for name in names)
    (warren.folder / "jobs.yaml").write_text(text)
    warren.warren("jobs", "apply", "jobs.yaml")


def _foretold(warren: Deployment) -> dict[str, Any]:
    now_ms = warren.now_ms()
    warren.database.write(lambda session: next_hour.make(session, timezone="UTC", now_ms=now_ms))
    text = warren.database.read(lambda s: s.execute(select(Outlook.content)).scalar_one())
    found: dict[str, Any] = json.loads(text)
    return found
