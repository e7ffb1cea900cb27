"""What people do with jobs and runs, on both databases."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from tests.integration.scheduler.conftest import Seat
from tests.support.acting import NamedCommands, acting
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.sql_rows import put
from warren.broker.reasons import Why
from warren.resources.runs import KillOutcome
from warren.scheduler.actor import Actor
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.commands.cluster_commands import PauseOutcome
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.run_commands import RunCommands
from warren.scheduler.commands.triggers import Trigger, When
from warren.scheduler.completion.end import End
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.scheduler.problems import Problem, explanation
from warren.sql.engine import Database
from warren.sql.epochs import all_epochs
from warren.sql.errors import NotFound
from warren.sql.jobs import job_links, job_rows
from warren.sql.models import Job, Run, Sequence
from warren.sql.run_status import RunStatus

EACH_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?"}


@pytest.fixture
def commands(cluster: Cluster) -> NamedCommands:
    return cluster.commands()


def spec(name: str = "each", **fields: Any) -> JobSpec:
    return JobSpec(name=name, **({"app": APP, "handler": "noop"} | fields))


def apply(commands: NamedCommands, *specs: JobSpec, **options: bool) -> list[tuple[str, str]]:
    changes = commands.apply([], specs, **({"dry_run": False, "prune": False} | options))
    return [(change.action, change.name) for change in changes]


def plan_shortly_before(node: SchedulerNode, at: datetime) -> None:
    """Plan what is due at `at` as if that were two seconds away."""
    node.planner.run_round(int(at.timestamp() * 1000) - 2_000)


def the_job(cluster: Cluster, name: str = "each") -> Job:
    return cluster.jobs(name=name)[0]


def is_sound(cluster: Cluster) -> bool:
    return audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC").is_sound


# -- apply ------------------------------------------------------------------------------------


def test_applying_twice_changes_nothing(cluster: Cluster, commands: NamedCommands) -> None:
    wanted = spec(app="new", enabled=True, **EACH_SECOND)
    assert apply(commands, wanted) == [("create", "new"), ("create", "new/each")]
    before = the_job(cluster)

    assert apply(commands, wanted) == [("unchanged", "new/each")]

    after = the_job(cluster)
    assert after.next_tick_at == before.next_tick_at
    assert after.update_time == before.update_time


def test_nobody_waits_for_a_file_that_changes_nothing(
    cluster: Cluster, commands: NamedCommands
) -> None:
    shell = {"handler": "", "script_language": "shell", "script_source": "true"}
    family = [spec("parent", children=("each", f"{APP}/script")), spec(), spec("script", **shell)]
    apply(commands, *family)
    other = Database(cluster.database.url.render_as_string(hide_password=False))

    def while_somebody_else_writes(session: Session) -> list[tuple[str, str]]:
        job_links.lock(session)
        job_rows.lock(session, the_job(cluster).id)
        return apply(commands, *family, prune=True)

    said = other.write(while_somebody_else_writes)
    other.close()

    assert {action for action, _ in said} == {"unchanged"}
    assert [name for _, name in said] == ["demo/parent", "demo/each", "demo/script"]


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec("old", enabled=True, **EACH_SECOND))

    said = apply(commands, spec("new", enabled=True, **EACH_SECOND), dry_run=True, prune=True)

    assert said == [("create", "demo/new"), ("delete", "demo/old")]
    assert [(job.name, job.is_enabled) for job in cluster.jobs()] == [("old", 1)]


def test_one_impossible_job_leaves_all_as_they_were(
    cluster: Cluster, commands: NamedCommands
) -> None:
    past = spec(
        "past", schedule_kind="AT", schedule_value="2001-01-01T00:00:00+00:00", enabled=True
    )

    with pytest.raises(ValueError, match=r"past.*no more fire times"):
        apply(commands, spec("good"), past)

    assert cluster.jobs() == []


def test_pruning_deletes_what_the_file_leaves_out_of_its_own_apps(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec("stays"), spec("goes"), spec("elsewhere", app="other"))

    said = apply(commands, spec("stays"), prune=True)

    assert ("delete", "demo/goes") in said
    assert {job.name for job in cluster.jobs()} == {"stays", "elsewhere"}


@on_memory
def test_enabled_left_out_leaves_the_state_as_it_is(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec(enabled=True, **EACH_SECOND))

    apply(commands, spec(param="new", **EACH_SECOND))
    assert the_job(cluster).is_enabled == 1

    commands.stop("each")
    apply(commands, spec(param="newer", **EACH_SECOND))
    assert the_job(cluster).is_enabled == 0


@on_memory
def test_an_edit_reaches_the_runs_that_are_planned(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    apply(commands, spec(enabled=True, **EACH_SECOND))
    still.planner.run_round(cluster.now_ms())

    apply(commands, spec(handler="echo", param="new", **EACH_SECOND))

    assert {(run.handler, run.param) for run in cluster.runs()} == {("echo", "new")}


# -- schedules --------------------------------------------------------------------------------


def test_a_stop_in_the_window_cancels_what_is_planned_and_keeps_the_watermark(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    apply(commands, spec(enabled=True, **EACH_SECOND))
    still.planner.run_round(cluster.now_ms())
    watermark = the_job(cluster).last_tick_at

    assert commands.stop("each")

    assert {run.status for run in cluster.runs()} == {RunStatus.CANCELLED}
    assert the_job(cluster).last_tick_at >= watermark
    assert is_sound(cluster)
    assert not commands.stop("each")


def test_a_start_in_the_window_fires_no_tick_twice(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    apply(commands, spec(enabled=True, **EACH_SECOND))
    still.planner.run_round(cluster.now_ms())
    commands.stop("each")
    cancelled = {run.scheduled_at for run in cluster.runs()}

    assert commands.start("each")
    still.planner.run_round(cluster.now_ms() + 6_000)

    fresh = {run.scheduled_at for run in cluster.runs(status=RunStatus.PLANNED)}
    assert fresh
    assert min(fresh) == max(cancelled) + 1_000
    assert is_sound(cluster)
    assert not commands.start("each")


@on_memory
def test_a_job_without_a_zone_is_in_that_of_the_schedulers_whoever_starts_it(
    cluster: Cluster, commands: NamedCommands
) -> None:
    kathmandu = ZoneInfo("Asia/Kathmandu")
    node = cluster.new_scheduler(timezone=kathmandu.key)
    cluster.schedulers.append(node)
    node.self_health.run_round(cluster.now_ms())
    due = datetime.fromtimestamp(cluster.now_ms() / 1000, kathmandu) + timedelta(minutes=10)
    due = due.replace(second=0, microsecond=0)
    tick = round(due.timestamp() * 1000)

    apply(commands, spec(enabled=True, **daily_at(due)), spec("own", enabled=True, **in_utc(due)))
    assert the_job(cluster).next_tick_at == tick
    assert the_job(cluster, "own").next_tick_at == tick
    node.planner.run_round(tick - 1_000)

    assert {run.scheduled_at for run in cluster.runs()} == {tick}
    assert len(cluster.runs()) == 2
    assert is_sound(cluster)


def daily_at(due: datetime) -> dict[str, str]:
    return {"schedule_kind": "CRON", "schedule_value": f"0 {due.minute} {due.hour} * * ?"}


def in_utc(due: datetime) -> dict[str, str]:
    return daily_at(due.astimezone(UTC)) | {"timezone": "UTC"}


def test_an_edit_of_the_schedule_in_the_window_cancels_the_old_and_plans_the_new(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    apply(commands, spec(enabled=True, **EACH_SECOND))
    still.planner.run_round(cluster.now_ms())
    old = {run.scheduled_at for run in cluster.runs()}

    apply(commands, spec(schedule_kind="FIX_RATE", schedule_value="2"))
    # What was past due at the edit stays; under load that may be the first one.
    edited_ms = cluster.now_ms()
    old = {tick for tick in old if tick > edited_ms}
    still.planner.run_round(cluster.now_ms() + 8_000)

    planned = [run.scheduled_at for run in cluster.runs(status=RunStatus.PLANNED)]
    new = sorted(tick for tick in planned if tick > edited_ms)
    assert {run.status for run in cluster.runs() if run.scheduled_at in old} == {"CANCELLED"}
    assert min(new) > max(old)
    assert {later - sooner for sooner, later in pairwise(new)} == {2_000}
    assert is_sound(cluster)


def test_an_edit_of_a_schedule_that_nobody_has_planned_loses_no_tick(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec(enabled=True, **EACH_SECOND))

    apply(commands, spec(schedule_kind="FIX_RATE", schedule_value="5"))

    assert is_sound(cluster)


@pytest.mark.parametrize("kind", ["FIX_RATE", "FIX_DELAY"])
def test_another_zone_moves_no_schedule_that_depends_on_none(
    cluster: Cluster, commands: NamedCommands, kind: str
) -> None:
    rate = {"schedule_kind": kind, "schedule_value": "3600"}
    apply(commands, spec(enabled=True, **rate))
    cluster.set_job("each", next_tick_at=cluster.now_ms() + 60_000)
    before = the_job(cluster)

    done = apply(commands, spec(timezone="Europe/Berlin", **rate))

    after = the_job(cluster)
    assert done == [("update", "demo/each")]
    assert after.timezone == "Europe/Berlin"
    assert (after.last_tick_at, after.next_tick_at) == (before.last_tick_at, before.next_tick_at)


def test_ticks_that_nobody_planned_before_a_stop_are_recorded_as_skipped(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec(enabled=True, **EACH_SECOND))
    job = the_job(cluster)
    cluster.set_job(
        "each",
        last_tick_at=job.last_tick_at - 60_000,
        next_tick_at=job.next_tick_at - 60_000,
    )

    commands.stop("each")

    [skip] = cluster.skips()
    # Every whole second from where the schedule was until it was stopped.
    stopped_at = the_job(cluster).last_tick_at
    assert skip.count == stopped_at // 1_000 - (job.last_tick_at - 60_000) // 1_000
    assert skip.reason == "job stopped by test"


def test_a_job_whose_schedule_cannot_be_read_can_be_stopped_edited_and_deleted(
    cluster: Cluster, commands: NamedCommands
) -> None:
    for name in ("a", "b", "c"):
        apply(commands, spec(name, enabled=True, **EACH_SECOND))
        cluster.set_job(name, schedule_value="nonsense")

    assert commands.stop("a")
    apply(commands, spec("b", **EACH_SECOND))
    commands.delete("c")

    states = {job.name: (job.is_enabled, job.schedule_value) for job in cluster.jobs()}
    assert states == {"a": (0, "nonsense"), "b": (1, "* * * * * ?")}


def planned_once(cluster: Cluster, still: SchedulerNode, commands: NamedCommands) -> dict[str, Any]:
    """Let the one due time of a job be planned, which ends it; return its schedule."""
    at = datetime.fromtimestamp(cluster.now_ms() / 1000, UTC) + timedelta(seconds=60)
    once = {"schedule_kind": "AT", "schedule_value": at.isoformat(), "enabled": True}
    apply(commands, spec("once", **once))
    plan_shortly_before(still, at)
    return once


def test_an_instant_that_has_fired_stays_so_when_it_is_applied_again(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    once = planned_once(cluster, still, commands)
    assert the_job(cluster, "once").stop_reason

    assert apply(commands, spec("once", **once)) == [("unchanged", "demo/once")]
    assert apply(commands, spec("once", param="new", **once)) == [("update", "demo/once")]

    assert len(cluster.runs()) == 1
    assert the_job(cluster, "once").is_enabled == 0


def test_a_job_that_was_imported_in_part_starts_when_it_is_enabled(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec(**EACH_SECOND))
    reason = explanation(Why.IMPORTED_IN_PART(why=("executor_route_strategy: unknown",)))
    cluster.set_job("each", stop_reason=reason.text, stop_why=reason.why)

    done = apply(commands, spec(enabled=True, route="ROUND", **EACH_SECOND))

    assert done == [("update", "demo/each")]
    assert (the_job(cluster).is_enabled, the_job(cluster).stop_reason) == (1, None)


def test_another_misfire_policy_neither_starts_nor_stops_a_job_whose_schedule_has_ended(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    once = planned_once(cluster, still, commands)
    ended = the_job(cluster, "once").stop_reason

    changed = apply(commands, spec("once", misfire="FIRE_ONCE_NOW", **once))

    assert changed == [("update", "demo/once")]
    job = the_job(cluster, "once")
    assert (job.is_enabled, job.stop_reason) == (0, ended)  # so its runs are still retried
    assert [run.status for run in cluster.runs()] == [RunStatus.PLANNED]


def test_an_instant_moved_within_the_window_fires_only_at_its_new_time(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    now = datetime.fromtimestamp(cluster.now_ms() / 1000, UTC)
    soon, later = (now + timedelta(seconds=s) for s in (60, 120))
    once = {"schedule_kind": "AT", "enabled": True}
    apply(commands, spec("once", schedule_value=soon.isoformat(), **once))
    plan_shortly_before(still, soon)

    apply(commands, spec("once", schedule_value=later.isoformat(), **once))

    assert [run.status for run in cluster.runs()] == [RunStatus.CANCELLED]
    assert the_job(cluster, "once").next_tick_at == int(later.timestamp() * 1000)


@pytest.mark.parametrize(
    "over", [{}, {"schedule_kind": "AT", "schedule_value": "2020-01-01T00:00:00+00:00"}]
)
def test_a_started_job_may_be_stopped_and_get_a_schedule_that_never_fires_at_once(
    cluster: Cluster, commands: NamedCommands, over: dict[str, Any]
) -> None:
    apply(commands, spec(enabled=True, **EACH_SECOND))

    changed = apply(commands, spec(enabled=False, **over))

    assert [name for _, name in changed] == ["demo/each"]
    job = the_job(cluster, "each")
    assert (job.is_enabled, job.stop_reason) == (0, None)
    until_ms = cluster.now_ms()
    assert audit(cluster.database, since_ms=0, until_ms=until_ms, timezone="UTC").is_sound


def test_a_job_without_a_schedule_cannot_be_started(commands: NamedCommands) -> None:
    apply(commands, spec("manual"))

    with pytest.raises(ValueError, match="cannot start job manual: it has no schedule"):
        commands.start("manual")


def test_stopping_a_job_that_ended_by_itself_cancels_its_last_run(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    planned_once(cluster, still, commands)

    assert commands.stop("once")

    assert [run.status for run in cluster.runs()] == [RunStatus.CANCELLED]


def underway_once(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> dict[str, Any]:
    """Let the one run of a job that has ended by itself be sent; return the job's schedule."""
    once = planned_once(cluster, still, commands) | {"retries": 1}
    sent = {"status": RunStatus.RUNNING, "retries_left": 1, "address": "one", "boot_id": "b"}
    cluster.database.write(lambda session: session.execute(update(Run).values(**sent)))
    return once


