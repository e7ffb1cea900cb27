"""0.1.0 itself beside today's code, and an upgrade from it under load: executors of both versions.

The code of 0.1.0 comes from the repository's history, so a shallow clone does not have it.
"""

import filecmp
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.support import first_release
from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.invariants import read_starts
from tests.support.remote_executors import TOKEN, GatewayCase

pytestmark = [pytest.mark.release, pytest.mark.timeout(1_200)]  # it waits for load

ROOT = Path(__file__).parents[2]
REMOTE_APP = "remote"
JOBS = ROOT / "tests/data/every_kind_of_job.yaml"
_RUNS = "SELECT id, executor_address AS address, status FROM xxl_job_log"
_FLOWS = "SELECT id FROM xxl_job_log WHERE job_id IN (SELECT id FROM xxl_job_info WHERE flow > '')"


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return first_release.extract(tmp_path_factory.mktemp("first") / "code")


def test_the_data_of_0_1_0_is_what_its_code_writes(code: Path, tmp_path: Path) -> None:
    first_release.write_samples(code, tmp_path)

    files = [
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
    ]
    kept = [path for path in first_release.DATA.rglob("*") if path.is_file()]
    same, *others = filecmp.cmpfiles(tmp_path, first_release.DATA, files, shallow=False)
    assert others == [[], []]
    assert len(same) == len(kept)


class Upgrade:
    """A deployment of 0.1.0 that becomes one of today, with a load of every kind of job."""

    def __init__(self, deployment: Deployment, code: Path) -> None:
        self.deployment = deployment
        self.folder = deployment.folder
        self.code = code
        self.killed: set[str] = set()
        deployment.app = REMOTE_APP
        self.case = GatewayCase(deployment, Path(sys.executable).parent)
        deployment.app = "demo"
        self.remote_starts = self.folder / "remote-starts"

    @contextmanager
    def first(self) -> Iterator[None]:
        """Run commands of 0.1.0 in between."""
        self.deployment.code = self.code
        yield
        self.deployment.code = None

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
        with Command(*stand_in, folder=self.folder, env=env, program=first_release.PYTHON):
            yield eventually(
                lambda: next(iter(set(self.done()) - {"behind", "ahead", None, ""}), ""), 60.0
            )

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

    def refused(self) -> str:
        """Return why a scheduler does not start."""
        command = self.deployment.scheduler()
        assert command.wait() == 1
        return command.text()

    def rows(self, statement: str = _RUNS) -> list[Any]:
        """Read rows by their columns, which the schema of 0.1.0 has too."""

        def look(session: Any) -> list[Any]:
            return list(session.execute(text(statement)))

        return self.deployment.database.read(look)

    def done(self) -> Counter[str]:
        """Return how many runs of each executor have succeeded."""
        return Counter(row.address for row in self.rows() if row.status == "SUCCEEDED")

    def await_work(self, *addresses: str, runs: int = 15) -> None:
        """Wait until these executors have done so many more runs each."""
        before = self.done()
        eventually(
            lambda: all(self.done()[each] >= before[each] + runs for each in addresses),
            120.0,
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


@pytest.fixture
def upgrade(code: Path, mariadb_url: str, vhost: str, tmp_path: Path) -> Iterator[Upgrade]:
    given: dict[str, Any] = {"database_url": mariadb_url, "broker_url": vhost}
    with Deployment(tmp_path, **given, has_schema=False) as deployment:
        deployment.known_apps |= {"demo", REMOTE_APP}
        yield Upgrade(deployment, code)


def test_a_cluster_of_0_1_0_is_upgraded_under_load_with_executors_behind_and_ahead(
    upgrade: Upgrade,
) -> None:
    """In the order that docs/operations.md gives, with executors and a gateway of both versions."""
    deployment = upgrade.deployment
    with upgrade.first():
        deployment.warren("db", "upgrade")
        schedulers = upgrade.schedulers()
        upgrade.apply_jobs()
        behind, gateway = upgrade.executor("behind"), upgrade.gateway()
    assert "got: 0001; run: warren db upgrade" in upgrade.refused()
    ahead = upgrade.executor("ahead")
    deployment.await_executors(behind, ahead)

    with upgrade.remote_executor() as remote:
        upgrade.await_work("behind", "ahead", remote)

        # An executor that is ahead is killed at work, goes back to 0.1.0, and forth again.
        upgrade.kill(ahead, "ahead")
        with upgrade.first():
            ahead = upgrade.executor("ahead")
        deployment.await_executors(ahead)
        upgrade.await_work("ahead")
        upgrade.end(ahead)
        ahead = upgrade.executor("ahead")
        upgrade.await_work("behind", "ahead", remote)

        # Schedulers go first, then the gateway and the executor, which is killed at work.
        upgrade.end(*schedulers)
        deployment.warren("db", "upgrade")
        upgrade.schedulers()
        with upgrade.first():
            assert "expected schema version 0001, got: 000" in upgrade.refused()
        upgrade.await_work("behind", "ahead", remote)
        upgrade.end(gateway)
        upgrade.gateway()
        upgrade.await_work(remote)
        upgrade.kill(behind, "behind")
        behind = upgrade.executor("behind")
        deployment.await_executors(behind)
        upgrade.await_work("behind", "ahead", remote)
        upgrade.assert_sound()
