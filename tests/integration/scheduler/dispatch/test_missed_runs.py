"""Planned runs that no scheduler could send in time are left to their job's misfire policy."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update

from tests.integration.scheduler.conftest import Seat
from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.sql_rows import put, side_by_side
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.audit.tally import JobTally
from warren.scheduler.node import SchedulerNode
from warren.sql.clock import AGREEING_SAMPLES, JUMP_MS
from warren.sql.models import Backfill, History, Job, Run, Uptime
from warren.sql.registry import uptimes
from warren.sql.run_status import LATE_MS, Kind, RunStatus
from warren.sql.runs import queries, transitions

STRICT = {"schedule_kind": "FIX_RATE", "enabled": True, "late_limit": 5}
EACH_SECOND = {**STRICT, "schedule_value": "1"}
EVERY_TWENTY = {**STRICT, "schedule_value": "20"}
#: The last tick of EVERY_TWENTY is then 8 s ago.
AWAY_SECONDS = 488
CAREFUL = {"misfire": "FIRE_ONCE_NOW"}


@pytest.fixture
def away(cluster: Cluster, still: SchedulerNode) -> Callable[..., None]:
    """Plan what comes due, at once or in a while, then let all schedulers be away for a time."""

    def away(seconds: int = AWAY_SECONDS, *, after: int = 0) -> None:
        age(cluster, after)
        still.planner.run_round(cluster.now_ms())
        age(cluster, seconds)

    return away


def age(cluster: Cluster, seconds: int) -> None:
    """Make all that has happened this much older."""
    by_ms = seconds * 1_000

    def unit(session: Any) -> None:
        for columns in (
            (Run.scheduled_at, Run.due_at, Run.routed_at),
            (Job.last_tick_at, Job.next_tick_at),
            (History.watermark, History.anchor),
            (Uptime.down_since, Uptime.since_at, Uptime.until_at),
        ):
            session.execute(update(columns[0].class_).values({c: c - by_ms for c in columns}))

    cluster.database.write(unit)


def come_back(cluster: Cluster, node: SchedulerNode) -> None:
    """Let a scheduler go on, its roles in the order that is worst for what is late."""
    for _ in range(3):
        node.dispatcher.run_round(cluster.now_ms())
        node.confirmations.drain()
        node.missed_runs.run_round(cluster.now_ms())
        node.planner.run_round(cluster.now_ms())


def old_runs(cluster: Cluster, **where: Any) -> list[Run]:
    """The runs of ticks that came due while all schedulers were away."""
    limit_ms = cluster.now_ms() - 10_000
    return [run for run in cluster.runs(**where) if run.scheduled_at < limit_ms]


def statuses(runs: list[Run]) -> set[str]:
    return {run.status for run in runs}


def tally(cluster: Cluster, name: str) -> JobTally:
    report = audit(cluster.database, since_ms=0, until_ms=cluster.now_ms(), timezone="UTC")
    [job] = [job for job in report.jobs if job.name.endswith(f"/{name}")]
    return job


def sent_late(cluster: Cluster) -> list[Run]:
    """Runs of a schedule that were given out over 5 s after they were due."""
    return [r for r in cluster.runs() if r.routed_at and r.routed_at - r.due_at > 5_000]


def downtimes(cluster: Cluster) -> list[Uptime]:
    statement = select(Uptime).where(Uptime.down_since < Uptime.since_at)
    return cluster.database.read(lambda session: list(session.execute(statement).scalars()))


# -- policies ---------------------------------------------------------------------------------


def test_planned_ticks_of_a_job_that_does_nothing_are_cancelled_and_skipped_on_record(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    seat()
    cluster.job("careless", **EVERY_TWENTY)
    away(after=20)
    planned = [run.scheduled_at for run in cluster.runs()]

    come_back(cluster, still)

    late = old_runs(cluster)
    assert [run.scheduled_at for run in late] == planned
    assert statuses(late) == {RunStatus.CANCELLED}
    assert {run.message for run in late} == {
        "no scheduler could send it in time; its job skips what it missed"
    }
    skips = [(skip.from_at, skip.to_at, skip.count) for skip in cluster.skips()]
    assert {(tick, tick, 1) for tick in planned} <= set(skips)
    assert sent_late(cluster) == []
    job = tally(cluster, "careless")
    assert (job.is_sound, job.cancelled) == (True, 0)
    assert job.skipped >= AWAY_SECONDS // 20


def test_one_misfire_run_stands_for_all_that_was_planned_and_for_all_that_was_not(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    seat()
    cluster.job("careful", **EVERY_TWENTY, **CAREFUL)
    away(after=20)

    come_back(cluster, still)

    [misfire] = cluster.runs(kind=Kind.MISFIRE)
    assert misfire.scheduled_at > cluster.now_ms() - 10_000
    assert statuses(old_runs(cluster)) == {RunStatus.CANCELLED}
    assert sent_late(cluster) == []
    assert tally(cluster, "careful").is_sound


def test_the_last_planned_tick_is_the_misfire_run_when_nothing_later_was_missed(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    seat()
    cluster.job("careful", **EACH_SECOND, **CAREFUL)
    away(20)
    planned = cluster.runs()
    cluster.set_job("careful", next_tick_at=cluster.now_ms() + 60_000)

    come_back(cluster, still)

    [misfire] = cluster.runs(kind=Kind.MISFIRE)
    missed = [run for run in planned if run.due_at < cluster.now_ms() - 5_000]
    assert misfire.id in {run.id for run in missed}
    assert misfire.status == RunStatus.SENT
    others = [cluster.run(run.id) for run in missed if run.scheduled_at < misfire.scheduled_at]
    assert statuses(others) == {RunStatus.CANCELLED}
    assert sent_late(cluster) == []
    assert tally(cluster, "careful").is_sound


def test_a_fixed_delay_goes_on_after_its_tick_was_skipped(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    seat()
    cluster.job("delayed", schedule_kind="FIX_DELAY", schedule_value="60", enabled=True)
    away()

    come_back(cluster, still)

    [run] = cluster.runs()
    [job] = cluster.jobs()
    assert run.status == RunStatus.CANCELLED
    assert job.next_tick_at >= cluster.now_ms() + 50_000
    found = tally(cluster, "delayed")
    assert (found.is_sound, found.due, found.skipped) == (True, 1, 1)


def test_a_fixed_delay_that_fires_once_fires_its_tick(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    seat()
    fields = {"schedule_kind": "FIX_DELAY", "schedule_value": "60", "enabled": True}
    cluster.job("delayed", **fields, **CAREFUL)
    away()

    come_back(cluster, still)

    [run] = cluster.runs()
    assert (run.status, run.kind) == (RunStatus.SENT, Kind.MISFIRE)
    assert tally(cluster, "delayed").is_sound


@on_memory
def test_what_a_person_asked_for_is_sent_however_late(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    seat()
    cluster.job("by-hand")
    run_id = cluster.trigger("by-hand")
    away()

    come_back(cluster, still)

    assert cluster.run(run_id).status == RunStatus.SENT


@on_memory
def test_a_retry_is_sent_however_late(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    seat()
    cluster.job("each", **EACH_SECOND)
    still.planner.run_round(cluster.now_ms())
    retry = cluster.runs()[0]
    put(cluster.database, [retry.id], kind=Kind.RETRY, attempt=1)
    away()

    come_back(cluster, still)

    assert cluster.run(retry.id).status == RunStatus.SENT


# -- what is, and what is not, an outage -------------------------------------------------------


@on_memory
def test_ticks_up_to_five_seconds_late_are_sent(
    cluster: Cluster,
    still: SchedulerNode,
    seat: Seat,
    away: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seat()
    cluster.job("each", **EACH_SECOND)
    now_ms = cluster.now_ms()
    for clock in (cluster, still.clock):  # the rounds take no time
        monkeypatch.setattr(clock, "now_ms", lambda: now_ms)
    away(3)

    come_back(cluster, still)

    assert RunStatus.CANCELLED not in statuses(cluster.runs())
    assert len(cluster.runs(status=RunStatus.SENT)) >= 2
    assert downtimes(cluster) == []


@on_memory
def test_runs_that_wait_for_an_executor_are_sent_when_it_comes(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    cluster.job("each", **EACH_SECOND)
    still.planner.run_round(cluster.now_ms())
    waiting = [run.id for run in cluster.runs()]
    put(cluster.database, waiting, due_at=cluster.now_ms() - 9_000)
    still.dispatcher.run_round(cluster.now_ms())
    still.missed_runs.run_round(cluster.now_ms())
    seat()

    come_back(cluster, still)

    assert statuses([cluster.run(run_id) for run_id in waiting]) == {RunStatus.SENT}
    assert tally(cluster, "each").late_count == 0


@on_memory
@pytest.mark.parametrize("border", [(5_001, RunStatus.SENT), (5_000, RunStatus.CANCELLED)])
def test_a_run_goes_on_waiting_that_was_due_over_five_seconds_before_the_outage(
    cluster: Cluster,
    still: SchedulerNode,
    seat: Seat,
    away: Callable[..., None],
    border: tuple[int, RunStatus],
) -> None:
    early_ms, status = border
    cluster.job("each", **EACH_SECOND)
    still.planner.run_round(cluster.now_ms())
    waiting = [run.id for run in cluster.runs()]
    cluster.set_job("each", next_tick_at=2**61)
    still.uptime.keep(cluster.now_ms)
    away()
    cluster.pass_time(still, AWAY_SECONDS)
    outage_at = cluster.database.read(uptimes.newest)
    put(cluster.database, waiting, due_at=outage_at - early_ms)
    seat()

    come_back(cluster, still)

    assert statuses([cluster.run(run_id) for run_id in waiting]) == {status}


@on_memory
def test_while_one_scheduler_can_send_nothing_is_missed(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    other = cluster.new_scheduler()
    cluster.schedulers.append(other)
    other.roster.set_health(True)
    cluster.job("each", **EACH_SECOND)
    away()
    cluster.cables[id(still)].is_cut = True
    uptime_now(cluster)

    come_back(cluster, other)
    seat()
    come_back(cluster, still)

    assert downtimes(cluster) == []
    assert RunStatus.CANCELLED not in statuses(old_runs(cluster))


def uptime_now(cluster: Cluster) -> None:
    """Say, as a scheduler does that is able all the time, that it could send until now."""
    now_ms = cluster.now_ms()
    cluster.database.write(lambda session: session.execute(update(Uptime).values(until_at=now_ms)))


@on_memory
def extend(cluster: Cluster, *, off_ms: int = 0) -> int:
    """Say that a scheduler can send, by a clock that is `off_ms` ahead; return the gap found."""
    now_ms = cluster.now_ms() + off_ms
    return cluster.database.write(
        lambda session: uptimes.extend(session, now_ms=lambda: now_ms, gap_ms=LATE_MS)
    )


@on_memory
@pytest.mark.parametrize("off_ms", [-20_000, 20_000])
def test_a_scheduler_with_a_wrong_clock_makes_no_downtime(cluster: Cluster, off_ms: int) -> None:
    extend(cluster)

    gaps = [extend(cluster, off_ms=off_ms), extend(cluster)]

    assert gaps == [0, 0]
    assert downtimes(cluster) == []


@on_memory
def test_once_the_databases_clock_was_set_back_a_new_uptime_begins(cluster: Cluster) -> None:
    extend(cluster)
    age(cluster, -60)

    assert extend(cluster) == 0

    assert abs(cluster.database.read(uptimes.newest) - cluster.now_ms()) < LATE_MS
    assert downtimes(cluster) == []


def test_a_paused_cluster_says_of_itself_that_it_cannot_send(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("each", **EACH_SECOND)
    come_back(cluster, still)
    cluster.commands().pause()
    still.dispatcher.run_round(cluster.now_ms())

    assert not still.uptime.is_able

    age(cluster, AWAY_SECONDS)
    cluster.pass_time(still, AWAY_SECONDS)
    seat()
    come_back(cluster, still)
    assert downtimes(cluster) == []
    cluster.commands().resume()
    come_back(cluster, still)

    [downtime] = downtimes(cluster)
    assert downtime.since_at - downtime.down_since >= AWAY_SECONDS * 1_000
    assert RunStatus.PLANNED not in statuses(old_runs(cluster))
    assert sent_late(cluster) == []


@on_memory
def test_while_the_broker_is_away_a_scheduler_does_not_say_that_it_can_send(
    cluster: Cluster, still: SchedulerNode
) -> None:
    still.dispatcher.run_round(cluster.now_ms())
    before = still.uptime.is_able
    cluster.make_transport.__self__.block()  # type: ignore[attr-defined]

    still.dispatcher.run_round(cluster.now_ms())

    assert (before, still.uptime.is_able) == (True, False)


@on_memory
def test_after_a_freeze_nothing_is_claimed_that_was_seen_before_it(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("each", **EACH_SECOND)
    still.planner.run_round(cluster.now_ms())
    still.dispatcher.run_round(cluster.now_ms())
    mortal = cluster.mortals[id(still)]

    def freeze() -> None:
        age(cluster, AWAY_SECONDS)
        cluster.pass_time(still, AWAY_SECONDS)

    eventually(lambda: min(r.due_at for r in cluster.runs(status="PLANNED")) < cluster.now_ms())
    still.uptime.keep(cluster.now_ms)
    # Between the dispatcher's look and its claim.
    mortal.before_next_write = freeze
    still.dispatcher.run_round(cluster.now_ms())
    assert mortal.before_next_write is None
    seat()
    come_back(cluster, still)

    assert sent_late(cluster) == []
    assert RunStatus.CANCELLED in statuses(old_runs(cluster))


# -- races ------------------------------------------------------------------------------------


def test_any_number_of_schedulers_make_one_misfire_run(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    seat()
    others = [cluster.new_scheduler() for _ in range(2)]
    cluster.schedulers += others
    names = [f"job{number}" for number in range(10)]
    for name in names:
        cluster.job(name, **EVERY_TWENTY, **CAREFUL)
    away(after=20)
    ticks = {(run.job_id, run.scheduled_at) for run in cluster.runs()}

    side_by_side(*[lambda node=node: come_back(cluster, node) for node in [still, *others]])
    come_back(cluster, still)

    misfires = [run.job_id for run in cluster.runs(kind=Kind.MISFIRE)]
    assert sorted(misfires) == sorted({job.id for job in cluster.jobs()})
    skipped = [(skip.job_id, skip.from_at) for skip in cluster.skips() if skip.count == 1]
    assert sorted(skipped) == sorted(ticks)
    assert sent_late(cluster) == []
    assert all(tally(cluster, name).is_sound for name in names)


def test_schedulers_that_come_back_at_once_make_one_misfire_run_of_planned_ticks(
    cluster: Cluster, still: SchedulerNode, away: Callable[..., None]
) -> None:
    others = [cluster.new_scheduler() for _ in range(2)]
    cluster.schedulers += others
    for number in range(10):
        cluster.job(f"job{number}", **EACH_SECOND, **CAREFUL)
    away(60)
    for job in cluster.jobs():
        cluster.set_job(job.name, next_tick_at=cluster.now_ms() + 60_000)
    last = {run.job_id: run.scheduled_at for run in cluster.runs()}
    still.dispatcher.run_round(cluster.now_ms())
    still.uptime.keep(cluster.now_ms)

    def decide(node: SchedulerNode) -> None:
        for _ in range(3):
            node.missed_runs.run_round(cluster.now_ms())

    side_by_side(*[lambda node=node: decide(node) for node in [still, *others]])

    fired = {run.job_id: run.scheduled_at for run in cluster.runs(kind=Kind.MISFIRE)}
    assert fired == last
    assert len(cluster.runs(kind=Kind.MISFIRE)) == 10
    assert len(cluster.runs(status=RunStatus.CANCELLED)) == len(cluster.runs()) - 10


def test_a_crash_before_the_commit_leaves_the_decision_to_others(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    seat()
    other = cluster.new_scheduler()
    cluster.schedulers.append(other)
    cluster.job("careful", **EVERY_TWENTY, **CAREFUL)
    cluster.job("careless", **EVERY_TWENTY)
    away(after=20)
    still.planner.run_round(cluster.now_ms())
    still.uptime.keep(cluster.now_ms)
    mortal = cluster.mortals[id(still)]
    mortal.before_commit = mortal.die

    with pytest.raises(Exception, match="dead"):
        still.missed_runs.run_round(cluster.now_ms())
    assert RunStatus.CANCELLED not in statuses(cluster.runs())
    other.roster.set_health(True)
    come_back(cluster, other)

    assert statuses(old_runs(cluster, kind=Kind.SCHEDULE)) == {RunStatus.CANCELLED}
    assert len(cluster.runs(kind=Kind.MISFIRE)) == 1
    assert tally(cluster, "careful").is_sound
    assert tally(cluster, "careless").is_sound
    cluster.schedulers.remove(still)


def test_a_job_one_of_whose_runs_is_held_by_somebody_waits_whole(
    cluster: Cluster, still: SchedulerNode, away: Callable[..., None]
) -> None:
    if cluster.database.dialect.is_embedded:
        pytest.skip("SQLite locks no single rows")
    cluster.job("careful", **EACH_SECOND, **CAREFUL)
    away(60)
    cluster.set_job("careful", next_tick_at=cluster.now_ms() + 60_000)
    held = cluster.runs()[-1]
    still.uptime.keep(cluster.now_ms)

    def hold(session: Any) -> None:
        session.execute(select(Run).where(Run.id == held.id).with_for_update())
        still.missed_runs.run_round(cluster.now_ms())

    cluster.database.write(hold)
    assert statuses(cluster.runs()) == {RunStatus.PLANNED}
    still.missed_runs.run_round(cluster.now_ms())

    assert [run.id for run in cluster.runs(kind=Kind.MISFIRE)] == [held.id]


@on_memory
def test_a_second_outage_before_the_first_was_settled_leaves_nothing_to_be_sent_late(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    seat()
    cluster.job("careless", **EACH_SECOND)
    away()
    still.uptime.keep(cluster.now_ms)
    age(cluster, AWAY_SECONDS)
    cluster.pass_time(still, AWAY_SECONDS)
    seat()

    come_back(cluster, still)

    assert len(downtimes(cluster)) == 2
    assert statuses(old_runs(cluster)) == {RunStatus.CANCELLED}
    assert sent_late(cluster) == []


@on_memory
def test_while_the_databases_clock_jumps_nothing_is_decided(
    cluster: Cluster, still: SchedulerNode, away: Callable[..., None]
) -> None:
    cluster.job("careless", **EACH_SECOND)
    away()
    cluster.set_job("careless", next_tick_at=2**61)
    still.uptime.keep(cluster.now_ms)
    cluster.clocks[id(still)].advance(JUMP_MS / 1_000 + 1)
    still.clock.run_round()

    still.missed_runs.run_round(cluster.now_ms())
    assert statuses(cluster.runs()) == {RunStatus.PLANNED}

    for _ in range(AGREEING_SAMPLES):
        still.clock.run_round()
    still.missed_runs.run_round(cluster.now_ms())
    assert RunStatus.CANCELLED in statuses(cluster.runs())


@on_memory
def test_a_run_that_was_given_out_before_the_outage_is_not_touched(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    boot_id = seat()
    cluster.job("careless", **EACH_SECOND)
    still.planner.run_round(cluster.now_ms())
    first = cluster.runs()[0]
    held = {"address": "one", "boot_id": boot_id, "routed_at": first.due_at}
    put(cluster.database, [first.id], status=RunStatus.ROUTED, routed_by="dead", **held)
    away()

    come_back(cluster, still)

    assert cluster.run(first.id).status == RunStatus.ROUTED
    assert first.scheduled_at - AWAY_SECONDS * 1_000 not in {s.from_at for s in cluster.skips()}


@on_memory
def test_an_outage_is_settled_once_nothing_more_can_come_to_light(
    cluster: Cluster, still: SchedulerNode, away: Callable[..., None]
) -> None:
    cluster.job("careless", **EACH_SECOND)
    away()
    cluster.set_job("careless", next_tick_at=2**61)
    still.uptime.keep(cluster.now_ms)
    now_ms = cluster.now_ms()

    still.missed_runs.run_round(now_ms)
    still.missed_runs.run_round(now_ms)
    assert [one.is_settled for one in downtimes(cluster)] == [0]
    still.missed_runs.run_round(now_ms + 40_000)

    assert [one.is_settled for one in downtimes(cluster)] == [1]


# -- the audit --------------------------------------------------------------------------------


def start_late(cluster: Cluster, run: Run, sent_at: int) -> None:
    """Let a run start as none may that is skipped when it is late."""
    values = {"routed_at": sent_at, "sent_at": sent_at, "started_at": sent_at + 10}
    put(cluster.database, [run.id], status=RunStatus.RUNNING, **values)


def test_the_audit_counts_a_tick_that_started_although_it_was_to_be_skipped(
    cluster: Cluster, still: SchedulerNode, away: Callable[..., None]
) -> None:
    cluster.job("careless", **EACH_SECOND)
    away()
    still.uptime.keep(cluster.now_ms)
    first, *_ = cluster.runs()

    start_late(cluster, first, cluster.now_ms() + 100)

    job = tally(cluster, "careless")
    assert (job.late_count, job.is_sound) == (1, False)
    assert [fault.tick for fault in job.late] == [first.scheduled_at]


def test_the_audit_counts_no_tick_that_was_routed_in_time_and_sent_again_later(
    cluster: Cluster, still: SchedulerNode, away: Callable[..., None]
) -> None:
    cluster.job("careless", **EACH_SECOND)
    away()
    still.uptime.keep(cluster.now_ms)
    first, *_ = cluster.runs()
    values = {"routed_at": first.due_at + 100, "routed_by": still.name}
    put(cluster.database, [first.id], status=RunStatus.ROUTED, **values)

    for _ in range(2):
        [row] = cluster.database.read(lambda session: queries.by_ids(session, [first.id]))
        now_ms = cluster.now_ms() + 100
        assert cluster.database.write(
            lambda session, seen=row, at=now_ms: transitions.take_over(
                session, [seen], node=still.name, now_ms=at
            )
        )
    put(cluster.database, [first.id], status=RunStatus.RUNNING, started_at=now_ms + 10)

    assert cluster.run(first.id).routed_at == now_ms
    assert tally(cluster, "careless").late_count == 0


@on_memory
@pytest.mark.parametrize(
    ("fields", "sent_after_ms"),
    [({"misfire": "FIRE_ONCE_NOW"}, AWAY_SECONDS * 1_000 + 9_000), ({}, 1_000)],
    ids=["its-job-makes-up-for-it", "it-was-sent-in-time"],
)
def test_the_audit_counts_no_other_late_start(
    cluster: Cluster,
    still: SchedulerNode,
    away: Callable[..., None],
    fields: dict[str, Any],
    sent_after_ms: int,
) -> None:
    cluster.job("each", **EACH_SECOND, **fields)
    away()
    still.uptime.keep(cluster.now_ms)
    first, *_ = cluster.runs()

    start_late(cluster, first, first.due_at + sent_after_ms)
    put(cluster.database, [first.id], started_at=cluster.now_ms())

    assert tally(cluster, "each").late_count == 0


def test_a_backfill_runs_planned_runs_that_are_caught_up(
    cluster: Cluster, still: SchedulerNode, seat: Seat, away: Callable[..., None]
) -> None:
    seat()
    cluster.job("each", misfire="CATCH_UP", catch_up_most=2, **EACH_SECOND)
    away()

    come_back(cluster, still)

    planned = old_runs(cluster, status=RunStatus.CANCELLED)
    reasons = {run.scheduled_at: run.message or "" for run in planned}
    caught_up = sorted(tick for tick, why in reasons.items() if "backfill" in why)
    assert caught_up == sorted(reasons)[-2:]
    backfills = cluster.database.read(lambda session: list(session.scalars(select(Backfill))))
    assert 2 in {backfill.ticks for backfill in backfills}
    [tally] = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC").jobs
    assert tally.is_sound
