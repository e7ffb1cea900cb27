"""Many jobs in one second, and more than one scheduler to see to them."""

from datetime import UTC, datetime, timedelta

from scheduler.job_spec import JobSpec
from sql.run_status import RunStatus
from tests.support.deployment import Deployment

JOBS = 1_000


def test_thousand_jobs_due_in_one_second_run_once_each_with_two_schedulers(
    deployment: Deployment,
) -> None:
    schedulers = [deployment.scheduler(), deployment.scheduler()]
    executors = [deployment.executor("one"), deployment.executor("two")]
    deployment.await_schedulers(*schedulers)
    deployment.await_executors(*executors)
    second = datetime.fromtimestamp(deployment.now_ms() // 1000, UTC) + timedelta(seconds=8)

    deployment.jobs(*(_once(f"job-{number}", second) for number in range(JOBS)))
    deployment.await_runs(JOBS)
    deployment.await_all_final(60)

    runs = deployment.runs()
    assert len(runs) == JOBS
    assert len({run.job_id for run in runs}) == JOBS
    assert {run.status for run in runs} == {RunStatus.SUCCEEDED}
    assert {run.scheduled_at for run in runs} == {int(second.timestamp() * 1000)}
    assert len(deployment.starts()) == JOBS
    assert {run.executor_address for run in runs} == {"one", "two"}


def _once(name: str, at: datetime) -> JobSpec:
    return JobSpec(
        name=name,
        app="demo",
        handler="noop",
        route="ROUND" if int(name[4:]) % 2 else "RANDOM",
        schedule_kind="AT",
        schedule_conf=at.isoformat(),
        enabled=True,
    )
