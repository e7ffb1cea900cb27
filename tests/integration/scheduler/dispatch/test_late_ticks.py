"""A job whose schedulers were all away when it was due: it runs as itself, or somebody is told."""

from typing import Any

import pytest
from sqlalchemy import select, update

from tests.integration.scheduler.conftest import Seat
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.sql_rows import put, side_by_side
from warren.scheduler.alarms.events import Missed, from_text
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.sql.models import Alarm, History, Job, Pause, Uptime
from warren.sql.registry import uptimes
from warren.sql.run_status import LATE_MS, Kind, RunStatus

NIGHTLY = {
    "schedule_kind": "CRON",
    "schedule_value": "0 0 2 * * ?",
    "enabled": True,
    "alarm_emails": ("owner@example.com",),
}


def restart_over(cluster: Cluster, name: str, *, late_seconds: float, planned: bool) -> int:
    """Let the job's due time pass while all schedulers are away; return the due time.

    `planned`: a scheduler had still planned it. They were all away from 2 s before it on.
    """
    now_ms = cluster.now_ms()
    due_ms = now_ms - int(late_seconds * 1_000)
    cluster.set_job(name, next_tick_at=due_ms, last_tick_at=due_ms - 1)
    [job] = cluster.jobs(name=name)

    def unit(session: Any) -> None:
        session.execute(update(Uptime).values(until_at=due_ms - 2_000))
        changes = {"watermark": due_ms - 1, "schedule_kind": "FIX_RATE", "schedule_value": "86400"}
        session.execute(update(History).values(anchor=due_ms, **changes))
        session.execute(update(Job).values(schedule_kind="FIX_RATE", schedule_value="86400"))

    cluster.database.write(unit)
    if planned:
        node = cluster.schedulers[0]
        node.planner.run_round(due_ms - 3_000)
        assert [run.scheduled_at for run in cluster.runs(job_id=job.id)] == [due_ms]
    return due_ms


def come_back(cluster: Cluster, node: SchedulerNode) -> None:
    for _ in range(3):
        node.dispatcher.run_round(cluster.now_ms())
        node.confirmations.drain()
        node.missed_runs.run_round(cluster.now_ms())
        node.planner.run_round(cluster.now_ms())


def alarms(cluster: Cluster) -> list[Missed]:
    kept = cluster.database.read(lambda session: list(session.execute(select(Alarm)).scalars()))
    assert {alarm.target for alarm in kept} <= {"owner@example.com"}
    return [news for alarm in kept if isinstance(news := from_text(alarm.content), Missed)]


def is_sound(cluster: Cluster) -> bool:
    report = audit(cluster.database, since_ms=0, until_ms=cluster.now_ms(), timezone="UTC")
    return report.is_sound


was_planned = pytest.mark.parametrize("planned", [True, False], ids=["planned", "not-planned"])
seconds_away = pytest.mark.parametrize("late_seconds", [6.9, 13.0])


@was_planned
@seconds_away
def test_a_restart_within_the_limit_lets_a_nightly_job_run_as_itself(
    cluster: Cluster, still: SchedulerNode, seat: Seat, late_seconds: float, planned: bool
) -> None:
    seat()
    cluster.job("nightly", **NIGHTLY)
    due_ms = restart_over(cluster, "nightly", late_seconds=late_seconds, planned=planned)

    come_back(cluster, still)

    [run] = cluster.runs()
    assert (run.status, run.kind, run.scheduled_at) == (RunStatus.SENT, Kind.SCHEDULE, due_ms)
    assert run.due_at == due_ms
    assert (cluster.skips(), alarms(cluster)) == ([], [])
    put(cluster.database, [run.id], started_at=cluster.now_ms())
    assert is_sound(cluster)


@was_planned
@seconds_away
def test_a_restart_over_the_limit_skips_a_nightly_job_and_tells_its_owner(
    cluster: Cluster, still: SchedulerNode, seat: Seat, late_seconds: float, planned: bool
) -> None:
    seat()
    cluster.job("nightly", **NIGHTLY, late_limit=5)
    due_ms = restart_over(cluster, "nightly", late_seconds=late_seconds, planned=planned)

    come_back(cluster, still)

    assert cluster.runs(status=RunStatus.SENT) == []
    [skip] = cluster.skips()
    assert (skip.from_at, skip.to_at, skip.count) == (due_ms, due_ms, 1)
    [news] = alarms(cluster)
    assert (news.job, news.count, news.first_at) == ("nightly", 1, due_ms)
    assert news.why == skip.reason
    assert is_sound(cluster)


