"""Keys of apps as an operator meets them: given out, kept to, and changed under load."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.command import Command
from tests.support.deployment import SECRET, Deployment
from tests.support.eventually import eventually
from warren.broker.signing import app_key
from warren.sql.registry import apps, presence
from warren.sql.run_status import RunStatus

NEW = "the master secret that follows, of enough characters"
JOBS = 12
#: Runs that succeed between two steps of a change.
BETWEEN = 30


def successes(deployment: Deployment) -> int:
    return len(deployment.runs(status=RunStatus.SUCCEEDED))


def work_on(deployment: Deployment) -> None:
    """Wait until some more runs have succeeded."""
    before = successes(deployment)
    eventually(lambda: successes(deployment) >= before + BETWEEN, 60, every=0.1)


def restart(old: Command, start: Callable[[], Command], welcome: str) -> Command:
    """End a command in order and start its successor, which has to get as far as `welcome`."""
    old.send(signal.SIGTERM)
    assert old.wait(60) == 0
    fresh = start()
    fresh.wait_for(welcome, 60)
    return fresh


@pytest.mark.release
def test_the_secret_is_changed_under_load_and_nothing_is_lost(deployment: Deployment) -> None:
    old_key, new_key = app_key(SECRET, "demo"), app_key(NEW, "demo")
    schedulers = [deployment.scheduler(), deployment.scheduler()]
    executors = [deployment.executor("one"), deployment.executor("two")]
    deployment.await_schedulers(*schedulers)
    deployment.await_executors(*executors)
    every: list[Command] = [*schedulers, *executors]
    for number in range(JOBS):
        deployment.job(
            f"job-{number}",
            handler="brief",
            schedule_kind="FIX_RATE",
            schedule_value="1",
            route="ROUND",
            enabled=True,
        )
    work_on(deployment)

    def change_schedulers(**settings: Any) -> None:
        for index, old in enumerate(schedulers):
            start = lambda: deployment.scheduler(**settings)  # noqa: E731
            schedulers[index] = restart(old, start, "scheduler_started")
            every.append(schedulers[index])
            work_on(deployment)

    def change_executors(**settings: Any) -> None:
        for index, (old, address) in enumerate(zip(executors, ("one", "two"), strict=True)):
            start = lambda address=address: deployment.executor(address, **settings)  # noqa: E731
            executors[index] = restart(old, start, "executor_welcomed")
            every.append(executors[index])
            work_on(deployment)

    change_schedulers(secret=NEW, secret_previous=SECRET)
    change_executors(app_secret=new_key, app_secret_previous=old_key)
    change_executors(app_secret=new_key)
    change_schedulers(secret=NEW)

    deployment.stop_jobs()
    deployment.await_all_final()
    assert not [command for command in every if "message_rejected" in command.text()]
    stale = deployment.executor("stale", app_secret=old_key)
    stale.wait_for("welcome_awaited", 60)
    assert "executor_welcomed" not in stale.text()
    ends = {run.status for run in deployment.runs()} - {RunStatus.CANCELLED, RunStatus.UNDELIVERED}
    assert ends == {RunStatus.SUCCEEDED}
    for number in range(JOBS):
        assert deployment.skips(f"job-{number}") == []


def test_an_executor_that_has_the_master_secret_works_and_is_told_once_that_it_should_not(
    fleet: Deployment,
) -> None:
    fleet.app = "careless"
    executor = fleet.executor("careless-1", secret=SECRET, app_secret="")
    fleet.await_executors(executor)
    fleet.job("work")

    fleet.await_success(fleet.trigger("work"))

    [line] = [line for line in executor.text().splitlines() if "master_secret_received" in line]
    assert "warren secrets app careless" in line
    assert SECRET not in executor.text()


def test_an_executor_with_another_apps_key_is_let_in_nowhere(fleet: Deployment) -> None:
    fleet.add_app("salaries")
    thief = fleet.executor("phantom", app="salaries", app_secret=app_key(SECRET, "demo"))

    thief.wait_for("welcome_awaited", 60)

    assert fleet.logged("message_rejected", "salaries", "wrong signature")
    told = "no scheduler accepts the key of these executors: salaries/phantom"
    eventually(lambda: told in fleet.warren_fails("check", "--for", "scheduler"), every=0.2)
    rows = fleet.database.read(lambda s: presence.listing(s, presence.EXECUTOR, "salaries"))
    assert rows == []


def test_an_app_is_made_by_hand_and_then_its_executors_are_let_in(fleet: Deployment) -> None:
    fleet.known_apps.add("fresh-app")
    waiting = fleet.executor("fresh-1", app="fresh-app")
    waiting.wait_for("welcome_awaited", 60)
    assert fleet.logged("executor_not_welcomed", "warren apps add fresh-app")
    assert "fresh-app" not in fleet.database.read(apps.ids_by_name)

    said = fleet.warren("apps", "add", "fresh-app", "--title", "Fresh")

    assert said == "added app fresh-app; the key of its executors: warren secrets app fresh-app\n"
    waiting.wait_for("executor_welcomed", 60)
    assert fleet.warren("secrets", "app", "fresh-app").strip() == app_key(SECRET, "fresh-app")
    assert "there is already an app named 'fresh-app'" in fleet.warren_fails(
        "apps", "add", "fresh-app"
    )


def test_a_scheduler_with_another_secret_does_not_start_and_takes_no_reports(
    fleet: Deployment,
) -> None:
    other = fleet.scheduler(secret=NEW)

    assert other.wait(60) == 1

    assert (
        other.text()
        .splitlines()[-1]
        .startswith(
            "error: WARREN_SECRET is not the secret of this cluster's other schedulers and consoles"
        )
    )
    fleet.end([other])
