"""Backfills: which due times run, how many at once, what follows, and what the audit says."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, func, select, update

from tests.integration.scheduler.family import end
from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, OpenNode, on_memory
from tests.support.sql_rows import put
from warren.broker.messages import Block
from warren.resources.backfills import MAX_AT_ONCE
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.backfills.draft import BackfillRequest
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.commands.commands import Commands
from warren.scheduler.commands.reruns import RerunOptions
from warren.scheduler.completion.completion import Tally
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.metrics import Ended
from warren.scheduler.problems import Code, Problem, Refused
from warren.scheduler.retention.clearing import ClearingCriteria
from warren.scheduler.triggers import routed_trigger
from warren.sql.epochs import LEFT_OUT
from warren.sql.jobs import job_rows
from warren.sql.models import Backfill, Job, Run, Sequence
from warren.sql.models.job_tables import BackfillState, Selection
from warren.sql.run_status import OPEN, Kind, RunStatus
from warren.sql.runs import backfills, transitions

FAILED, SUCCEEDED, SENT = RunStatus.FAILED, RunStatus.SUCCEEDED, RunStatus.SENT
DAY = timedelta(days=1)
NIGHTLY = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?", "run_date_days": -1}

pytestmark = on_memory


@pytest.fixture
def commands(cluster: Cluster) -> Commands:
    return acting(cluster.database, cluster.now_ms, who="test")


@pytest.fixture
def node(cluster: Cluster) -> OpenNode:
    return cluster.new_scheduler()


def test_a_backfill_whose_id_another_one_has_gets_an_id_of_its_own(
    cluster: Cluster, commands: Commands
) -> None:
    job_id = nightly(cluster)
    first = commands.backfills.make(job_id, of_days(cluster, 1))
    cluster.database.write(lambda s: s.execute(update(Sequence).values(next_id=first.id)))

    second = commands.backfills.make(job_id, of_days(cluster, 3))

    assert (second.is_new, second.ticks) == (True, 3)
    assert second.id > LEFT_OUT
    assert [stored(cluster, each.id).ticks for each in (first, second)] == [1, 3]


def test_only_ends_of_runs_of_its_jobs_wake_the_role(
    cluster: Cluster, node: OpenNode, commands: Commands
) -> None:
    job_id = nightly(cluster)
    commands.backfills.make(job_id, of_days(cluster, 1))
    refill(node)
    awake = node.context.wakes.of("backfills")
    ended = Ended(1, job_id, SUCCEEDED, None, None, 0)

    node.refill.hear(Tally(ended=[ended._replace(job_id=job_id + 1)]))
    assert not awake.is_set()
    node.refill.hear(Tally(ended=[ended]))

    assert awake.is_set()


def today(cluster: Cluster) -> date:
    return datetime.fromtimestamp(cluster.now_ms() / 1_000, UTC).date()


def nightly(cluster: Cluster, *children: str, **fields: Any) -> int:
    """Make a job that runs at 02:00 UTC for the day before; return its id."""
    facts = {"app": APP, "handler": "noop", "timezone": "UTC", "children": children}
    others = [JobSpec(name=child, app=APP, handler="noop") for child in children]
    cluster.apply(JobSpec(name="daily", **(facts | NIGHTLY | fields)), *others)
    return cluster.jobs(name="daily")[0].id


def of_days(cluster: Cluster, count: int, **fields: Any) -> BackfillRequest:
    """Ask for the run dates of some days, which ended two days ago."""
    last = today(cluster) - 3 * DAY
    return BackfillRequest(from_date=last - (count - 1) * DAY, to_date=last, **fields)


def refill(node: OpenNode) -> None:
    """Let one scheduler do its rounds until nothing is left to plan."""
    while node.refill.run_round(node.clock.now_ms()) == 0:
        pass


def open_runs(cluster: Cluster) -> list[Run]:
    return [run for run in cluster.runs() if run.status in OPEN]


def finish(cluster: Cluster, *runs: Run, status: RunStatus = SUCCEEDED) -> None:
    """Let executors end runs now."""
    put(cluster.database, [run.id for run in runs], status=SENT, routed_at=cluster.now_ms())
    end(cluster, *(run.id for run in runs), status=status, finished_at=cluster.now_ms())


def dates(runs: list[Run]) -> list[date]:
    return [run.run_date for run in runs if run.run_date]


def stored(cluster: Cluster, backfill_id: int) -> Backfill:
    return cluster.database.read(lambda session: session.get_one(Backfill, backfill_id))


def work_off(cluster: Cluster, node: OpenNode, most: int = 50) -> None:
    """Plan and end runs until nothing is open."""
    for _ in range(most):
        refill(node)
        if not (runs := open_runs(cluster)):
            return
        finish(cluster, *runs)
    raise AssertionError("it never ends")


def faults(cluster: Cluster) -> list[str]:
    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    return [
        f"{job.name} {kind} {fault.why or ''}".strip()
        for job in report.jobs
        for kind, those in (("lost", job.lost), ("doubled", job.doubled))
        for fault in those
    ]


def change(cluster: Cluster, statement: Any) -> None:
    cluster.database.write(lambda session: session.execute(statement))


# -- which due times run, and how many at once ------------------------------------------------


def test_each_date_of_the_range_runs_once_and_no_more_at_once_than_asked(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    job_id = nightly(cluster)
    made = commands.backfills.make(job_id, of_days(cluster, 7, at_once=3))
    assert (made.ticks, made.is_new) == (7, True)

    most = 0
    for _ in range(10):
        refill(node)
        most = max(most, len(runs := open_runs(cluster)))
        finish(cluster, *runs[:1])

    runs = cluster.runs()
    last = today(cluster) - 3 * DAY
    assert dates(runs) == [last - ago * DAY for ago in range(6, -1, -1)]
    assert {(run.kind, run.origin_id, run.backfill_id) for run in runs} == {
        (Kind.BACKFILL, made.id, made.id)
    }
    assert {datetime.fromtimestamp(run.scheduled_at / 1_000, UTC).hour for run in runs} == {2}
    assert most == 3
    backfill = stored(cluster, made.id)
    assert (backfill.state, backfill.succeeded, backfill.open_ticks) == ("DONE", 7, "[]")
    assert backfill.ended_at is not None
    assert faults(cluster) == []


def test_a_retry_keeps_its_due_time_open_and_queues_as_the_first_attempt_did(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    job_id = nightly(cluster, retries=1, block="COVER_EARLY")
    commands.backfills.make(job_id, of_days(cluster, 2))
    refill(node)
    finish(cluster, *open_runs(cluster), status=FAILED)
    refill(node)

    [retry] = open_runs(cluster)

    assert (retry.kind, retry.attempt) == (Kind.RETRY, 1)

    def read(session: Any) -> list[Any]:
        planned = transitions.claim(session, [retry.id])
        job = job_rows.for_runs(session, [job_id])[job_id]
        return [
            routed_trigger(run, job, app=APP, address="one", boot_id="b", routed_at=1).trigger
            for run in planned
        ]

    [trigger] = cluster.database.read(read)
    assert trigger.block is Block.SERIAL_EXECUTION
    finish(cluster, retry)
    refill(node)
    assert len(open_runs(cluster)) == 1


def test_newest_first_begins_at_the_end(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    commands.backfills.make(nightly(cluster), of_days(cluster, 3, newest_first=True))

    work_off(cluster, node)

    last = today(cluster) - 3 * DAY
    assert dates(cluster.runs()) == [last, last - DAY, last - 2 * DAY]


@pytest.mark.parametrize(
    ("selection", "taken"),
    [(Selection.MISSING, [3, 0]), (Selection.FAILED, [1]), (Selection.ALL, [3, 2, 1, 0])],
)
def test_only_the_due_times_that_are_wanted_run(
    cluster: Cluster, commands: Commands, node: OpenNode, selection: Selection, taken: list[int]
) -> None:
    job_id = nightly(cluster)
    last = today(cluster) - 3 * DAY
    first = commands.backfills.make(
        job_id, BackfillRequest(from_date=last - 2 * DAY, to_date=last - DAY)
    )
    refill(node)
    finish(cluster, *open_runs(cluster))
    refill(node)
    finish(cluster, *open_runs(cluster), status=FAILED)
    refill(node)
    assert stored(cluster, first.id).state == BackfillState.DONE

    made = commands.backfills.make(job_id, of_days(cluster, 4, selection=selection))
    work_off(cluster, node)

    ran = [run for run in cluster.runs() if run.backfill_id == made.id]
    assert dates(ran) == [last - ago * DAY for ago in taken]
    assert faults(cluster) == []


def test_dates_run_once_each_for_a_job_on_demand(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    cluster.job("load", run_date_days=-5)
    [job] = cluster.jobs(name="load")
    day = today(cluster)
    request = BackfillRequest(from_date=day - 2 * DAY, to_date=day, dates=True)
    commands.backfills.make(job.id, request)
    work_off(cluster, node)
    assert dates(cluster.runs()) == [day - 2 * DAY, day - DAY, day]

    wider = BackfillRequest(from_date=day - 4 * DAY, to_date=day, dates=True)
    made = commands.backfills.make(job.id, wider)
    work_off(cluster, node)

    ran = [run for run in cluster.runs() if run.backfill_id == made.id]
    assert dates(ran) == [day - 4 * DAY, day - 3 * DAY]
    assert stored(cluster, made.id).left_out == "2-4"
    assert faults(cluster) == []


def test_a_param_and_silent_children_are_those_of_the_backfill(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    job_id = nightly(cluster, "child", param_template="{{ run_date }}")
    commands.backfills.make(job_id, of_days(cluster, 1))
    work_off(cluster, node)
    commands.backfills.make(
        job_id,
        of_days(cluster, 1, param="by hand", children=False, selection=Selection.ALL),
    )
    work_off(cluster, node)

    first, second = cluster.runs(kind=Kind.BACKFILL)
    assert (first.param, second.param) == (str(first.run_date), "by hand")
    [child] = cluster.runs(kind=Kind.PARENT)
    assert (child.origin_id, child.run_date) == (first.id, first.run_date)
    assert faults(cluster) == []


def test_runs_whose_param_cannot_be_made_fail_and_are_counted(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    job_id = nightly(cluster, param_template="{{ run_date }}")
    change(cluster, update(Job).where(Job.id == job_id).values(param_template="{{ job.rows }}"))

    commands.backfills.make(job_id, of_days(cluster, 3, at_once=3))
    refill(node)

    assert [run.status for run in cluster.runs()] == [FAILED] * 3
    [(key, number)] = node.context.metrics.take().numbers().items()
    assert (key.label, number) == (FAILED, 3)


def test_an_edit_changes_none_of_its_due_times(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    commands.backfills.make(nightly(cluster), of_days(cluster, 3))
    refill(node)
    nightly(cluster, schedule_value="0 0 5 * * ?", run_date_days=0, handler="echo")

    work_off(cluster, node)

    runs = cluster.runs()
    assert {datetime.fromtimestamp(run.scheduled_at / 1_000, UTC).hour for run in runs} == {2}
    assert len(set(dates(runs))) == 3
    assert [run.handler for run in runs] == ["noop", "echo", "echo"]
    assert faults(cluster) == []


# -- stopping, pausing, cancelling ------------------------------------------------------------


def test_it_stops_at_a_failure_and_goes_on_when_told(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    made = commands.backfills.make(nightly(cluster), of_days(cluster, 3, stop_on_failure=True))
    refill(node)
    [run] = open_runs(cluster)
    finish(cluster, run, status=FAILED)
    refill(node)

    stopped = stored(cluster, made.id)
    assert (stopped.state, stopped.failed) == (BackfillState.PAUSED, 1)
    assert stopped.state_reason == f"stopped because the run of {run.run_date} failed"
    assert open_runs(cluster) == []

    commands.backfills.resume(made.id)
    work_off(cluster, node)
    over = stored(cluster, made.id)
    assert (over.state, over.failed, over.succeeded) == (BackfillState.DONE, 1, 2)


def test_a_paused_one_plans_nothing_and_notes_what_ends(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    made = commands.backfills.make(nightly(cluster), of_days(cluster, 3, at_once=2))
    refill(node)
    commands.backfills.pause(made.id)
    finish(cluster, *open_runs(cluster))
    refill(node)

    paused = stored(cluster, made.id)
    assert (paused.state, paused.succeeded, paused.state_reason) == (
        BackfillState.PAUSED,
        2,
        "paused by test",
    )
    assert open_runs(cluster) == []


@pytest.mark.parametrize("kill", [False, True])
def test_a_cancelled_one_plans_nothing_more(
    cluster: Cluster, commands: Commands, node: OpenNode, *, kill: bool
) -> None:
    made = commands.backfills.make(nightly(cluster), of_days(cluster, 5, at_once=2))
    refill(node)
    put(cluster.database, [open_runs(cluster)[0].id], status=SENT, routed_at=cluster.now_ms())

    assert commands.backfills.cancel(made.id, kill=kill) == (2 if kill else 0)

    statuses = [(run.status, run.kill_requested_at is not None) for run in cluster.runs()]
    assert statuses == (
        [(SENT, True), ("CANCELLED", False)] if kill else [(SENT, False), ("PLANNED", False)]
    )
    finish(cluster, *open_runs(cluster))
    refill(node)
    over = stored(cluster, made.id)
    assert (over.state, len(cluster.runs()), over.open_ticks) == ("CANCELLED", 2, "[]")
    assert over.ended_at is not None
    with pytest.raises(Problem) as caught:
        commands.backfills.pause(made.id)
    assert caught.value.code is Code.BACKFILL_OVER
    assert faults(cluster) == []


def test_the_schedule_rests_while_it_runs_instead(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    job_id = nightly(cluster, enabled=True)
    made = commands.backfills.make(job_id, of_days(cluster, 1, instead=True))

    [resting] = cluster.jobs(name="daily")
    assert not resting.is_enabled
    assert resting.stop_reason == f"backfill {made.id} runs instead of its schedule"
    work_off(cluster, node)

    [job] = cluster.jobs(name="daily")
    assert (job.is_enabled, job.stop_reason) == (1, None)
    assert job.next_tick_at > cluster.now_ms()
    assert faults(cluster) == []


def test_a_job_that_somebody_stops_meanwhile_stays_stopped(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    job_id = nightly(cluster, enabled=True)
    commands.backfills.make(job_id, of_days(cluster, 1, instead=True))
    assert commands.jobs.stop(job_id)

    work_off(cluster, node)

    [job] = cluster.jobs(name="daily")
    assert (job.is_enabled, job.stop_reason) == (0, "job stopped by test")


def test_the_deletion_of_its_job_cancels_it(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    job_id = nightly(cluster)
    made = commands.backfills.make(job_id, of_days(cluster, 5))
    refill(node)

    commands.jobs.delete([job_id])
    refill(node)

    over = stored(cluster, made.id)
    assert (over.state, over.state_reason) == (BackfillState.CANCELLED, "job deleted by test")
    assert over.ended_at is not None
    assert open_runs(cluster) == []


def test_due_times_that_are_gone_pause_it(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    made = commands.backfills.make(nightly(cluster), of_days(cluster, 2))
    change(cluster, update(Backfill).values(ticks=3))

    work_off(cluster, node)
    refill(node)

    paused = stored(cluster, made.id)
    assert (paused.state, paused.succeeded) == (BackfillState.PAUSED, 2)
    assert paused.state_reason == (
        "its runs cannot be planned: its schedule has fewer due times than 3"
    )
    lost = f"backfill {made.id} counts 3 due times, and has 2"
    assert faults(cluster) == [f"demo/daily lost {lost}"]


def test_a_fault_pauses_it_with_the_reason_and_no_other(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    job_id = nightly(cluster)
    broken = commands.backfills.make(job_id, of_days(cluster, 2))
    good = commands.backfills.make(job_id, of_days(cluster, 2))
    change(cluster, update(Backfill).where(Backfill.id == broken.id).values(schedule="{}"))

    work_off(cluster, node)

    assert stored(cluster, good.id).state == BackfillState.DONE
    paused = stored(cluster, broken.id)
    assert paused.state == BackfillState.PAUSED
    assert paused.state_reason is not None
    assert paused.state_reason.startswith("its runs cannot be planned: ")


# -- re-runs, keys, refusals ------------------------------------------------------------------


def test_a_rerun_belongs_to_it_and_mends_its_date(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    job_id = nightly(cluster)
    made = commands.backfills.make(job_id, of_days(cluster, 1))
    refill(node)
    [run] = open_runs(cluster)
    finish(cluster, run, status=FAILED)
    refill(node)

    commands.runs.rerun([run.id], RerunOptions())
    [again] = open_runs(cluster)
    assert (again.backfill_id, again.run_date) == (made.id, run.run_date)
    finish(cluster, again)

    preview = commands.backfills.preview(job_id, of_days(cluster, 1, selection=Selection.FAILED))
    assert [(tick.state, tick.runs) for tick in preview.ticks] == [("SUCCEEDED", False)]
    assert faults(cluster) == []


def test_the_same_key_makes_no_second_one(cluster: Cluster, commands: Commands) -> None:
    job_id = nightly(cluster)
    first = commands.backfills.make(job_id, of_days(cluster, 2, key="november"))

    again = commands.backfills.make(job_id, of_days(cluster, 3, key="november"))

    assert (again.id, again.is_new, again.ticks) == (first.id, False, 2)


def test_more_at_once_than_the_job_lets_run_is_told(cluster: Cluster, commands: Commands) -> None:
    job_id = nightly(cluster)

    made = commands.backfills.make(job_id, of_days(cluster, 5, at_once=2))

    assert list(map(str, made.notices)) == [
        "each executor runs 1 at a time of this job, so more of them may wait there"
    ]


def test_what_cannot_be_filled_is_refused_and_nothing_is_stored(
    cluster: Cluster, commands: Commands
) -> None:
    every_second = {"schedule_kind": "FIX_RATE", "schedule_value": "1"}
    daily = nightly(cluster)
    cluster.job("on-demand")
    cluster.job("often", **every_second)
    cluster.job("delayed", schedule_kind="FIX_DELAY", schedule_value="60")
    ids = {job.name: job.id for job in cluster.jobs()}
    day = today(cluster)
    one_day = {"from_date": day - DAY, "to_date": day - DAY}
    refused = {
        Code.BACKFILL_RANGE: (daily, {"from_date": day - DAY, "to_date": day - 2 * DAY}),
        Code.BACKFILL_FUTURE: (daily, {"from_date": day - DAY, "to_date": day + DAY}),
        Code.BACKFILL_NO_SCHEDULE: (ids["on-demand"], one_day),
        Code.BACKFILL_DELAY: (ids["delayed"], one_day),
        Code.BACKFILL_TOO_LONG: (ids["often"], one_day),
        Code.BACKFILL_AT_ONCE: (daily, one_day | {"at_once": MAX_AT_ONCE + 1}),
        Code.BACKFILL_KEY: (daily, one_day | {"key": "two words"}),
        Code.NO_JOB: (99_999, one_day),
    }

    wrong = []
    for code, (job_id, fields) in refused.items():
        try:
            commands.backfills.make(job_id, BackfillRequest(**fields))
        except Refused as error:
            if error.problems[0].code is not code:
                wrong.append((code, error))
        else:
            wrong.append((code, "accepted"))

    assert wrong == []
    assert (
        cluster.database.read(lambda session: session.scalar(select(func.count(Backfill.id)))) == 0
    )


def test_a_job_is_filled_as_far_as_the_calendar_of_its_run_dates_knows(
    cluster: Cluster, commands: Commands
) -> None:
    ended = today(cluster) - 9 * DAY
    days = CalendarSpec(name="x", weekend=(), until=ended).resolved(ended)
    commands.calendars.apply("x", days)
    job_id = nightly(cluster, run_date_days=0, run_date_workdays=-1, run_date_calendar="x")
    week = BackfillRequest(from_date=ended - 6 * DAY, to_date=ended)

    made = commands.backfills.make(job_id, week)
    with pytest.raises(Refused) as refused:
        commands.backfills.make(job_id, replace(week, to_date=ended + DAY))

    assert made.ticks == 7
    assert [problem.code for problem in refused.value.problems] == [Code.BACKFILL_FUTURE]
    assert f"up to {ended}" in str(refused.value)


def test_who_may_not_see_the_job_may_not_fill_it(cluster: Cluster, commands: Commands) -> None:
    job_id = nightly(cluster)
    made = commands.backfills.make(job_id, of_days(cluster, 2))
    stranger = acting(cluster.database, cluster.now_ms, app_ids=[]).backfills

    for act in (
        lambda: stranger.make(job_id, of_days(cluster, 2)),
        lambda: stranger.cancel(made.id),
        lambda: stranger.pause(made.id),
    ):
        with pytest.raises(Problem) as caught:
            act()
        assert caught.value.code in (Code.NO_JOB, Code.NO_BACKFILL)


# -- the audit --------------------------------------------------------------------------------


def test_the_audit_finds_what_was_damaged_by_hand(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    made = commands.backfills.make(nightly(cluster), of_days(cluster, 4))
    for _ in range(3):
        refill(node)
        finish(cluster, *open_runs(cluster))
    refill(node)
    runs = cluster.runs()
    assert faults(cluster) == []
    lost = f"demo/daily lost backfill {made.id} has no run for it"
    stray = f"demo/daily doubled backfill {made.id} has a run for it that it did not plan"

    change(cluster, update(Run).where(Run.id == runs[1].id).values(scheduled_at=77_000))
    assert faults(cluster) == [lost, stray]
    change(
        cluster, update(Run).where(Run.id == runs[1].id).values(scheduled_at=runs[1].scheduled_at)
    )
    change(cluster, update(Backfill).values(decided=3))
    assert faults(cluster) == [stray]
    change(cluster, update(Backfill).values(decided=4, left_out="2"))
    assert faults(cluster) == [stray]
    change(cluster, update(Backfill).values(left_out=""))
    change(cluster, delete(Run).where(Run.id == runs[0].id))
    assert faults(cluster) == [lost]
    change(cluster, delete(Backfill))
    unknown = f"its run belongs to backfill {made.id}, which does not exist"
    assert faults(cluster) == [f"demo/daily doubled {unknown}"] * 3


# -- retention --------------------------------------------------------------------------------


def test_a_backfill_is_forgotten_once_its_runs_are(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    job_id = nightly(cluster)
    made = commands.backfills.make(job_id, of_days(cluster, 1))
    going = commands.backfills.make(job_id, of_days(cluster, 1, selection=Selection.ALL))
    commands.backfills.pause(going.id)
    work_off(cluster, node)
    later_ms = cluster.now_ms() + 1

    def forget() -> list[int]:
        cluster.database.write(lambda session: backfills.forget(session, before_ms=later_ms))
        ids = select(Backfill.id).order_by(Backfill.id)
        return cluster.database.read(lambda session: list(session.scalars(ids)))

    assert forget() == [made.id, going.id]
    change(cluster, delete(Run))
    assert forget() == [going.id]


def test_runs_that_were_cleared_are_not_missed_by_the_audit(
    cluster: Cluster, commands: Commands, node: OpenNode
) -> None:
    made = commands.backfills.make(nightly(cluster), of_days(cluster, 2))
    work_off(cluster, node)

    assert commands.clearing.clear(ClearingCriteria(keep=None, before_ms=2**50)) == 2

    assert cluster.runs() == []
    assert stored(cluster, made.id).succeeded == 2
    assert faults(cluster) == []
