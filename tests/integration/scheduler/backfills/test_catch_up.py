"""Missed due times that are caught up: recorded as skipped, and run by a backfill."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from tests.integration.scheduler.family import end
from tests.support.acting import acting
from tests.support.cluster import Cluster, OpenNode, on_memory
from tests.support.sql_rows import put
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.views.backfill_view import filled_ticks
from warren.sql.instants import DAY_MS, HOUR_MS
from warren.sql.jobs.history import SkipFilter, SkipLine, skip_lines
from warren.sql.models import Alarm, Backfill, History, Job
from warren.sql.run_status import OPEN, Kind, RunStatus

HOURLY = {
    "schedule_kind": "FIX_RATE",
    "schedule_value": "3600",
    "enabled": True,
    "late_limit": 5,
    "alarm_emails": ("ops@example.com",),
}

pytestmark = on_memory


@pytest.fixture
def node(cluster: Cluster) -> OpenNode:
    return cluster.new_scheduler()


def away(cluster: Cluster, hours: int) -> None:
    """Let all schedulers have been away: the job's due times of these hours are undecided."""
    by_ms = hours * HOUR_MS + HOUR_MS // 2

    def unit(session: Any) -> None:
        for model, columns in (
            (Job, ("last_tick_at", "next_tick_at")),
            (History, ("watermark", "anchor")),
        ):
            values = {name: getattr(model, name) - by_ms for name in columns}
            session.execute(update(model).values(values))

    cluster.database.write(unit)


def work_off(cluster: Cluster, node: OpenNode) -> None:
    for _ in range(20):
        while node.refill.run_round(node.clock.now_ms()) == 0:
            pass
        if not (runs := [run for run in cluster.runs(kind=Kind.BACKFILL) if run.status in OPEN]):
            return
        put(cluster.database, [run.id for run in runs], status=RunStatus.SENT, routed_at=1)
        end(cluster, *(run.id for run in runs), finished_at=cluster.now_ms())
    raise AssertionError("it never ends")


def skips(cluster: Cluster) -> list[SkipLine]:
    return cluster.database.read(lambda session: skip_lines(session, SkipFilter()))


def rows(cluster: Cluster, model: Any) -> list[Any]:
    return cluster.database.read(lambda session: list(session.execute(select(model)).scalars()))


def test_what_was_missed_is_skipped_and_run_by_a_backfill(cluster: Cluster, node: OpenNode) -> None:
    cluster.job("hourly", misfire="CATCH_UP", catch_up_most=3, **HOURLY)
    away(cluster, 5)

    node.planner.run_round(cluster.now_ms())

    [backfill] = rows(cluster, Backfill)
    newest, oldest = skips(cluster)
    assert (backfill.ticks, backfill.made_by, backfill.selection) == (3, "scheduler", "missing")
    assert (newest.number, oldest.number) == (3, 2)
    assert newest.reason.endswith(f" s late; backfill {backfill.id} runs it")
    assert oldest.reason.endswith("; its job skips what it missed")
    # Only what nobody makes good is told.
    assert len(rows(cluster, Alarm)) == 1

    work_off(cluster, node)

    runs = cluster.runs(kind=Kind.BACKFILL)
    assert [run.scheduled_at for run in runs] == [
        newest.from_at,
        newest.from_at + HOUR_MS,
        newest.to_at,
    ]
    newest, oldest = skips(cluster)
    assert (newest.made_good, newest.made_good_by) == (3, runs[-1].id)
    assert (oldest.made_good, oldest.made_good_by) == (0, None)
    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    assert report.is_sound
    assert [job.skipped for job in report.jobs] == [5]


def test_what_is_too_old_is_only_skipped(cluster: Cluster, node: OpenNode) -> None:
    cluster.job("hourly", misfire="CATCH_UP", catch_up_within=HOUR_MS // 2_000 - 60, **HOURLY)
    away(cluster, 2)

    node.planner.run_round(cluster.now_ms())

    assert rows(cluster, Backfill) == []
    [skip] = skips(cluster)
    assert skip.number == 2
    assert cluster.now_ms() - skip.to_at < DAY_MS


def test_a_run_that_catches_up_fails_if_its_calendar_does_not_know_its_date(
    cluster: Cluster, node: OpenNode
) -> None:
    ended = datetime.fromtimestamp(cluster.now_ms() / 1_000, UTC).date() - timedelta(days=9)
    days = CalendarSpec(name="x", weekend=(), until=ended).resolved(ended)
    acting(cluster.database, cluster.now_ms).calendars.apply("x", days)
    dated = {"run_date_workdays": -1, "run_date_calendar": "x"}
    cluster.job("hourly", misfire="CATCH_UP", **dated, **HOURLY)
    away(cluster, 2)

    node.planner.run_round(cluster.now_ms())
    for _ in range(3):
        node.refill.run_round(cluster.now_ms())

    [backfill] = rows(cluster, Backfill)
    runs = cluster.runs(kind=Kind.BACKFILL)
    filled = cluster.database.read(lambda session: filled_ticks(session, backfill))
    assert (backfill.state, backfill.failed) == ("DONE", 2)
    assert {(run.status, (run.message or "")[:19]) for run in runs} == {
        (RunStatus.FAILED, "no date for the run")
    }
    assert [due.run_id for due in filled] == [run.id for run in runs]


#: What docs/business-day.md promises of five due times that were missed, the last half an hour
#: ago: the job's fields; how many are only skipped, run by a backfill, and run as themselves.
PROMISED: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "all": ({}, (0, 5, 0)),
    "the newest": ({"catch_up_most": 2}, (3, 2, 0)),
    "not longer ago": ({"catch_up_within": 2 * 3_600}, (3, 2, 0)),
    "both": ({"catch_up_within": 2 * 3_600, "catch_up_most": 1}, (4, 1, 0)),
    "none": ({"catch_up_within": 20 * 60}, (5, 0, 0)),
    "the last is not too late": ({"late_limit": 3_600}, (0, 4, 1)),
    "the last and the newest": ({"late_limit": 3_600, "catch_up_most": 2}, (2, 2, 1)),
    "another policy": ({"misfire": "DO_NOTHING"}, (5, 0, 0)),
}


def test_each_missed_due_time_is_skipped_caught_up_or_runs_as_itself(
    cluster: Cluster, node: OpenNode
) -> None:
    caught_up = {"misfire": "CATCH_UP", "catch_up_within": 86_400, "catch_up_most": 100}
    for name, (fields, _) in PROMISED.items():
        cluster.job(name, **HOURLY | caught_up | fields)
    away(cluster, 5)

    node.planner.run_round(cluster.now_ms())
    work_off(cluster, node)

    now_ms, became = cluster.now_ms(), {}
    for job in cluster.jobs():
        runs = [run for run in cluster.runs(job_id=job.id) if run.scheduled_at < now_ms]
        kinds = [run.kind for run in runs]
        skipped = sum(one.number for one in skips(cluster) if one.job_id == job.id)
        filled = kinds.count(Kind.BACKFILL)
        became[job.name] = (skipped - filled, filled, len(kinds) - filled)
    assert became == {name: expected for name, (_, expected) in PROMISED.items()}