@was_planned
def test_schedulers_that_return_at_once_tell_once(
    cluster: Cluster, still: SchedulerNode, seat: Seat, planned: bool
) -> None:
    seat()
    others = [cluster.new_scheduler() for _ in range(2)]
    cluster.schedulers += others
    cluster.job("nightly", **NIGHTLY, late_limit=5)
    restart_over(cluster, "nightly", late_seconds=13, planned=planned)

    side_by_side(*[lambda node=node: come_back(cluster, node) for node in [still, *others]])
    come_back(cluster, still)

    assert [skip.count for skip in cluster.skips()] == [1]
    assert len(alarms(cluster)) == 1


def test_an_outage_whose_skips_are_recorded_in_parts_is_told_once(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("hourly", **NIGHTLY, late_limit=5)
    due_ms = restart_over(cluster, "hourly", late_seconds=7_300, planned=True)
    cluster.database.write(lambda s: s.execute(update(Job).values(schedule_value="3600")))
    cluster.database.write(lambda s: s.execute(update(History).values(schedule_value="3600")))
    cluster.set_job("hourly", next_tick_at=due_ms + 3_600_000)

    come_back(cluster, still)

    assert sorted(skip.count for skip in cluster.skips()) == [1, 2]
    assert len(alarms(cluster)) == 1
    assert is_sound(cluster)


@was_planned
def test_a_job_that_makes_up_for_it_tells_nobody(
    cluster: Cluster, still: SchedulerNode, seat: Seat, planned: bool
) -> None:
    seat()
    cluster.job("nightly", **NIGHTLY, late_limit=5, misfire="FIRE_ONCE_NOW")
    restart_over(cluster, "nightly", late_seconds=13, planned=planned)

    come_back(cluster, still)

    [run] = cluster.runs()
    assert (run.status, run.kind) == (RunStatus.SENT, Kind.MISFIRE)
    assert alarms(cluster) == []


@on_memory
@was_planned
@pytest.mark.parametrize("whose", [APP, None], ids=["an-app", "the-cluster"])
def test_what_was_due_while_a_person_had_paused_is_skipped_on_record_and_not_told(
    cluster: Cluster, still: SchedulerNode, seat: Seat, whose: str | None, planned: bool
) -> None:
    seat()
    cluster.job("nightly", **NIGHTLY, late_limit=5)
    cluster.commands().pause(whose)
    restart_over(cluster, "nightly", late_seconds=13, planned=planned)
    older = update(Pause).values(since_at=Pause.since_at - 60_000)
    cluster.database.write(lambda session: session.execute(older))
    come_back(cluster, still)
    cluster.commands().resume(whose)

    come_back(cluster, still)

    assert [skip.count for skip in cluster.skips()] == [1]
    assert alarms(cluster) == []


# -- an edit meanwhile ---------------------------------------------------------------------------


@on_memory
@pytest.mark.parametrize(
    ("limits", "status"), [((5, 60), RunStatus.SENT), ((60, 5), RunStatus.CANCELLED)]
)
def test_an_edit_of_the_limit_holds_for_what_is_planned_already(
    cluster: Cluster, still: SchedulerNode, seat: Seat, limits: tuple[int, int], status: RunStatus
) -> None:
    seat()
    cluster.job("nightly", **NIGHTLY, late_limit=limits[0])
    due_ms = restart_over(cluster, "nightly", late_seconds=13, planned=True)
    edit(cluster, limits[1])

    come_back(cluster, still)

    [run] = cluster.runs()
    assert (run.scheduled_at, run.status) == (due_ms, status)
    put(cluster.database, [run.id], started_at=cluster.now_ms())
    assert is_sound(cluster)


def edit(cluster: Cluster, late_limit: int) -> None:
    fields = {**NIGHTLY, "schedule_kind": "FIX_RATE", "schedule_value": "86400"}
    cluster.apply(JobSpec(name="nightly", app=APP, handler="noop", late_limit=late_limit, **fields))


# -- the audit -----------------------------------------------------------------------------------


@on_memory
@pytest.mark.parametrize(("late_seconds", "late"), [(58, []), (70, ["nightly"])])
def test_the_audit_counts_a_start_beyond_the_limit(
    cluster: Cluster, still: SchedulerNode, late_seconds: int, late: list[str]
) -> None:
    cluster.job("nightly", **NIGHTLY)
    restart_over(cluster, "nightly", late_seconds=late_seconds, planned=True)
    still.uptime.keep(cluster.now_ms)
    now_ms = cluster.now_ms() + 1_000
    [run] = cluster.runs()

    put(cluster.database, [run.id], status="RUNNING", routed_at=now_ms, started_at=now_ms)

    report = audit(cluster.database, since_ms=0, until_ms=now_ms, timezone="UTC")
    assert [job.name.rpartition("/")[2] for job in report.jobs if job.late] == late


# -- the claim ----------------------------------------------------------------------------------


def test_a_claim_sees_the_outage_that_another_scheduler_has_recorded_since_the_peek(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("nightly", **NIGHTLY, late_limit=5)
    due_ms = restart_over(cluster, "nightly", late_seconds=1, planned=True)
    [run] = cluster.runs()
    cluster.database.write(lambda s: s.execute(update(Uptime).values(until_at=due_ms)))
    still.uptime.keep(cluster.now_ms)

    def outage() -> None:
        now_ms = cluster.now_ms()
        put(cluster.database, [run.id], scheduled_at=due_ms - 20_000, due_at=due_ms - 20_000)
        row = Uptime(down_since=due_ms - 22_000, since_at=now_ms, until_at=now_ms, is_settled=0)
        cluster.database.write(lambda session: session.add(row))

    cluster.mortals[id(still)].before_next_write = outage
    still.dispatcher.run_round(cluster.now_ms())

    assert cluster.mortals[id(still)].before_next_write is None
    assert cluster.run(run.id).status == RunStatus.PLANNED


def test_a_run_that_a_short_uptime_between_two_outages_did_not_send_is_decided_about(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("nightly", **NIGHTLY, late_limit=5)
    due_ms = restart_over(cluster, "nightly", late_seconds=17, planned=True)
    # 4.9 s before the first outage ended; the second began 1 s later.
    first = {"down_since": due_ms - 2_000, "since_at": due_ms + 4_900, "until_at": due_ms + 5_900}
    cluster.database.write(lambda session: session.add(Uptime(**first, is_settled=0)))

    come_back(cluster, still)

    [run] = cluster.runs()
    assert run.status == RunStatus.CANCELLED
    assert len(alarms(cluster)) == 1
    assert is_sound(cluster)


@on_memory
def test_a_released_run_that_a_second_outage_held_is_decided_about_anew(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    cluster.job("nightly", **NIGHTLY)
    restart_over(cluster, "nightly", late_seconds=13, planned=True)
    come_back(cluster, still)
    [run] = cluster.runs()
    assert run.released_at is not None
    older = {"due_at": run.due_at - 80_000, "released_at": run.released_at - 80_000}
    put(cluster.database, [run.id], **older)
    back = {
        Uptime.down_since: Uptime.down_since - 80_000,
        Uptime.since_at: Uptime.since_at - 80_000,
    }
    back[Uptime.until_at] = Uptime.until_at - 80_000
    cluster.database.write(lambda session: session.execute(update(Uptime).values(back)))
    cluster.pass_time(still, 80)
    seat()

    come_back(cluster, still)

    assert cluster.run(run.id).status == RunStatus.CANCELLED
    assert len(alarms(cluster)) == 1


def test_how_late_all_were_is_asked_once_nobody_else_can_record_it(cluster: Cluster) -> None:
    if cluster.database.dialect.is_embedded:
        pytest.skip("SQLite has one writer at a time")
    free = select(Uptime.id).with_for_update(skip_locked=True)
    found: list[int | None] = []

    def now_ms() -> int:
        found.append(cluster.database.write(lambda session: session.scalar(free)))
        return cluster.now_ms()

    cluster.database.write(lambda s: uptimes.extend(s, now_ms=now_ms, gap_ms=LATE_MS))

    assert found == [None]
