"""Executors that are dead or frozen for longer than anybody waits: one scene, looked at in parts.

Three heartbeats have to be missed before an executor is given up, so the scene takes 20 s, and all
that can be silent is silent in it at the same time: executors `gone` (killed, does not return) and
`frozen` (stopped, goes on later), and one of the two schedulers.
"""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.deployment import GRACE_SECONDS, Deployment
from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import PrivateRabbit
from warren.database_access import registrations
from warren.scheduler.node_context import Timeouts
from warren.sql.models import Run
from warren.sql.registry import presence
from warren.sql.registry.presence import state
from warren.sql.run_status import FINAL, NEVER_STARTED, RunStatus

#: "Every run reaches a final state within timeout + grace + 20 s of its executor's death."
SETTLED_SECONDS = GRACE_SECONDS + 20
#: A scheduler that was not sure of its own health for longer counts all silences from then on.
LAPSE_MS = Timeouts().lapse * 1_000


@dataclass
class Scene:
    """What was done, and the runs that it was done to.

    `counted_from_ms`: since when the scheduler that judges counts the silence.
    """

    deployment: Deployment
    counted_from_ms: int = 0
    beat_at: int = 0
    of_gone: dict[str, int] = field(default_factory=dict)
    of_frozen: dict[str, int] = field(default_factory=dict)
    afterwards: list[int] = field(default_factory=list)
    schedulers: list[Command] = field(default_factory=list)

    def gone(self, name: str) -> Run:
        return self.deployment.run(self.of_gone[name])

    def frozen(self, name: str) -> Run:
        return self.deployment.run(self.of_frozen[name])

    def attempts(self, run_id: int) -> list[Run]:
        return self.deployment.runs(origin_id=run_id)

    def note_beat(self) -> None:
        """Look at when the scheduler that judges was last sure of its health."""
        node = json.loads(self.schedulers[0].wait_for("scheduler_started"))["node"]
        rows, _ = registrations(self.deployment.database, presence.ADMIN)
        [beat_at] = [row.beat_at for row in rows if row.address == node]
        if beat_at - self.beat_at > LAPSE_MS:
            self.counted_from_ms = beat_at
        self.beat_at = beat_at


