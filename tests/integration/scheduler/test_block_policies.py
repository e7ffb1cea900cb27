"""What a job's block policy does to its runs, from the trigger to the row."""

from pathlib import Path
from typing import Any

import pytest

from sql.run_status import RunStatus
from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.oracle import assert_sound

pytestmark = on_memory


@pytest.fixture
def release(cluster: Cluster) -> Path:
    """The file for which runs of the job `held` wait; one executor is there."""
    cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    return cluster.folder / "release"


def begin(cluster: Cluster, release: Path, count: int = 1, **fields: Any) -> list[int]:
    """Let an executor start runs of the job `held`; return their ids."""
    cluster.job("held", handler="until-file", param=str(release), **fields)
    run_ids = [cluster.trigger("held") for _ in range(count)]
    for run_id in run_ids:
        cluster.wait_status(run_id, RunStatus.RUNNING)
    return run_ids


def test_discard_later_refuses_the_second_run_which_is_not_tried_again(
    cluster: Cluster, release: Path
) -> None:
    [first] = begin(cluster, release, block="DISCARD_LATER", retries=3)

    second = cluster.wait_final(cluster.trigger("held"))
    release.touch()

    assert (second.status, second.trigger_code, second.handle_code) == ("REFUSED", 500, 0)
    assert cluster.wait_final(first).status == RunStatus.SUCCEEDED
    assert len(cluster.runs()) == 2
    assert_sound(cluster)


def test_cover_early_kills_the_first_run_which_is_not_tried_again(
    cluster: Cluster, release: Path
) -> None:
    [first] = begin(cluster, release, block="COVER_EARLY", retries=3)

    second = cluster.trigger("held")

    assert cluster.wait_final(first).status == RunStatus.KILLED
    cluster.wait_status(second, RunStatus.RUNNING)
    release.touch()
    assert cluster.wait_final(second).status == RunStatus.SUCCEEDED
    assert len(cluster.runs()) == 2
    assert_sound(cluster)


def test_serial_execution_lets_the_second_run_wait_for_the_first(
    cluster: Cluster, release: Path
) -> None:
    [first] = begin(cluster, release)

    second = cluster.trigger("held")
    cluster.wait_status(second, RunStatus.SENT)
    assert [start["run"] for start in cluster.starts()] == [first]
    release.touch()

    assert cluster.wait_final(second).status == RunStatus.SUCCEEDED
    assert [start["run"] for start in cluster.starts()] == [first, second]
    assert_sound(cluster)


def test_concurrency_lets_that_many_runs_work_at_a_time(cluster: Cluster, release: Path) -> None:
    running = begin(cluster, release, count=2, concurrency=2)

    third = cluster.trigger("held")
    cluster.wait_status(third, RunStatus.SENT)
    assert sorted(start["run"] for start in cluster.starts()) == sorted(running)
    release.touch()

    eventually(lambda: len(cluster.runs(status=RunStatus.SUCCEEDED)) == 3)
    assert_sound(cluster)


def test_a_run_at_work_goes_on_when_its_job_gets_another_handler(
    cluster: Cluster, release: Path
) -> None:
    [first] = begin(cluster, release)

    cluster.job("held", handler="noop")
    second = cluster.trigger("held")
    release.touch()

    assert cluster.wait_final(first).handle_msg == "released"
    assert cluster.wait_final(second).handle_msg == "done"
    assert_sound(cluster)
