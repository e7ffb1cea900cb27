"""A pause of one app, or of the cluster: what is held, what ends it, and what was missed by it."""

from typing import Any

import pytest
from sqlalchemy import update

from tests.integration.scheduler.conftest import Seat
from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.sql_rows import put, side_by_side
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.commands.cluster_commands import NEVER, PauseOutcome
from warren.scheduler.dispatch.missed_runs import LINGER_MS
from warren.scheduler.node import SchedulerNode
from warren.scheduler.problems import Code, Problem
from warren.sql.models import Pause, Run, Uptime
from warren.sql.registry import apps, pauses
from warren.sql.registry.pauses import EVERY_APP
from warren.sql.run_status import Kind, RunStatus

EACH_SECOND = {"schedule_kind": "FIX_RATE", "schedule_value": "1", "enabled": True}
MINUTE_MS = 60_000


def dispatch(cluster: Cluster, node: SchedulerNode, *, at_ms: int | None = None) -> None:
    for _ in range(3):
        node.dispatcher.run_round(at_ms or cluster.now_ms())
        node.confirmations.drain()


def planned_late(cluster: Cluster, node: SchedulerNode, name: str, **fields: Any) -> list[Run]:
    """Plan a job's ticks, due a minute ago; the job plans no more."""
    cluster.job(name, **EACH_SECOND, **{"late_limit": 5} | fields)
    node.planner.run_round(cluster.now_ms())
    [job] = cluster.jobs(name=name)
    runs = cluster.runs(job_id=job.id)
    for run in runs:
        put(cluster.database, [run.id], due_at=run.due_at - MINUTE_MS)
    cluster.set_job(name, next_tick_at=2**61)
    return runs


def make_pause_older(cluster: Cluster, by_ms: int) -> None:
    cluster.database.write(
        lambda session: session.execute(update(Pause).values(since_at=Pause.since_at - by_ms))
    )


def statuses(cluster: Cluster, runs: list[Run]) -> list[str]:
    return [cluster.run(run.id).status for run in runs]


