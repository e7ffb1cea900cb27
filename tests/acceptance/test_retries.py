"""A job that fails is tried again, as often as it may be."""

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.sql.run_status import RunStatus


def test_job_is_tried_again_until_it_succeeds(fleet: Deployment) -> None:
    fleet.job("lucky", handler="third-time-lucky", retries=5, retry_delay=1)

    first = fleet.trigger("lucky")

    eventually(lambda: fleet.runs("lucky", status=RunStatus.SUCCEEDED))
    attempts = fleet.runs("lucky")
    assert [(run.attempt, run.kind, run.status) for run in attempts] == [
        (0, "MANUAL", "FAILED"),
        (1, "RETRY", "FAILED"),
        (2, "RETRY", "SUCCEEDED"),
    ]
    assert {run.origin_id for run in attempts} == {first}
    assert attempts[1].started_at - attempts[0].finished_at >= 900


def test_waiting_command_tells_how_the_last_attempt_ended(fleet: Deployment) -> None:
    fleet.job("unlucky", handler="fail", retries=1)

    said = fleet.warren_fails("jobs", "trigger", "demo/unlucky", "--wait")

    assert "FAILED after 2 attempts: " in said
    assert "no luck" in said
    assert [run.status for run in fleet.runs("unlucky")] == ["FAILED", "FAILED"]
