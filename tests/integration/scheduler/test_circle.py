"""The whole circle: a row becomes a trigger, a process, a result and a row again."""

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from warren.resources.runs import KillOutcome
from warren.sql.run_status import RunStatus

pytestmark = pytest.mark.both("the whole way, over every real part")


def test_a_manual_trigger_runs_and_its_result_is_in_the_row(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.executor(processes=True)
    cluster.job("greet", handler="echo")

    run = cluster.wait_final(cluster.trigger("greet", "hello"))

    assert (run.status, run.message) == (RunStatus.SUCCEEDED, "hello")
    assert (run.trigger_code, run.handle_code) == (200, 200)
    assert "param hello" in (run.log_tail or "")
    assert run.started_at <= run.finished_at


def test_a_job_that_fails_is_tried_again_until_it_succeeds(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.executor(processes=True)
    cluster.job("lucky", handler="third-time-lucky", retries=3)

    first = cluster.trigger("lucky")
    eventually(lambda: [r for r in cluster.runs() if r.status == RunStatus.SUCCEEDED])

    attempts = cluster.runs(origin_id=first)
    assert [(r.attempt, r.status, r.kind) for r in attempts] == [
        (0, "FAILED", "MANUAL"),
        (1, "FAILED", "RETRY"),
        (2, "SUCCEEDED", "RETRY"),
    ]


def test_a_job_fires_on_every_tick_of_its_cron(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.executor(processes=True)

    cluster.job("each-second", schedule_kind="CRON", schedule_value="* * * * * ?", enabled=True)
    eventually(lambda: len(cluster.runs(status=RunStatus.SUCCEEDED)) >= 3)

    ticks = [run.scheduled_at for run in cluster.runs()]
    assert ticks == list(range(ticks[0], ticks[0] + 1000 * len(ticks), 1000))
    late = [r.started_at - r.scheduled_at for r in cluster.runs(status=RunStatus.SUCCEEDED)]
    assert min(late) >= 0


def test_a_handler_that_nobody_has_is_waited_for_and_then_named(cluster: Cluster) -> None:
    cluster.be_quick()
    cluster.scheduler()
    cluster.executor(processes=True)
    cluster.wait_online()
    cluster.job("lost", handler="nowhere")

    run = cluster.wait_final(cluster.trigger("lost"))

    assert run.status == RunStatus.UNDELIVERED
    assert run.message == "no online executor has handler 'nowhere': one"


def test_a_running_run_is_killed_by_its_id(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.executor(processes=True)
    cluster.job("long", handler="sleep")
    run_id = cluster.trigger("long")
    eventually(lambda: cluster.run(run_id).status == RunStatus.RUNNING)

    outcome = cluster.commands().kill(run_id)
    run = cluster.wait_final(run_id)

    assert outcome is KillOutcome.REQUESTED
    assert run.status == RunStatus.KILLED
