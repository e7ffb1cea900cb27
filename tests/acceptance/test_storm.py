"""Many jobs in one second, and more than one scheduler to see to them."""

import pytest

from tests.support.deployment import Deployment
from tests.support.one_instant import start_all
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.run_status import RunStatus

JOBS = 1_000


@pytest.mark.release
def test_thousand_jobs_due_in_one_second_run_once_each_with_two_schedulers(
    deployment: Deployment,
) -> None:
    schedulers = [deployment.scheduler(), deployment.scheduler()]
    executors = [deployment.executor("one"), deployment.executor("two")]
    deployment.await_schedulers(*schedulers)
    deployment.await_executors(*executors)
    deployment.jobs(*(_job(number) for number in range(JOBS)))

    at_ms = start_all(deployment.database, now_ms=deployment.now_ms(), in_seconds=8)
    deployment.await_runs(JOBS)
    deployment.await_all_final(60)

    runs = deployment.runs()
    assert len(runs) == JOBS
    assert len({run.job_id for run in runs}) == JOBS
    assert {run.status for run in runs} == {RunStatus.SUCCEEDED}
    assert {run.scheduled_at for run in runs} == {at_ms}
    assert len(deployment.starts()) == JOBS
    assert {run.address for run in runs} == {"one", "two"}


def _job(number: int) -> JobSpec:
    route = "ROUND" if number % 2 else "RANDOM"
    return JobSpec(name=f"job-{number}", app="demo", handler="noop", route=route)
