"""An upgrade in the order of docs/operations.md: executors work on while no scheduler runs."""

from pathlib import Path

import pytest

from tests.support import first_schema
from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.invariants import assert_sound
from warren.scheduler.flows.graph import parse
from warren.sql.run_status import FINAL, RunStatus
from warren.sql.schema import migration, version

pytestmark = pytest.mark.both("MariaDB commits each step of a migration by itself")

EVERY_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}
FLOW = {"first": {"job": "child"}, "second": {"job": "child", "after": "first"}}


def apply_jobs(cluster: Cluster) -> None:
    """Apply jobs of every kind, due each second."""
    delay = {"schedule_kind": "FIX_DELAY", "schedule_value": "1", "enabled": True}
    cluster.job("child", concurrency=4)
    cluster.job("plain", **EVERY_SECOND)
    cluster.job("flaky", handler="second-time-lucky", retries=2, retry_delay=1, **EVERY_SECOND)
    cluster.job("failing", handler="fail", delivery="AT_LEAST_ONCE", **EVERY_SECOND)
    cluster.job("broadcast", route="SHARDING_BROADCAST", **EVERY_SECOND)
    cluster.job("parent", children=("child",), **EVERY_SECOND)
    cluster.job("delayed", **delay)
    cluster.job("slow", handler="sleep", param="0.7", concurrency=2, **EVERY_SECOND)
    cluster.job("flow", flow=parse(FLOW), handler="", **EVERY_SECOND)


def test_an_upgrade_of_0_1_0_at_work_loses_no_run_and_doubles_none(
    cluster: Cluster, tmp_path: Path
) -> None:
    node = cluster.scheduler()
    cluster.executor("one")
    cluster.executor("two")
    cluster.wait_online("one", "two")
    apply_jobs(cluster)
    release = tmp_path / "release"
    cluster.job("held", handler="until-file", param=str(release), concurrency=2)
    held = [cluster.trigger("held") for _ in range(6)]
    eventually(lambda: len(cluster.runs(status=RunStatus.RUNNING)) > 2)
    eventually(lambda: len(cluster.runs(status=RunStatus.SUCCEEDED)) > 20)

    node.stop()
    cluster.schedulers.remove(node)
    first_schema.take_back(cluster.database)
    before = first_schema.rows(cluster.database)
    release.touch()
    migration.upgrade(cluster.database)
    after = first_schema.rows(cluster.database)
    cluster.scheduler()

    version.check(cluster.database)
    for table, rows in before.items():
        if table != "alembic_version":
            assert [{name: row[name] for name in rows[0]} for row in after[table]] == rows, table
    eventually(lambda: all(cluster.run(run_id).status in FINAL for run_id in held))
    assert {cluster.run(run_id).status for run_id in held} == {RunStatus.SUCCEEDED}
    eventually(lambda: len(cluster.runs(status=RunStatus.SUCCEEDED)) > 60)
    assert_sound(cluster)
