"""Jobs that follow each other, and themselves, through real processes."""

from itertools import pairwise

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.run_status import RunStatus


def test_a_fixed_delay_and_its_grandchildren_follow_each_other(fleet: Deployment) -> None:
    facts = {"app": "demo", "retries": 3}
    fleet.jobs(
        JobSpec(
            name="origin",
            handler="noop",
            schedule_kind="FIX_DELAY",
            schedule_value="1",
            enabled=True,
            children=("lucky-child",),
            **facts,
        ),
        JobSpec(name="lucky-child", handler="third-time-lucky", children=("last",), **facts),
        JobSpec(name="last", handler="noop", **facts),
    )

    eventually(lambda: len(fleet.runs("last", status=RunStatus.SUCCEEDED)) >= 2)
    fleet.stop_jobs()
    fleet.await_all_final()

    origins = fleet.runs("origin", status=RunStatus.SUCCEEDED)
    assert all(
        later.scheduled_at >= sooner.finished_at + 900 for sooner, later in pairwise(origins)
    )
    ticks = {run.scheduled_at for run in origins}
    assert {run.scheduled_at for run in fleet.runs("last")} <= ticks
    assert {run.kind for run in fleet.runs("last")} == {"PARENT"}
    heads = {run.id for run in fleet.runs("lucky-child") if run.attempt == 0}
    assert {run.origin_id for run in fleet.runs("last")} <= heads
