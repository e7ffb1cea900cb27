"""A deployment with a load of every kind of job, to be upgraded or restarted meanwhile."""

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.invariants import read_starts
from tests.support.remote_executors import TOKEN, GatewayCase

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "tests/data/every_kind_of_job.yaml"
REMOTE_APP = "remote"
_RUNS = (
    "SELECT id, origin_id, executor_address AS address, status, due_at, started_at "
    "FROM xxl_job_log WHERE id > :since"
)
_FLOWS = "SELECT id FROM xxl_job_log WHERE job_id IN (SELECT id FROM xxl_job_info WHERE flow > '')"


class LoadedDeployment:
    """Commands that run the jobs of `JOBS`, and an executor of XXL-JOB's at a gateway.

    Rows are read by columns that 0.1.0 has too. Runs up to `since_id` are not looked at.
    """

    def __init__(self, deployment: Deployment, *, since_id: int = 0) -> None:
        self.deployment = deployment
        self.folder = deployment.folder
        self.killed: set[str] = set()
        deployment.known_apps |= {deployment.app, REMOTE_APP}
        deployment.app = REMOTE_APP
        self.case = GatewayCase(deployment, Path(sys.executable).parent)
        deployment.app = "demo"
        self.remote_starts = self.folder / "remote-starts"
        self._since_id = since_id

    def apply_jobs(self) -> None:
        file = self.folder / "jobs.yaml"
        file.write_text(JOBS.read_text().replace("STARTS", str(self.folder / "starts.jsonl")))
        self.deployment.warren("jobs", "apply", str(file))

    def schedulers(self) -> list[Command]:
        found = [self.deployment.scheduler(), self.deployment.scheduler()]
        self.deployment.await_schedulers(*found)
        return found

    def executor(self, address: str) -> Command:
        return self.deployment.executor(address, app="demo", drain_seconds=20)

    def gateway(self) -> Command:
        return self.case.gateway(state_dir=self.folder / "gateway-state")

    @contextmanager
    def remote_executor(self) -> Iterator[str]:
        """Let an executor of XXL-JOB register at the gateway; yield its address."""
        url = f"http://127.0.0.1:{self.case.port}"
        stand_in = ("-m", "benchmarks.gateway.remotes", url, REMOTE_APP, TOKEN, "1")
        env = {"PYTHONPATH": str(ROOT), "BENCH_STARTS": str(self.remote_starts)}
        with Command(*stand_in, folder=self.folder, env=env, program=Path(sys.executable)):
            [address] = eventually(lambda: [one for one in self.done() if ":" in (one or "")])
            yield address

    def end(self, *commands: Command) -> None:
        """Let commands drain and exit, as in an ordinary restart."""
        for command in commands:
            command.send(signal.SIGTERM)
        for command in commands:
            assert command.wait(60) == 0, command.text()[-4000:]

    def kill(self, command: Command, address: str) -> None:
        """Kill an executor at work."""
        command.kill()
        self.killed.add(address)

    def rows(self, statement: str = _RUNS) -> list[Any]:
        """Read rows by their columns, which the schema of 0.1.0 has too."""

        def look(session: Session) -> list[Any]:
            return list(session.execute(text(statement), {"since": self._since_id}))

        return self.deployment.database.read(look)

    def done(self) -> Counter[str]:
        """Return how many runs of each executor have succeeded."""
        return Counter(row.address for row in self.rows() if row.status == "SUCCEEDED")

    def await_work(self, *addresses: str, runs: int = 15) -> None:
        """Wait until these executors have done so many more runs each."""
        before = self.done()
        eventually(
            lambda: all(self.done()[each] >= before[each] + runs for each in addresses),
            240.0,
            every=0.5,
        )

    def assert_sound(self) -> None:
        """Stop all schedules, wait for open runs, and compare what has started with the rows."""
        self.deployment.stop_jobs()
        self.deployment.await_all_final()
        rows = {row.id: row for row in self.rows()}
        ends = Counter(row.status for row in rows.values())
        starts = Counter(one["run"] for one in read_starts(self.folder / "starts.jsonl"))
        starts.update(map(int, self.remote_starts.read_text().split()))
        flows = {row.id for row in self.rows(_FLOWS)}
        succeeded = {row.id for row in rows.values() if row.status == "SUCCEEDED"}
        never = {"UNDELIVERED", "CANCELLED", "REFUSED"}
        lost = [row for row in rows.values() if row.status == "LOST"]
        assert {run: count for run, count in starts.items() if count > 1} == {}
        assert set(starts) - set(rows) == set()
        assert succeeded - flows - set(starts) == set()
        assert [rows[run] for run in starts if rows[run].status in never] == []
        assert {row.address for row in lost} <= self.killed, lost
        assert min(ends["SUCCEEDED"], 50 * ends["TIMED_OUT"], 50 * ends["FAILED"]) > 200, ends
        assert flows & succeeded
        self.deployment.warren("audit")
        self.deployment.assert_nothing_left()