@pytest.fixture(scope="module")
def scene(
    rabbitmq: PrivateRabbit,
    mariadb: PrivateMariaDB,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("long-silence")
    url, broker = mariadb.create_database(), rabbitmq.vhost_url(rabbitmq.add_vhost())
    with Deployment(folder, database_url=url, broker_url=broker) as deployment:
        scene = Scene(deployment)
        _play(scene)
        yield scene
        deployment.assert_sound()


def _play(scene: Scene) -> None:
    deployment = scene.deployment
    release = deployment.folder / "release"
    schedulers = scene.schedulers = [deployment.scheduler(), deployment.scheduler()]
    # By route FIRST everything goes to `a-…` while that is there.
    first = [deployment.executor(f"a-{app}", app=app, slots=3) for app in ("gone", "frozen")]
    deployment.await_schedulers(*schedulers)
    deployment.await_executors(*first)
    gone, frozen = first
    scene.of_gone = _occupy(deployment, "gone", deployment.folder / "release-of-gone")
    scene.of_frozen = _occupy(deployment, "frozen", release)
    others = [deployment.executor(f"b-{app}", app=app) for app in ("gone", "frozen")]
    deployment.await_executors(*others)

    scene.note_beat()
    scene.counted_from_ms = deployment.now_ms()
    schedulers[1].send(signal.SIGSTOP)
    frozen.send(signal.SIGSTOP)
    gone.kill()
    _trigger_for_the_silent(scene)
    scene.note_beat()
    eventually(lambda: not deployment.strays())  # "no process outlives its executor"
    release.touch()
    _await_judgement(scene)
    _wake(scene, frozen, schedulers[1])


def _occupy(deployment: Deployment, app: str, release: Path) -> dict[str, int]:
    """Have the app's first executor at work on two runs, with one more waiting there."""
    deployment.app = app
    work = {"handler": "until-file", "param": str(release), "retries": 1}
    deployment.job("once", **work)
    deployment.job("at-least-once", **work, delivery="AT_LEAST_ONCE")
    runs = {name: deployment.trigger(name) for name in ("once", "at-least-once")}
    for run_id in runs.values():
        deployment.await_status(run_id, RunStatus.RUNNING)
    runs["waiting"] = deployment.trigger("once", param=str(deployment.handlers))
    deployment.await_status(runs["waiting"], RunStatus.SENT)
    return runs


def _trigger_for_the_silent(scene: Scene) -> None:
    """Plan runs that are sent to executors of which nobody knows yet that they are silent."""
    for app, runs in (("gone", scene.of_gone), ("frozen", scene.of_frozen)):
        scene.deployment.app = app
        scene.deployment.job("late")
        runs["late"] = scene.deployment.trigger("late")


def _await_judgement(scene: Scene) -> None:
    run_ids = [*scene.of_gone.values(), *scene.of_frozen.values()]

    def look() -> bool:
        scene.note_beat()
        return all(scene.deployment.status(run_id) in FINAL for run_id in run_ids)

    eventually(look, 90, every=0.1)


def _wake(scene: Scene, frozen: Command, scheduler: Command) -> None:
    deployment = scene.deployment
    deployment.app = "frozen"
    (deployment.folder / "release-of-gone").touch()
    scheduler.send(signal.SIGCONT)
    frozen.send(signal.SIGCONT)
    for name in ("once", "waiting"):
        eventually(lambda it=name: scene.frozen(it).late_status, every=0.05)
    deployment.await_all_final()
    deployment.job("afterwards")
    scene.afterwards = [deployment.trigger("afterwards", address="a-frozen") for _ in range(3)]
    deployment.await_final(*scene.afterwards)


def test_f08_runs_of_a_dead_executor_are_final_in_time(scene: Scene) -> None:
    for name in scene.of_gone:
        run = scene.gone(name)
        assert (run.finished_at - scene.counted_from_ms) / 1000 < SETTLED_SECONDS, name


def test_f08_run_at_work_on_a_dead_executor_is_lost_and_not_started_again(scene: Scene) -> None:
    assert [run.status for run in scene.attempts(scene.of_gone["once"])] == [RunStatus.LOST]


def test_f08_run_that_asks_for_it_is_started_again_elsewhere(scene: Scene) -> None:
    run_id = scene.of_gone["at-least-once"]
    lost, again = scene.attempts(run_id)

    assert (lost.status, lost.attempt) == (RunStatus.LOST, 0)
    assert (again.status, again.address) == (RunStatus.SUCCEEDED, "b-gone")


@pytest.mark.release
def test_f09_run_that_a_dead_executor_never_took_is_run_elsewhere(scene: Scene) -> None:
    first, again = scene.attempts(scene.of_gone["late"])

    assert first.status == RunStatus.UNDELIVERED
    assert (again.status, again.address) == (RunStatus.SUCCEEDED, "b-gone")


def test_f05_frozen_scheduler_schedules_again_once_it_goes_on(scene: Scene) -> None:
    rows, now_ms = registrations(scene.deployment.database, presence.ADMIN)

    assert [state(row, now_ms) for row in rows] == ["alive", "alive"]
    assert [command.is_running for command in scene.schedulers] == [True, True]


@pytest.mark.release
def test_f13_result_of_a_frozen_executor_is_kept_beside_the_judgement(scene: Scene) -> None:
    run = scene.frozen("once")

    assert (run.status, run.late_status) == (RunStatus.LOST, RunStatus.SUCCEEDED)


def test_f13_frozen_executor_starts_nothing_that_was_given_up_meanwhile(scene: Scene) -> None:
    for name in ("waiting", "late"):
        assert scene.frozen(name).status in {RunStatus.LOST, RunStatus.UNDELIVERED}
        assert scene.deployment.start_of(scene.of_frozen[name]) is None


def test_f13_run_that_never_started_on_the_frozen_executor_is_run_after_all(scene: Scene) -> None:
    lost, again = scene.attempts(scene.of_frozen["waiting"])

    assert (lost.status, lost.late_status) == (RunStatus.LOST, NEVER_STARTED)
    assert (again.status, again.retries_left) == (RunStatus.SUCCEEDED, lost.retries_left)


def test_f13_frozen_executor_works_again_once_it_goes_on(scene: Scene) -> None:
    runs = [scene.deployment.run(run_id) for run_id in scene.afterwards]

    assert {(run.status, run.address) for run in runs} == {("SUCCEEDED", "a-frozen")}