def fail(cluster: Cluster, still: SchedulerNode) -> list[RunStatus]:
    """Let the first run fail; return the states of all."""
    run_id = cluster.runs()[0].id
    failed = End(run_id=run_id, status=RunStatus.FAILED, message="no", finished_at=1)
    cluster.database.write(lambda session: still.completion.end(session, [failed]))
    return [RunStatus(run.status) for run in cluster.runs()]


def test_a_job_that_ended_by_itself_tries_again_unless_a_person_stops_it(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    once = underway_once(cluster, still, commands)

    assert commands.stop("once")
    assert not commands.stop("once")

    assert fail(cluster, still) == [RunStatus.FAILED]
    assert (the_job(cluster, "once").stop_reason or "").startswith("job stopped by ")
    assert apply(commands, spec("once", **once)) == [("update", "demo/once")]
    assert the_job(cluster, "once").is_enabled == 0  # its time is over


def test_a_new_time_for_a_job_that_ended_by_itself_stops_no_retry_and_waits_for_its_start(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    once = underway_once(cluster, still, commands)
    once["schedule_value"] = "2099-01-01T00:00:00+00:00"

    apply(commands, spec("once", **once | {"enabled": None}))

    assert fail(cluster, still) == [RunStatus.FAILED, RunStatus.PLANNED]
    job = the_job(cluster, "once")
    assert (job.is_enabled, (job.stop_reason or "").partition(" by ")[0]) == (0, "schedule changed")
    assert apply(commands, spec("once", **once | {"enabled": None})) == [("unchanged", "demo/once")]
    assert apply(commands, spec("once", **once)) == [("start", "demo/once")]
    job = the_job(cluster, "once")
    assert (job.is_enabled, job.stop_reason) == (1, None)


def test_a_new_time_for_a_job_that_a_person_stopped_brings_no_retry_back(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    once = underway_once(cluster, still, commands)
    commands.stop("once")

    once["schedule_value"] = "2099-01-01T00:00:00+00:00"
    apply(commands, spec("once", **once | {"enabled": None}))

    assert fail(cluster, still) == [RunStatus.FAILED]


# -- deleting ---------------------------------------------------------------------------------


def test_a_deleted_jobs_planned_runs_are_cancelled_and_its_name_is_free(
    cluster: Cluster, still: SchedulerNode, commands: NamedCommands
) -> None:
    apply(commands, spec(enabled=True, **EACH_SECOND))
    still.planner.run_round(cluster.now_ms())
    manual = commands.trigger("each", param=None, addresses=[])
    old_id = the_job(cluster).id

    commands.delete("each")
    apply(commands, spec(enabled=True, **EACH_SECOND))
    still.planner.run_round(cluster.now_ms())

    assert {run.status for run in cluster.runs(job_id=old_id)} == {RunStatus.CANCELLED}
    assert cluster.run(manual).status == RunStatus.CANCELLED
    assert the_job(cluster).id != old_id
    assert cluster.runs(job_id=the_job(cluster).id) != []
    assert is_sound(cluster)


# -- runs -------------------------------------------------------------------------------------


def test_a_trigger_plans_one_run_of_its_own_tick(cluster: Cluster, commands: NamedCommands) -> None:
    apply(commands, spec(param="usual", retries=2))

    usual = commands.trigger("each", param=None, addresses=[])
    special = commands.trigger("demo/each", param="", addresses=[])

    assert [run.id for run in cluster.runs()] == sorted([usual, special])
    assert cluster.run(usual).param == "usual"
    assert cluster.run(special).param == ""
    assert cluster.run(usual).origin_id == usual
    assert cluster.run(usual).retries_left == 2


def test_a_trigger_for_an_address_nobody_knows_is_refused(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec())

    with pytest.raises(ValueError, match=r"registered executor of app demo, got: 'warren\.run\.x'"):
        commands.trigger("each", param=None, addresses=["warren.run.x"])

    assert cluster.runs() == []


def test_a_trigger_whose_commit_was_not_answered_plans_no_second_run(cluster: Cluster) -> None:
    apply(cluster.commands(), spec())
    database = _ForgetfulDatabase(cluster.database)
    commands = NamedCommands(database, cluster.now_ms, who="test")  # type: ignore[arg-type]

    run_id = commands.trigger("each", param=None, addresses=[])

    assert [run.id for run in cluster.runs()] == [run_id]


class _ForgetfulDatabase:
    """Runs each unit of work twice, as after a commit whose answer was lost."""

    def __init__(self, database: Any) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def write(self, unit: Any) -> Any:
        self._database.write(unit)
        return self._database.write(unit)


def test_a_run_at_a_time_of_its_own_is_sent_then_and_no_earlier(
    cluster: Cluster, still: SchedulerNode, seat: Seat, commands: NamedCommands
) -> None:
    seat()
    apply(commands, spec())
    runs, job_id = acting(cluster.database, cluster.now_ms).runs, the_job(cluster).id
    in_an_hour = When(after="1h")
    first = runs.trigger_all(job_id, [Trigger(when=in_an_hour)] * 2).run_id
    last = first + 1

    still.dispatcher.run_round(cluster.now_ms())
    waiting = cluster.run(last)
    moved_to = runs.move(first, When(at_ms=cluster.now_ms() + 200))
    runs.cancel(last)

    def is_sent() -> bool:
        still.dispatcher.run_round(cluster.now_ms())
        return cluster.run(first).status != RunStatus.PLANNED

    eventually(is_sent)
    run = cluster.run(first)
    assert waiting.status == RunStatus.PLANNED
    assert (run.scheduled_at, run.due_at) == (moved_to, moved_to)
    assert run.routed_at >= moved_to
    assert cluster.run(last).status == RunStatus.CANCELLED
    for change in (lambda: runs.move(first, in_an_hour), lambda: runs.cancel(first)):
        with pytest.raises(Problem, match=f"run {first} is already"):
            change()
    assert is_sound(cluster)


def test_a_run_is_not_moved_into_the_past_and_is_promised_no_way_to(
    cluster: Cluster, seat: Seat, commands: NamedCommands
) -> None:
    seat()
    apply(commands, spec())
    runs, job_id = acting(cluster.database, cluster.now_ms).runs, the_job(cluster).id
    planned = runs.trigger(job_id, when=When(after="1h"))
    before = cluster.run(planned).due_at

    with pytest.raises(Problem, match=r"^expected at to be in the future, got: [^;]*$"):
        runs.move(planned, When(at_ms=cluster.now_ms() - 1_000))

    assert cluster.run(planned).due_at == before


def test_a_planned_run_is_killed_by_cancelling_it(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec(retries=3))
    run_id = commands.trigger("each", param=None, addresses=[])

    assert commands.kill(run_id) is KillOutcome.CANCELLED

    assert [run.status for run in cluster.runs()] == [RunStatus.CANCELLED]
    with pytest.raises(Problem, match="already CANCELLED"):
        commands.kill(run_id)


def test_a_run_in_flight_is_killed_by_a_row_and_twice_is_no_error(
    cluster: Cluster, still: SchedulerNode, seat: Seat, commands: NamedCommands
) -> None:
    seat()
    apply(commands, spec())
    run_id = commands.trigger("each", param=None, addresses=[])
    still.dispatcher.run_round(cluster.now_ms())

    assert commands.kill(run_id) is KillOutcome.REQUESTED
    asked_at = cluster.run(run_id).kill_requested_at
    assert commands.kill(run_id) is KillOutcome.REQUESTED

    assert cluster.run(run_id).kill_requested_at == asked_at > 0


def test_a_run_that_does_not_exist_cannot_be_killed(commands: NamedCommands) -> None:
    with pytest.raises(Problem, match="no run with id 42"):
        commands.kill(42)


def test_pause_and_resume_say_whether_they_changed_anything(commands: NamedCommands) -> None:
    assert commands.pause() is PauseOutcome.PAUSED
    assert commands.pause() is PauseOutcome.ALREADY
    assert commands.resume()
    assert not commands.resume()


@on_memory
def test_while_dispatch_is_paused_every_scheduler_plans_on_and_sends_nothing(
    cluster: Cluster,
) -> None:
    nodes = [cluster.scheduler(), cluster.scheduler()]
    cluster.executor()
    cluster.wait_online()
    cluster.commands().pause()
    cluster.job("each", enabled=True, **EACH_SECOND)

    eventually(lambda: sum(run.due_at < cluster.now_ms() for run in cluster.runs()) >= 2)
    for node in nodes:
        assert node.dispatcher.run_round(cluster.now_ms()) > 0
    assert {run.status for run in cluster.runs()} == {RunStatus.PLANNED}

    waited = [run.id for run in cluster.runs() if run.due_at < cluster.now_ms()]
    cluster.commands().resume()
    for run_id in waited:
        assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED
    assert is_sound(cluster)


@pytest.mark.parametrize("act", ["start", "stop", "delete"])
def test_a_job_that_does_not_exist_is_named(commands: NamedCommands, act: str) -> None:
    with pytest.raises(NotFound, match="NO_JOB_NAMED name='nowhere'"):
        getattr(commands, act)("nowhere")


# -- a counter of ids that has gone back ------------------------------------------------------


@on_memory
def test_what_somebody_asks_for_is_planned_although_its_ids_are_taken(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec())
    job_id = the_job(cluster).id
    first = cluster.trigger("each")
    put(cluster.database, [first], status=RunStatus.FAILED, finished_at=cluster.now_ms())
    now = When()
    asks: list[Callable[[RunCommands], object]] = [
        lambda runs: runs.trigger(job_id),
        lambda runs: runs.trigger_all(job_id, [Trigger(when=now), Trigger(when=now)]),
        lambda runs: runs.rerun([first]),
    ]

    for count, ask in zip((2, 4, 5), asks, strict=True):
        older = update(Sequence).values(next_id=first)
        cluster.database.write(lambda session, it=older: session.execute(it))  # type: ignore[misc]
        # A process of its own, which has seen no ids.
        other = Database(cluster.database.url.render_as_string(hide_password=False))
        actor = Actor(who="ann")
        ask(RunCommands(CommandContext(database=other, now_ms=cluster.now_ms, actor=actor)))
        other.close()
        assert len(cluster.runs()) == count
    assert len(cluster.database.read(all_epochs)) == 3