def test_after_a_pause_of_the_cluster_what_is_due_is_sent_and_not_called_missed(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("each", **EACH_SECOND)
    cluster.commands().pause()
    still.planner.run_round(cluster.now_ms())
    cluster.commands().resume()

    still.missed_runs.run_round(cluster.now_ms())

    assert {run.status for run in cluster.runs()} == {RunStatus.PLANNED}


def test_a_paused_app_keeps_its_runs_and_another_app_sends(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    seat("two", app="other")
    cluster.job("held")
    cluster.job("goes", app="other")
    cluster.commands().pause(APP)
    held, goes = cluster.trigger("held"), cluster.trigger("goes")

    dispatch(cluster, still)

    assert cluster.run(held).status == RunStatus.PLANNED
    assert cluster.run(goes).status == RunStatus.SENT
    assert still.uptime.is_able

    cluster.commands().resume(APP)
    dispatch(cluster, still)

    assert cluster.run(held).status == RunStatus.SENT


def test_what_a_long_pause_held_is_sent_at_once_when_it_ends(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("held")
    cluster.commands().pause(APP)
    held = cluster.trigger("held")
    put(cluster.database, [held], due_at=cluster.now_ms() - 60 * MINUTE_MS)
    dispatch(cluster, still)

    cluster.commands().resume(APP)
    still.work.run_round(cluster.now_ms())
    [dispatching] = [role for role in still.loops.roles if role.name == "dispatcher"]
    dispatching.take_turn(is_woken=True)
    still.confirmations.drain()

    assert cluster.run(held).status == RunStatus.SENT


@pytest.mark.parametrize("app", [APP, None], ids=["an-app", "the-cluster"])
def test_a_pause_ends_by_itself_although_no_scheduler_was_there(
    cluster: Cluster, seat: Seat, still: SchedulerNode, app: str | None
) -> None:
    seat()
    cluster.job("held")
    held = cluster.trigger("held")
    until_ms = cluster.now_ms() + MINUTE_MS
    cluster.commands().pause(app, until_ms=until_ms)

    dispatch(cluster, still)
    assert cluster.run(held).status == RunStatus.PLANNED

    end(cluster)
    dispatch(cluster, still)
    assert cluster.run(held).status == RunStatus.SENT


def end(cluster: Cluster) -> None:
    """Let the planned end of a pause pass."""
    now_ms = cluster.now_ms()
    cluster.database.write(lambda session: session.execute(update(Pause).values(until_at=now_ms)))


def test_a_pause_at_the_moment_of_the_claim_holds_what_was_peeked_at(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("held")
    held = cluster.trigger("held")
    still.uptime.keep(cluster.now_ms)
    mortal = cluster.mortals[id(still)]

    # The dispatcher looks, then claims.
    mortal.before_next_write = lambda: cluster.commands().pause(APP)
    dispatch(cluster, still)

    assert mortal.before_next_write is None
    assert cluster.run(held).status == RunStatus.PLANNED


def test_a_claim_and_a_pause_do_not_wait_for_each_other(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    if cluster.database.dialect.is_embedded:
        pytest.skip("SQLite has one writer at a time")
    seat()
    cluster.job("goes")
    run_id = cluster.trigger("goes")
    now_ms = cluster.now_ms()

    def pause(session: Any) -> None:
        pauses.lock(session)
        pauses.begin(session, EVERY_APP, now_ms=now_ms, until_ms=None, by="me", reason="")
        dispatch(cluster, still)

    cluster.database.write(pause)

    assert cluster.run(run_id).status == RunStatus.SENT
    assert len(cluster.database.read(pauses.known)) == 1


@pytest.mark.parametrize(
    ("policy", "ends"),
    [
        ("DO_NOTHING", {RunStatus.CANCELLED}),
        ("FIRE_ONCE_NOW", {RunStatus.CANCELLED, RunStatus.SENT}),
    ],
)
def test_ticks_that_a_pause_made_late_follow_their_jobs_misfire_policy_at_its_end(
    cluster: Cluster, still: SchedulerNode, seat: Seat, policy: str, ends: set[str]
) -> None:
    seat()
    cluster.commands().pause(APP)
    make_pause_older(cluster, 5 * MINUTE_MS)
    runs = planned_late(cluster, still, "late", misfire=policy)
    dispatch(cluster, still)
    still.missed_runs.run_round(cluster.now_ms())
    assert set(statuses(cluster, runs)) == {RunStatus.PLANNED}

    cluster.commands().resume(APP)
    dispatch(cluster, still)
    still.missed_runs.run_round(cluster.now_ms())
    dispatch(cluster, still)

    assert set(statuses(cluster, runs)) == ends
    told = {run.message for run in cluster.runs(status=RunStatus.CANCELLED)}
    assert {one.partition(";")[0] for one in told} == {"its app was paused when it was due"}
    fired = cluster.runs(kind=Kind.MISFIRE)
    assert [run.id for run in fired] == ([runs[-1].id] if len(ends) > 1 else [])


def test_a_misfire_run_that_a_second_pause_held_stands_for_what_that_one_made_late_too(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    began_at = cluster.now_ms() - MINUTE_MS
    runs = planned_late(cluster, still, "late", misfire="FIRE_ONCE_NOW")[:3]
    for run, seconds in zip(runs, (10, 20, 200), strict=True):
        put(cluster.database, [run.id], due_at=began_at + seconds * 1_000)
    later = [run.id for run in cluster.runs() if run.id not in {run.id for run in runs}]
    put(cluster.database, later, status=RunStatus.CANCELLED)
    pause(cluster, began_at, began_at + 30_000)
    still.missed_runs.run_round(began_at + 30_500)
    assert [run.id for run in cluster.runs(kind=Kind.MISFIRE)] == [runs[1].id]
    put(cluster.database, [runs[1].id], due_at=began_at + 30_500)
    put(cluster.database, [runs[2].id], due_at=began_at + 28_000)

    pause(cluster, began_at + 30_500, began_at + 34_500)
    dispatch(cluster, still)
    assert set(statuses(cluster, runs)) == {RunStatus.PLANNED, RunStatus.CANCELLED}
    still.missed_runs.run_round(cluster.now_ms())
    dispatch(cluster, still)

    assert statuses(cluster, runs) == [RunStatus.CANCELLED, RunStatus.CANCELLED, RunStatus.SENT]
    assert "its app was paused" in str(cluster.run(runs[1].id).message)
    assert len(cluster.skips()) == 2


def pause(cluster: Cluster, since_ms: int, until_ms: int) -> None:
    """Store a pause of the app that is over."""
    [app_id] = cluster.database.read(apps.ids_by_name).values()
    facts = {"by": "me", "reason": "", "now_ms": since_ms, "until_ms": until_ms}
    cluster.database.write(lambda session: pauses.begin(session, app_id, **facts))


@on_memory
def test_a_tick_that_a_pause_of_the_cluster_made_late_says_so(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    since_ms = cluster.now_ms() - 5 * MINUTE_MS
    cluster.commands().pause()
    make_pause_older(cluster, 5 * MINUTE_MS)
    runs = planned_late(cluster, still, "late")
    row = Uptime(down_since=since_ms, since_at=cluster.now_ms(), until_at=cluster.now_ms())
    cluster.database.write(lambda session: session.add(row))

    cluster.commands().resume()
    still.missed_runs.run_round(cluster.now_ms())

    said = {cluster.run(run.id).message for run in runs}
    assert said == {"dispatch was paused when it was due; its job skips what it missed"}


@on_memory
def test_the_audit_finds_a_tick_that_ran_although_a_pause_of_its_app_made_it_late(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.add_app("other")
    for app in (APP, "other"):
        cluster.commands().pause(app)
    make_pause_older(cluster, 5 * MINUTE_MS)
    runs = planned_late(cluster, still, "late")
    runs += planned_late(cluster, still, "of-another", app="other")
    for app in (APP, "other"):
        cluster.commands().resume(app)
    for _ in range(2):
        still.missed_runs.run_round(cluster.now_ms())
    still.missed_runs.run_round(cluster.now_ms() + LINGER_MS + 1_000)
    assert cluster.database.read(pauses.known) == []
    assert late_ticks(cluster) == {}

    now_ms = cluster.now_ms() + MINUTE_MS
    wrong = {"status": RunStatus.SUCCEEDED, "routed_at": now_ms, "started_at": now_ms}
    put(cluster.database, [runs[0].id], **wrong)

    assert late_ticks(cluster) == {"late": [runs[0].scheduled_at]}


def late_ticks(cluster: Cluster) -> dict[str, list[int]]:
    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    late = {job.name.rpartition("/")[2]: [one.tick for one in job.late] for job in report.jobs}
    return {name: ticks for name, ticks in late.items() if ticks}


@on_memory
def test_what_a_person_asked_for_during_a_pause_is_sent_after_it(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("by-hand")
    cluster.commands().pause(APP)
    run_id = cluster.trigger("by-hand")
    put(cluster.database, [run_id], due_at=cluster.now_ms() - MINUTE_MS)
    make_pause_older(cluster, 5 * MINUTE_MS)

    cluster.commands().resume(APP)
    still.missed_runs.run_round(cluster.now_ms())
    dispatch(cluster, still)

    assert cluster.run(run_id).status == RunStatus.SENT


@on_memory
def test_ticks_of_another_app_are_no_matter_of_the_pause(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    cluster.add_app("other")
    cluster.commands().pause("other")
    make_pause_older(cluster, 5 * MINUTE_MS)
    seat()
    runs = planned_late(cluster, still, "late")

    cluster.commands().resume("other")
    still.missed_runs.run_round(cluster.now_ms())

    assert set(statuses(cluster, runs)) == {RunStatus.PLANNED}


def test_two_schedulers_decide_once_about_what_a_pause_made_late(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    other = cluster.new_scheduler()
    cluster.schedulers.append(other)
    cluster.commands().pause(APP)
    make_pause_older(cluster, 5 * MINUTE_MS)
    runs = planned_late(cluster, still, "late", misfire="FIRE_ONCE_NOW")
    cluster.commands().resume(APP)

    def decide(node: SchedulerNode) -> None:
        for _ in range(3):
            node.missed_runs.run_round(cluster.now_ms())

    side_by_side(lambda: decide(still), lambda: decide(other))

    assert [run.id for run in cluster.runs(kind=Kind.MISFIRE)] == [runs[-1].id]
    assert len(cluster.skips()) == len(runs) - 1


@on_memory
def test_a_pause_is_settled_once_nothing_can_be_left_of_it_and_the_last_ones_are_kept(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.add_app(APP)
    cluster.commands().pause(APP)
    cluster.commands().pause()
    cluster.commands().resume(APP)
    cluster.commands().resume()
    now_ms = cluster.now_ms()

    still.missed_runs.run_round(now_ms)
    assert len(cluster.database.read(pauses.known)) == 2
    still.missed_runs.run_round(now_ms + 40_000)

    assert cluster.database.read(pauses.known) == []
    assert len(cluster.database.read(lambda session: pauses.ended(session, 2**53))) == 1
    cluster.commands().pause(APP)
    cluster.commands().resume(APP)
    [later] = cluster.database.read(pauses.known)
    cluster.database.write(lambda session: pauses.settle(session, [later.id], kept=1))
    [kept] = cluster.database.read(lambda session: pauses.ended(session, 2**53))
    assert kept.id == later.id


# -- pausing -----------------------------------------------------------------------------------


def test_of_many_who_pause_one_does_it(cluster: Cluster) -> None:
    cluster.add_app(APP)

    found = side_by_side(*[lambda: cluster.commands().pause(APP, reason="x")] * 4)

    assert sorted(found) == [PauseOutcome.ALREADY] * 3 + [PauseOutcome.PAUSED]
    assert len(cluster.database.read(pauses.known)) == 1


@on_memory
def test_a_pause_gets_another_end_or_reason(cluster: Cluster) -> None:
    cluster.add_app(APP)
    end_ms = cluster.now_ms() + MINUTE_MS
    cluster.commands().pause(APP, reason="upgrade")

    found = cluster.commands().pause(APP, until_ms=end_ms)

    [pause] = cluster.database.read(pauses.known)
    assert (found, pause.reason, pause.until_at) == (PauseOutcome.CHANGED, "upgrade", end_ms)


@on_memory
def test_the_end_of_a_pause_is_removed(cluster: Cluster) -> None:
    cluster.add_app(APP)
    cluster.commands().pause(APP, reason="upgrade", until_ms=cluster.now_ms() + MINUTE_MS)

    found = [cluster.commands().pause(APP, until_ms=NEVER) for _ in range(2)]

    [pause] = cluster.database.read(pauses.known)
    assert found == [PauseOutcome.CHANGED, PauseOutcome.ALREADY]
    assert (pause.reason, pause.until_at) == ("upgrade", None)


@on_memory
@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"reason": "x" * 201}, Code.PAUSE_REASON),
        ({"reason": "two\nlines"}, Code.PAUSE_REASON),
        ({"until_ms": 0}, Code.PAUSE_END),
        ({"until_ms": 1}, Code.PAUSE_END),
        ({"until_ms": 2**60}, Code.PAUSE_END),
    ],
)
def test_a_pause_with_a_bad_reason_or_end_is_refused(
    cluster: Cluster, how: dict[str, Any], code: Code
) -> None:
    with pytest.raises(Problem) as refusal:
        cluster.commands().pause(**how)

    assert refusal.value.code is code
    assert cluster.database.read(pauses.known) == []


@on_memory
def test_an_app_that_does_not_exist_for_somebody_cannot_be_paused(cluster: Cluster) -> None:
    cluster.add_app(APP)
    [app_id] = cluster.database.read(apps.ids_by_name).values()

    for limits in ({"app_ids": [app_id + 1]}, {"job_ids": [1]}):
        with pytest.raises(Problem) as refusal:
            acting(cluster.database, **limits).cluster.pause(app_id)
        assert refusal.value.code is Code.NO_APP
