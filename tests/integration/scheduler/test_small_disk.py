"""A job that prints more than the disk holds which also holds the journals: the others go on."""

from pathlib import Path

from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.small_disk import small_disk
from warren.executor.disk import space_of
from warren.sql.run_status import RunStatus

FLOOD = """
@job("flood")
def flood(context: JobContext) -> str:
    import subprocess
    subprocess.run("head -c 20000000 /dev/zero | tr '\\\\0' x", shell=True)
    return "flooded"
"""


@on_memory
def test_a_job_that_prints_20_mb_on_6_mb_stops_no_other(cluster: Cluster, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 6_000_000) as disk:
        for name in ("logs", "state"):
            (disk / name).mkdir()
            (tmp_path / name).symlink_to(disk / name)
        cluster.handlers.write_text(cluster.handlers.read_text() + FLOOD)
        cluster.scheduler()
        for address in ("one", "two"):
            cluster.executor(address, processes=True)
        cluster.wait_online("one", "two")
        cluster.job("flood", handler="flood")
        cluster.job(
            "tick",
            handler="echo",
            route="ROUND",
            schedule_kind="CRON",
            schedule_value="* * * * * ?",
            enabled=True,
        )

        [flood] = [cluster.wait_final(cluster.trigger("flood"))]
        done = len(cluster.runs(status=RunStatus.SUCCEEDED))
        eventually(lambda: len(cluster.runs(status=RunStatus.SUCCEEDED)) >= done + 8)
        short = space_of(str(disk)).free
        for log in (disk / "logs").rglob("*.log"):
            log.unlink()
        freed = space_of(str(disk)).free
        cluster.stop_jobs()
        eventually(lambda: all(run.finished_at for run in cluster.runs()))

        assert flood.status == RunStatus.SUCCEEDED
        assert short >= 200_000
        assert freed >= 5_000_000
        assert {run.status for run in cluster.runs(handler="echo")} <= {
            RunStatus.SUCCEEDED,
            RunStatus.CANCELLED,
        }
        for executor in list(cluster.executors):
            executor.stop(hurry=True)
            assert executor.join(60)
