"""The whole, with somebody dying at the worst moment; the tally is sound after each of them."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.faults import TRIGGERS, MortalDatabase
from tests.support.invariants import assert_sound
from tests.support.server_words import fail_for_want_of_room
from warren.scheduler.dispatch.peeks import BROKEN_SECONDS
from warren.scheduler.node import SchedulerNode
from warren.sql.models import History, Job
from warren.sql.run_status import RunStatus
from warren.sql.runs import transitions

pytestmark = pytest.mark.both("what dies holds real locks and unconfirmed messages")

EACH_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}


@pytest.fixture(autouse=True)
def _quick(cluster: Cluster) -> None:
    cluster.be_quick()


def done(cluster: Cluster, count: int) -> bool:
    return len(cluster.runs(status=RunStatus.SUCCEEDED)) >= count


def dying(cluster: Cluster, node: SchedulerNode, *, at: str, when: str) -> MortalDatabase:
    """Let a scheduler die `at` before_commit or after_commit, `when` a run is in this state."""
    mortal = cluster.mortals[id(node)]

    def die() -> None:
        if cluster.runs(status=when):
            mortal.die()
            cluster.cables[id(node)].is_cut = True

    setattr(mortal, at, die)
    return mortal


def note_no_confirm(cluster: Cluster, node: SchedulerNode) -> None:
    """Let a scheduler commit nothing any more once it publishes triggers."""
    mortal, cable = cluster.mortals[id(node)], cluster.cables[id(node)]

    def die() -> None:
        if cable.published[TRIGGERS]:
            mortal.die()

    mortal.before_commit = die


# -- the database -----------------------------------------------------------------------------


def test_a_server_without_a_temporary_folder_costs_jobs_no_longer_than_that_lasts(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    for name in ("one", "two"):
        cluster.job(name)

    def fail(session: Session, *_: object, **_facts: object) -> None:
        fail_for_want_of_room(session, cluster.database)

    with monkeypatch.context() as broken:
        for name in ("route", "end"):
            broken.setattr(transitions, name, fail)
        run_ids = [cluster.trigger(name) for name in ("one", "two")]
        eventually(lambda: "dispatcher" in node.failing_roles)

    # A job that cannot be routed or ended for a reason of its own is left out for 60 s.
    ended = [cluster.wait_final(run_id, BROKEN_SECONDS / 2) for run_id in run_ids]
    assert {run.status for run in ended} == {RunStatus.SUCCEEDED}


# -- schedulers -------------------------------------------------------------------------------


def test_a_scheduler_that_dies_between_commit_and_publish_loses_nothing(cluster: Cluster) -> None:
    first = cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    cluster.job("each", **EACH_SECOND)
    mortal = dying(cluster, first, at="after_commit", when=RunStatus.ROUTED)
    eventually(lambda: mortal.is_dead)

    second = cluster.scheduler()
    cluster.crash(first)
    eventually(lambda: done(cluster, 2))

    assert_sound(cluster)
    assert {run.routed_by for run in cluster.runs(status=RunStatus.SUCCEEDED)} == {second.name}


def test_a_scheduler_that_dies_before_it_noted_the_confirm_starts_nothing_twice(
    cluster: Cluster,
) -> None:
    first = cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    cluster.job("work", handler="until-file", param=str(cluster.folder / "go"))
    note_no_confirm(cluster, first)
    run_id = cluster.trigger("work")
    eventually(cluster.starts)
    cluster.crash(first)

    cluster.scheduler()
    cluster.wait_status(run_id, RunStatus.RUNNING)
    Path(cluster.folder / "go").touch()

    assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED
    assert_sound(cluster)


def test_a_scheduler_that_dies_before_its_commit_leaves_the_work_to_another(
    cluster: Cluster,
) -> None:
    first = cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    mortal = cluster.mortals[id(first)]
    mortal.before_commit = mortal.die
    cluster.job("each", **EACH_SECOND)
    eventually(lambda: mortal.is_dead)
    cluster.crash(first)

    cluster.scheduler()
    eventually(lambda: done(cluster, 2))

    assert_sound(cluster)


def test_a_scheduler_that_dies_after_storing_reports_is_followed_by_the_same_reports(
    cluster: Cluster,
) -> None:
    first = cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    cluster.job("lucky", handler="third-time-lucky", retries=3)
    first.connections.reports.ack = list  # type: ignore[method-assign]
    run_id = cluster.trigger("lucky")
    cluster.wait_final(run_id)
    cluster.crash(first)

    second = cluster.scheduler()
    eventually(lambda: done(cluster, 1))

    assert_sound(cluster)
    assert [run.attempt for run in cluster.runs()] == [0, 1, 2]
    assert second.counters["callbacks_ignored"] >= 1


@on_memory
def test_schedulers_restarted_in_turn_lose_and_double_nothing(cluster: Cluster) -> None:
    nodes = [cluster.scheduler(), cluster.scheduler()]
    cluster.executor()
    cluster.wait_online()
    for number in range(5):
        cluster.job(f"each{number}", **EACH_SECOND)

    for _ in range(3):
        before = len(cluster.runs(status=RunStatus.SUCCEEDED))
        oldest = nodes.pop(0)
        cluster.schedulers.remove(oldest)
        oldest.stop()
        nodes.append(cluster.scheduler())
        eventually(lambda seen=before: done(cluster, seen + 5))

    assert_sound(cluster)
    assert cluster.skips() == []


@on_memory
def test_a_database_that_is_away_for_a_while_loses_nothing(cluster: Cluster) -> None:
    node = cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    cluster.job("each", **EACH_SECOND)
    eventually(lambda: done(cluster, 1))
    mortal = cluster.mortals[id(node)]

    mortal.is_dead = True
    eventually(lambda: len(node.failing_roles) >= 5)
    mortal.is_dead = False
    before = len(cluster.runs(status=RunStatus.SUCCEEDED))
    eventually(lambda: done(cluster, before + 2) and not node.failing_roles)

    assert_sound(cluster)


@on_memory
def test_a_broker_that_restarts_loses_nothing(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    cluster.job("each", **EACH_SECOND)
    broker = cluster.make_transport.__self__  # type: ignore[attr-defined]

    for _ in range(3):
        before = len(cluster.runs(status=RunStatus.SUCCEEDED))
        broker.stop()
        eventually(lambda: [r for r in cluster.runs(status="PLANNED") if r.due_at < _now()])
        broker.start()
        eventually(lambda seen=before: done(cluster, seen + 2))

    assert_sound(cluster)


def _now() -> int:
    return int(time.time() * 1000)


# -- executors --------------------------------------------------------------------------------


def test_the_work_of_an_executor_that_dies_and_never_returns_ends(cluster: Cluster) -> None:
    cluster.scheduler()
    doomed = cluster.executor("one", slots=2)
    cluster.wait_online("one")
    cluster.job("long", handler="sleep", concurrency=50)
    ids = [cluster.trigger("long") for _ in range(10)]
    eventually(lambda: len(cluster.runs(status=RunStatus.RUNNING)) == 2)
    for run_id in ids:
        eventually(lambda one=run_id: cluster.run(one).status in ("SENT", "RUNNING"))

    cluster.kill(doomed)
    ends = {cluster.wait_final(run_id).status for run_id in ids}

    assert ends <= {RunStatus.LOST, RunStatus.UNDELIVERED}
    for run in cluster.runs(status=RunStatus.PLANNED):
        cluster.commands().kill(run.id)
    assert_sound(cluster)


def test_an_executor_that_dies_and_returns_reports_what_its_journal_knows(
    cluster: Cluster,
) -> None:
    node = cluster.scheduler()
    first = cluster.executor(slots=1)
    cluster.wait_online()
    cluster.job("work", handler="sleep", param="60", concurrency=9)
    cluster.job("quick", concurrency=9)
    started = cluster.trigger("work")
    cluster.wait_status(started, RunStatus.RUNNING)
    waiting = cluster.trigger("quick")
    cluster.wait_status(waiting, RunStatus.SENT)
    eventually(lambda: node.roster.members()[0][0].heartbeat.load.waiting == 1)

    cluster.kill(first)
    cluster.executor()
    ends = [cluster.wait_final(run_id).status for run_id in (started, waiting)]

    assert ends == [RunStatus.LOST, RunStatus.UNDELIVERED]
    eventually(lambda: done(cluster, 1))
    assert_sound(cluster)


def test_an_executor_that_was_cut_off_and_called_dead_finishes_beside_the_ledger(
    cluster: Cluster,
) -> None:
    cluster.scheduler()
    executor = cluster.executor()
    cluster.wait_online()
    go = cluster.folder / "go"
    cluster.job("work", handler="until-file", param=str(go), retries=2)
    run_id = cluster.trigger("work")
    cluster.wait_status(run_id, RunStatus.RUNNING)

    cable = cluster.cables[id(executor)]
    cable.is_cut = True
    assert cluster.wait_final(run_id).status == RunStatus.LOST
    go.touch()
    cable.is_cut = False
    eventually(lambda: cluster.run(run_id).late_status == RunStatus.SUCCEEDED)

    assert len(cluster.runs()) == 1
    cluster.trigger("work")
    eventually(lambda: done(cluster, 1))
    assert_sound(cluster)


@on_memory
def test_runs_go_to_the_executors_that_are_left(cluster: Cluster) -> None:
    cluster.scheduler()
    doomed = cluster.executor("one")
    cluster.executor("two")
    cluster.wait_online("one", "two")
    cluster.job("each", route="ROUND", retries=5, delivery="AT_LEAST_ONCE", **EACH_SECOND)
    eventually(lambda: done(cluster, 2))

    cluster.kill(doomed)
    eventually(lambda: cluster.schedulers[0].roster.routable(APP).keys() == {"two"})
    before = len(cluster.runs(status=RunStatus.SUCCEEDED))
    eventually(lambda: done(cluster, before + 2))

    assert_sound(cluster)


# -- schedules --------------------------------------------------------------------------------


@on_memory
@pytest.mark.parametrize(("misfire", "kinds"), [("DO_NOTHING", 0), ("FIRE_ONCE_NOW", 1)])
def test_after_a_night_without_schedulers_each_policy_is_kept(
    cluster: Cluster, misfire: str, kinds: int
) -> None:
    cluster.commands()
    cluster.job("each", misfire=misfire, **EACH_SECOND)
    slow = {"schedule_kind": "FIX_RATE", "schedule_value": "20", "enabled": True}
    cluster.job("slow", misfire=misfire, late_limit=5, **slow)
    # The slow one's last tick was 8 s ago.
    night_ms = 8 * 3_600_000 + 28_000
    # The history says the same: this job has been on since before the night.
    _shift(cluster, -night_ms)

    cluster.scheduler()
    cluster.executor()
    eventually(lambda: done(cluster, 3))

    [slowly] = cluster.jobs(name="slow")
    assert [run.job_id for run in cluster.runs(kind="MISFIRE")] == [slowly.id] * kinds
    assert sum(skip.count for skip in cluster.skips()) > 28_000
    assert_sound(cluster)


def _shift(cluster: Cluster, by_ms: int) -> None:
    def unit(session: object) -> None:
        for job in session.query(Job):  # type: ignore[attr-defined]
            job.last_tick_at += by_ms
            job.next_tick_at += by_ms
        for change in session.query(History):  # type: ignore[attr-defined]
            change.watermark += by_ms
            change.anchor += by_ms

    cluster.database.write(unit)


def test_stops_starts_and_edits_while_it_fires_lose_and_double_nothing(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    cluster.job("each", **EACH_SECOND)
    eventually(lambda: done(cluster, 1))
    commands = cluster.commands()

    for every in ("1", "2", "1"):
        commands.stop("each")
        commands.start("each")
        cluster.job("each", schedule_kind="FIX_RATE", schedule_value=every)
    before = len(cluster.runs(status=RunStatus.SUCCEEDED))
    eventually(lambda: done(cluster, before + 1))

    assert_sound(cluster)


@on_memory
def test_an_instant_fires_once_even_when_its_executor_comes_late(cluster: Cluster) -> None:
    cluster.be_quick()
    cluster.scheduler()
    at = datetime.fromtimestamp(cluster.now_ms() / 1000, UTC) + timedelta(seconds=8)
    cluster.job("once", schedule_kind="AT", schedule_value=at.isoformat(), enabled=True)
    eventually(cluster.runs)

    cluster.executor()
    eventually(lambda: done(cluster, 1))

    assert len(cluster.runs()) == 1
    assert_sound(cluster)
