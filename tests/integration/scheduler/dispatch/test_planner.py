"""Ticks become rows, each once, whoever else plans and whatever one job is like."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from tests.integration.scheduler.conftest import new_still
from tests.support.cluster import APP, Cluster
from tests.support.invariants import assert_sound
from tests.support.moved_clock import MovedClock
from tests.support.sql_rows import statements
from warren.broker.stored_reasons import from_json
from warren.scheduler.alarms.events import Overdue, from_text
from warren.scheduler.dispatch.planner import Planner
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.sql.clock import AGREEING_SAMPLES, JUMP_MS
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.models import Alarm, Sequence
from warren.sql.run_status import RunStatus
from warren.sql.runs import planned_runs

pytestmark = pytest.mark.both("two planners claim with SKIP LOCKED, and rows are unique")

EACH_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}
#: When it was not planned for 14,444 s, its last due time is 24 s ago, and the next is in 4 s.
EVERY_28 = {
    "schedule_kind": "FIX_RATE",
    "schedule_value": "28",
    "enabled": True,
    "late_limit": 5,
}


def test_each_tick_of_the_window_becomes_one_row(cluster: Cluster, still: SchedulerNode) -> None:
    cluster.job("each", **EACH_SECOND)
    now_ms = cluster.now_ms()

    still.planner.run_round(now_ms)

    ticks = [run.scheduled_at for run in cluster.runs(status=RunStatus.PLANNED)]
    [job] = cluster.jobs()
    assert ticks == list(range(ticks[0], now_ms + 5_001, 1_000))
    assert job.last_tick_at == ticks[-1] <= now_ms + 5_000
    assert job.next_tick_at == ticks[-1] + 1_000
    assert all(run.due_at == run.scheduled_at for run in cluster.runs())


def test_planning_the_same_window_again_adds_nothing(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("each", **EACH_SECOND)
    now_ms = cluster.now_ms()
    still.planner.run_round(now_ms)
    before = [run.id for run in cluster.runs()]

    wait_seconds = still.planner.run_round(now_ms)

    assert [run.id for run in cluster.runs()] == before
    assert 0 < wait_seconds <= 1.3


def test_planners_at_the_same_time_share_the_ticks(cluster: Cluster, still: SchedulerNode) -> None:
    cluster.apply()
    for number in range(30):
        cluster.job(f"job{number}", **EACH_SECOND)
    others = [cluster.new_scheduler() for _ in range(2)]
    cluster.schedulers += others
    now_ms = cluster.now_ms()

    with ThreadPoolExecutor(3) as pool:
        rounds = [pool.submit(_plan_all, node.planner, now_ms) for node in [still, *others]]
        assert [future.result() for future in rounds]

    planned = [(run.job_id, run.scheduled_at) for run in cluster.runs()]
    assert len(planned) == len(set(planned))
    assert 30 * 5 <= len(planned) <= 30 * 9
    assert_sound(cluster)


def _plan_all(planner: Planner, now_ms: int) -> bool:
    for _ in range(10):
        planner.run_round(now_ms)
    return True


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"schedule_value": "nonsense"}, "CRON 'nonsense' in time zone UTC"),
        ({"schedule_kind": "MOON", "schedule_value": None}, "MOON '' in time zone UTC"),
        ({"misfire": "NONSENSE"}, "misfire policy NONSENSE"),
        ({"timezone": "Atlantis/City"}, "in time zone Atlantis/City"),
    ],
)
def test_a_job_whose_schedule_cannot_be_computed_is_stopped_and_the_batch_goes_on(
    cluster: Cluster, still: SchedulerNode, columns: dict[str, Any], what: str
) -> None:
    cluster.job("good", **EACH_SECOND)
    cluster.job("bad", **EACH_SECOND)
    cluster.set_job("bad", **columns)

    still.planner.run_round(cluster.now_ms())

    [bad] = cluster.jobs(name="bad")
    [good] = cluster.jobs(name="good")
    assert bad.is_enabled == 0
    assert bad.stop_reason.startswith("its schedule cannot be computed: ")
    assert what in bad.stop_reason
    assert from_json(bad.stop_why) is not None  # the console says it in the reader's language
    assert {run.job_id for run in cluster.runs()} == {good.id}


def test_a_job_whose_rows_cannot_be_written_is_stopped_and_the_batch_goes_on(
    cluster: Cluster, still: SchedulerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        cluster.job(f"job{number}", **EACH_SECOND)
    cluster.job("bad", handler="poison", **EACH_SECOND)
    plan = planned_runs.plan

    def refuse_poison(session: Any, planned: Any, ids: Any) -> Any:
        if any(run.handler == "poison" for run in planned):
            raise ValueError("does not fit")
        return plan(session, planned, ids)

    monkeypatch.setattr("warren.scheduler.dispatch.planner.planned_runs.plan", refuse_poison)

    still.planner.run_round(cluster.now_ms())

    [bad] = cluster.jobs(name="bad")
    assert (bad.is_enabled, bad.stop_reason) == (
        0,
        "its runs cannot be planned: does not fit",
    )
    assert len({run.job_id for run in cluster.runs()}) == 8
    assert [job.name for job in cluster.jobs(is_enabled=0)] == ["bad"]


def test_a_crash_before_the_commit_leaves_the_ticks_to_others(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("each", **EACH_SECOND)
    now_ms = cluster.now_ms()
    mortal = cluster.mortals[id(still)]
    mortal.before_commit = mortal.die
    other = cluster.new_scheduler()
    cluster.schedulers.append(other)

    with pytest.raises(Exception, match="dead"):
        still.planner.run_round(now_ms)
    assert cluster.runs() == []
    other.planner.run_round(now_ms)

    assert len(cluster.runs()) >= 5
    cluster.schedulers.remove(still)


def test_a_schedule_that_ends_stops_the_job_and_its_last_tick_still_fires(
    cluster: Cluster, still: SchedulerNode
) -> None:
    at = datetime.fromtimestamp(cluster.now_ms() / 1000 + 60, UTC)
    cluster.job("once", schedule_kind="AT", schedule_value=at.isoformat(), enabled=True)

    still.planner.run_round(int(at.timestamp() * 1000) - 3_000)

    [job] = cluster.jobs()
    [run] = cluster.runs()
    assert (job.is_enabled, job.stop_reason) == (0, "its schedule has no more fire times")
    assert (run.status, run.due_at) == (RunStatus.PLANNED, int(at.timestamp() * 1000))


def test_a_hundred_schedules_that_end_at_once_take_few_statements(
    cluster: Cluster, still: SchedulerNode
) -> None:
    at = datetime.fromtimestamp(cluster.now_ms() // 1000 + 30, UTC)
    once = {"handler": "noop", "app": APP, "schedule_kind": "AT", "enabled": True}
    counts = []

    for count in (3, 100):
        at += timedelta(seconds=30)
        names = [f"once-{count}-{number}" for number in range(count)]
        cluster.apply(
            *(JobSpec(name=name, schedule_value=at.isoformat(), **once) for name in names)
        )
        with statements(cluster.database) as sent:
            still.planner.run_round(int(at.timestamp() * 1000) - 3_000)
        counts.append(len(sent))

    assert len(cluster.runs()) == 103
    assert {job.is_enabled for job in cluster.jobs()} == {0}
    assert max(counts) < 20


def test_a_schedule_that_ends_is_no_warning_and_a_broken_one_is(
    cluster: Cluster, still: SchedulerNode, events: list[dict[str, Any]]
) -> None:
    at = datetime.fromtimestamp(cluster.now_ms() / 1000 + 60, UTC)
    cluster.job("once", schedule_kind="AT", schedule_value=at.isoformat(), enabled=True)
    cluster.job("broken", **EACH_SECOND)
    cluster.set_job("broken", schedule_value="no cron")

    still.planner.run_round(round(at.timestamp() * 1000) - 3_000)

    told = {event["job"]: event for event in events if "job" in event}
    assert (told["once"]["event"], told["once"]["log_level"]) == ("job_ended", "info")
    assert (told["broken"]["event"], told["broken"]["log_level"]) == ("job_stopped", "warning")
    assert "expected cron expression" in told["broken"]["error"]


def test_a_fixed_delay_waits_for_the_end_of_its_run(cluster: Cluster, still: SchedulerNode) -> None:
    now_ms = cluster.now_ms()
    cluster.job("delayed", **EACH_SECOND)
    cluster.set_job(
        "delayed",
        schedule_kind="FIX_DELAY",
        schedule_value="60",
        last_tick_at=now_ms - 1,
        next_tick_at=now_ms + 1_000,
    )

    still.planner.run_round(now_ms)
    still.planner.run_round(now_ms + 600_000)

    [job] = cluster.jobs()
    assert (job.is_enabled, job.next_tick_at) == (1, PARKED_MS)
    assert len(cluster.runs()) == 1


def test_after_a_time_without_schedulers_the_last_tick_runs_and_those_before_it_are_one_skip(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("each", **EACH_SECOND)
    _sleep_all_schedulers(cluster, "each", seconds=3_600)

    still.planner.run_round(cluster.now_ms())

    [skip] = cluster.skips()
    assert skip.count >= 3_590
    assert skip.count == (skip.to_at - skip.from_at) // 1_000 + 1
    assert "a later one ran instead" in skip.reason
    assert {run.kind for run in cluster.runs()} == {"CRON"}
    assert min(run.scheduled_at for run in cluster.runs()) == skip.to_at + 1_000


def test_after_a_time_without_schedulers_ticks_over_the_limit_are_skipped_as_one(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("each", **EVERY_28)
    _sleep_all_schedulers(cluster, "each", seconds=14_444)

    still.planner.run_round(cluster.now_ms())

    [skip] = cluster.skips()
    assert skip.count == 515
    assert skip.to_at <= cluster.now_ms() - 5_000
    assert skip.reason.endswith(" s late; its job skips what it missed")
    assert {run.kind for run in cluster.runs()} == {"CRON"}
    assert min(run.scheduled_at for run in cluster.runs()) == skip.to_at + 28_000


def test_after_a_time_without_schedulers_one_misfire_stands_for_all(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("each", misfire="FIRE_ONCE_NOW", **EVERY_28)
    _sleep_all_schedulers(cluster, "each", seconds=14_444)
    now_ms = cluster.now_ms()

    still.planner.run_round(now_ms)

    [skip] = cluster.skips()
    [misfire] = cluster.runs(kind="MISFIRE")
    assert misfire.scheduled_at == skip.to_at + 28_000
    assert misfire.due_at == now_ms
    assert len(cluster.runs(scheduled_at=misfire.scheduled_at)) == 1


def test_ticks_that_grow_late_while_the_planner_waits_for_a_lock_are_skipped(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("each", **EACH_SECOND)
    now_ms = cluster.now_ms()
    cluster.mortals[id(still)].before_next_write = lambda: cluster.clocks[id(still)].advance(60)

    still.planner.run_round(now_ms)

    assert [run for run in cluster.runs() if run.scheduled_at < now_ms + 55_000] == []
    assert cluster.skips() != []


def test_ticks_up_to_five_seconds_late_fire_at_once(cluster: Cluster) -> None:
    still = new_still(cluster, clock=MovedClock())
    cluster.job("each", **EACH_SECOND)
    _sleep_all_schedulers(cluster, "each", seconds=4)

    still.planner.run_round(cluster.now_ms())

    assert cluster.skips() == []
    assert len(cluster.runs()) >= 8


def test_a_job_with_a_hundred_overdue_rows_gets_skips_instead(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("each", **EACH_SECOND)
    [before] = cluster.jobs()
    plan_for(still, seconds=125, now_ms=before.last_tick_at)

    [after] = cluster.jobs()
    ticks = {run.scheduled_at for run in cluster.runs()}
    skipped = sum(skip.count for skip in cluster.skips())
    assert 100 <= len(ticks) <= 115
    assert skipped > 0
    assert len(ticks) + skipped == after.last_tick_at // 1_000 - before.last_tick_at // 1_000


def test_skips_of_a_job_with_a_hundred_overdue_rows_are_one_record_an_hour(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("each", **EACH_SECOND)
    plan_for(still, seconds=300, now_ms=cluster.now_ms())

    skips = cluster.skips()
    ticks = {run.scheduled_at for run in cluster.runs()}
    assert len(skips) <= 2  # an hour may begin in between
    assert len({skip.from_at // 3_600_000 for skip in skips}) == len(skips)
    assert len(ticks) + sum(skip.count for skip in skips) in (299, 300, 301)
    assert_sound(cluster)


def test_skips_of_a_job_with_a_hundred_overdue_rows_are_an_alarm_once_an_hour(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("each", **EACH_SECOND, alarm_emails=("ops@example.com",))
    now_ms = cluster.now_ms()
    plan_for(still, seconds=145, now_ms=now_ms)

    first = overdue_alarms(cluster)
    still.planner.run_round(now_ms + 3_600_000)
    still.planner.run_round(now_ms + 3_800_000)

    assert [(news.job, news.overdue > 100) for news in first] == [("each", True)]
    assert first[0].skipped_from in {skip.from_at for skip in cluster.skips()}
    assert len(overdue_alarms(cluster)) == 2


def test_ticks_that_misfire_by_policy_are_no_alarm(cluster: Cluster, still: SchedulerNode) -> None:
    cluster.job("each", **EACH_SECOND, alarm_emails=("ops@example.com",))

    still.planner.run_round(cluster.now_ms() + 60_000)

    assert cluster.skips() != []
    assert overdue_alarms(cluster) == []


def plan_for(still: SchedulerNode, *, seconds: int, now_ms: int) -> None:
    """Let time pass in which ticks are planned on time and nothing is sent."""
    for second in range(0, seconds, 5):
        still.planner.run_round(now_ms + second * 1_000)


def overdue_alarms(cluster: Cluster) -> list[Overdue]:
    kept = cluster.database.read(lambda session: list(session.execute(select(Alarm)).scalars()))
    assert {alarm.target for alarm in kept} <= {"ops@example.com"}
    return [news for alarm in kept if isinstance(news := from_text(alarm.content), Overdue)]


def test_while_the_databases_clock_jumps_nothing_is_planned(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("each", **EACH_SECOND)
    cluster.clocks[id(still)].advance(JUMP_MS / 1_000 + 1)
    still.clock.run_round()

    assert still.planner.run_round(cluster.now_ms()) == 0.5
    assert cluster.runs() == []

    for _ in range(AGREEING_SAMPLES):
        still.clock.run_round()
    still.planner.run_round(cluster.now_ms())
    assert cluster.runs() != []


def test_the_audit_finds_every_tick_after_all_of_this(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("each", misfire="FIRE_ONCE_NOW", **EACH_SECOND)
    now_ms = cluster.now_ms()
    still.planner.run_round(now_ms)
    still.planner.run_round(now_ms + 4_000)
    still.planner.run_round(now_ms + 60_000)

    assert_sound(cluster)


def _sleep_all_schedulers(cluster: Cluster, name: str, *, seconds: int) -> None:
    """Make a job's row look as if no scheduler had been there for this long."""
    [job] = cluster.jobs(name=name)
    past_ms = job.next_tick_at - seconds * 1_000
    cluster.set_job(name, next_tick_at=past_ms, last_tick_at=past_ms - 1_000)


def test_no_due_time_is_lost_when_the_counter_of_ids_goes_back(
    cluster: Cluster, still: SchedulerNode
) -> None:
    for number in range(12):
        cluster.job(f"job{number}", **EACH_SECOND)
    now_ms = cluster.now_ms()
    _plan_all(still.planner, now_ms)
    before = len(cluster.runs())

    older = update(Sequence).values(next_id=Sequence.next_id - 60)
    cluster.database.write(lambda session: session.execute(older))
    other = new_still(cluster)
    for node in (still, other, still):
        now_ms += 5_000
        _plan_all(node.planner, now_ms)

    runs = cluster.runs()
    assert len(runs) >= before + 12 * 15
    for job in cluster.jobs():
        due = sorted(run.scheduled_at for run in runs if run.job_id == job.id)
        assert due == list(range(due[0], job.last_tick_at + 1, 1_000)), job.name
    assert_sound(cluster)
