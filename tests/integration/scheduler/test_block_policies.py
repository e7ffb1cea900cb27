"""What a job's block policy does to its runs, from the trigger to the row."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.invariants import assert_sound
from warren.sql.instants import at
from warren.sql.models import Alarm, Run
from warren.sql.run_status import RunStatus

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


def test_a_run_that_finds_its_lane_full_comes_again_a_second_later(
    cluster: Cluster,
) -> None:
    release = cluster.folder / "release"
    cluster.scheduler()
    cluster.executor(lane_runs=1)
    cluster.wait_online()
    begin(cluster, release)
    waiting = cluster.trigger("held")
    cluster.wait_status(waiting, RunStatus.SENT)

    turned_away = cluster.wait_final(cluster.trigger("held"))
    again = cluster.runs(origin_id=turned_away.id, attempt=1)[0]
    release.touch()

    assert (turned_away.status, turned_away.message) == (
        "UNDELIVERED",
        "too many runs of the job already wait here: 1",
    )
    assert again.due_at - turned_away.finished_at >= 1_000
    assert again.retries_left == turned_away.retries_left
    eventually(lambda: cluster.runs(origin_id=turned_away.id, status=RunStatus.SUCCEEDED))
    assert cluster.wait_final(waiting).status == RunStatus.SUCCEEDED
    assert_sound(cluster)


@pytest.mark.parametrize("block", ["DISCARD_LATER", "COVER_EARLY"])
class TestRefusedRetries:
    """A run that failed, and whose retry finds a newer run of its job at work."""

    def fail_then_occupy(
        self, cluster: Cluster, release: Path, block: str, *, retries: int
    ) -> tuple[int, int]:
        """Return the ids of a run that failed and of the one that is at work since."""
        cluster.job(
            "held",
            handler="second-time-lucky",
            block=block,
            retries=retries,
            retry_delay=3_600,
            alarm_emails=("ops@example.com",),
        )
        failed = cluster.trigger("held")
        cluster.wait_status(failed, RunStatus.FAILED)
        cluster.set_job("held", handler="until-file", param=str(release))
        newer = cluster.trigger("held")
        cluster.wait_status(newer, RunStatus.RUNNING)
        return failed, newer

    def make_due(self, cluster: Cluster, run_id: int) -> None:
        """Spare a retry its delay."""
        now_ms = cluster.now_ms()
        values = {"due_at": now_ms, "due_second": at(now_ms)}
        due = update(Run).where(Run.id == run_id).values(**values)
        cluster.database.write(lambda session: session.execute(due))

    def alarms(self, cluster: Cluster) -> list[Alarm]:
        return cluster.database.read(lambda session: list(session.execute(select(Alarm)).scalars()))

    def test_use_up_a_retry_and_the_next_one_goes_on(
        self, cluster: Cluster, release: Path, block: str
    ) -> None:
        failed, newer = self.fail_then_occupy(cluster, release, block, retries=2)
        [_, refused] = cluster.runs(origin_id=failed)

        self.make_due(cluster, refused.id)
        refused = cluster.wait_final(refused.id)
        [_, _, last] = cluster.runs(origin_id=failed)
        release.touch()
        cluster.wait_final(newer)
        self.make_due(cluster, last.id)

        assert (refused.status, refused.retries_left) == ("REFUSED", 1)
        assert last.retries_left == 0
        assert last.due_at - refused.finished_at >= 3_500_000
        ended = cluster.wait_final(last.id)
        assert (ended.status, ended.message) == ("SUCCEEDED", "at last")
        assert self.alarms(cluster) == []
        assert_sound(cluster)

    def test_end_in_an_alarm_when_they_are_used_up(
        self, cluster: Cluster, release: Path, block: str
    ) -> None:
        failed, _ = self.fail_then_occupy(cluster, release, block, retries=1)
        [_, refused] = cluster.runs(origin_id=failed)

        self.make_due(cluster, refused.id)
        refused = cluster.wait_final(refused.id)
        release.touch()

        [alarm] = self.alarms(cluster)
        assert alarm.run_id == refused.id
        assert f"{refused.message}; attempt 1 FAILED: attempt 0" in alarm.content
        assert len(cluster.runs(origin_id=failed)) == 2
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

    assert cluster.wait_final(first).message == "released"
    assert cluster.wait_final(second).message == "done"
    assert_sound(cluster)
