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
    second = _apply_all_for_one_second(deployment)
    until_then = second.timestamp() - deployment.now_ms() / 1000
    deployment.await_runs(JOBS, seconds=until_then + 60)
    deployment.await_all_final(60)

    runs = deployment.runs()
    assert len(runs) == JOBS
    assert len({run.job_id for run in runs}) == JOBS
    assert {run.status for run in runs} == {RunStatus.SUCCEEDED}
    assert {run.scheduled_at for run in runs} == {int(second.timestamp() * 1000)}
    assert len(deployment.starts()) == JOBS
    assert {run.executor_address for run in runs} == {"one", "two"}


def _apply_all_for_one_second(deployment: Deployment) -> datetime:
    """Apply the jobs to fire in one second, which comes when this machine will be done with it."""
    began_ms = deployment.now_ms()
    deployment.jobs(*(_job(n, _second(began_ms, after_seconds=86_400)) for n in range(JOBS)))
    now_ms = deployment.now_ms()
    second = _second(now_ms, after_seconds=5 + 2 * (now_ms - began_ms) / 1000)
    deployment.jobs(*(_job(n, second) for n in range(JOBS)))
    assert deployment.now_ms() < second.timestamp() * 1000, "applied too late"
    return second


def _second(now_ms: int, *, after_seconds: float) -> datetime:
    return datetime.fromtimestamp(now_ms // 1000, UTC) + timedelta(seconds=int(after_seconds))


def _job(number: int, at: datetime) -> JobSpec:
    return JobSpec(
        name=f"job-{number}",
        app="demo",
        handler="noop",
        route="ROUND" if number % 2 else "RANDOM",
        schedule_kind="AT",
        schedule_conf=at.isoformat(),
        enabled=True,
    )
