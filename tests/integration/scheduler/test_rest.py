"""A scheduler at rest acts on what others left in the database long before it looks for itself."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from warren.scheduler.node import SchedulerNode
from warren.scheduler.pending_work import PendingWork, RestingRole
from warren.sql.run_status import RunStatus


@dataclass
class Watched:
    """How many looks a scheduler has begun, and after which its dispatcher was woken."""

    looks: int = 0
    woken_after: list[int] = field(default_factory=list)

    def watch(self, node: SchedulerNode) -> None:
        """Note when the scheduler's dispatcher is woken."""
        awake = node.context.wakes.of("dispatcher")
        wake = awake.set

        def note(reason: str = "") -> None:
            self.woken_after.append(self.looks)
            wake(reason)

        awake.set = note  # type: ignore[method-assign]


@pytest.fixture
def resting(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """A scheduler whose roles have nothing to do, and will not look by themselves for an hour."""
    watched, tick, rest = Watched(), PendingWork.run_round, PendingWork.resting

    def look(work: PendingWork, now_ms: int) -> float:
        watched.looks += 1
        return tick(work, now_ms)

    def rest_long(work: PendingWork, *how: Any, **options: Any) -> RestingRole:
        return rest(work, *how, **(options | {"rest_seconds": 3_600.0}))

    monkeypatch.setattr(PendingWork, "run_round", look)
    monkeypatch.setattr(PendingWork, "resting", rest_long)
    watched.watch(cluster.scheduler())
    cluster.executor()
    cluster.wait_online()
    began = watched.looks
    eventually(lambda: watched.looks > began + 3)
    return watched


def test_a_trigger_of_somebody_else_wakes_the_dispatcher_with_the_next_look(
    cluster: Cluster, resting: Watched
) -> None:
    cluster.job("echo", handler="echo", param="hello")
    before = resting.looks

    run_id = cluster.trigger("echo")
    asked = resting.looks

    assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED
    # The last look may have begun before the trigger was there.
    assert min(after for after in resting.woken_after if after >= before) <= asked + 1


def test_a_schedule_that_somebody_else_changed_is_planned(
    cluster: Cluster, resting: Watched
) -> None:
    cluster.job("noop", schedule_kind="CRON", schedule_value="0 0 0 1 1 ?", enabled=True)

    cluster.job("noop", schedule_kind="CRON", schedule_value="* * * * * ?", enabled=True)

    eventually(lambda: cluster.runs(status=RunStatus.SUCCEEDED))


def test_a_kill_that_somebody_else_asked_for_is_carried_out(
    cluster: Cluster, resting: Watched
) -> None:
    cluster.executor("two", processes=True)
    cluster.wait_online("two")
    cluster.job("sleep", handler="sleep")
    run_id = cluster.trigger("sleep", addresses=["two"])
    eventually(lambda: cluster.run(run_id).status == RunStatus.RUNNING)

    cluster.commands().kill(run_id)

    eventually(lambda: cluster.run(run_id).status == RunStatus.KILLED)
