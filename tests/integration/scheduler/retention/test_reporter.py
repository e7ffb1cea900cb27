"""The day report: counted right after a start, across midnight, and corrected later."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.sql_rows import new_run, plan, put, statements
from warren.scheduler.retention.clearing import CalendarDays
from warren.scheduler.retention.reporter import POLL_SECONDS, Reporter
from warren.sql.instants import at
from warren.sql.models import AppDay, DayReport
from warren.sql.registry.cluster import LEASE_MS
from warren.sql.run_status import RunStatus
from warren.sql.runs import day_reports, purges
from warren.sql.runs.day_reports import Cleared, Counts

#: A quarter past three in the morning in Shanghai; the day before in UTC.
NOW = int(datetime(2026, 11, 19, 19, 15, tzinfo=UTC).timestamp() * 1000)
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
SUCCEEDED, FAILED = RunStatus.SUCCEEDED, RunStatus.FAILED
NewReporter = Callable[..., Reporter]


@pytest.fixture
def reporter(cluster: Cluster) -> NewReporter:
    """Makes reporters whose rounds take no time, by their own clock."""

    def make(node: str = "one", **options: Any) -> Reporter:
        zone = "Asia/Shanghai"
        facts = {"monotonic": lambda: 0.0} | options
        return Reporter(node=node, database=cluster.database, timezone=zone, **facts)

    return make


def runs(cluster: Cluster, at_ms: int, *statuses: RunStatus) -> list[int]:
    """Make runs that came due at an instant."""
    new = [
        new_run(scheduled_at=at_ms, due_at=at_ms, origin_id=at_ms + number, job_id=number + 1)
        for number in range(len(statuses))
    ]
    run_ids = plan(cluster.database, *new)
    for run_id, status in zip(run_ids, statuses, strict=True):
        put(cluster.database, [run_id], status=status)
    return run_ids


def report(cluster: Cluster) -> dict[str, tuple[int, int, int]]:
    """By day: running, succeeded, failed."""

    def read(session: Any) -> dict[str, tuple[int, int, int]]:
        rows = session.execute(select(DayReport).order_by(DayReport.day)).scalars()
        return {
            row.day.date().isoformat(): (row.running, row.succeeded, row.failed) for row in rows
        }

    return cluster.database.read(read)


def by_app(cluster: Cluster, app_ids: list[int] | None) -> dict[str, tuple[int, int, int]]:
    """By day, of some apps: running, succeeded, failed."""
    first, last = date(2026, 1, 1), date(2026, 12, 31)
    found = cluster.database.read(lambda s: day_reports.of_days(s, app_ids, first, last))
    return {
        day.isoformat(): (counts.running, counts.succeeded, counts.failed)
        for day, counts in sorted(found.items())
    }


def test_each_app_has_a_part_of_the_day_and_all_of_them_make_the_day(
    cluster: Cluster, reporter: NewReporter
) -> None:
    shop = runs(cluster, NOW - HOUR, SUCCEEDED, FAILED, RunStatus.RUNNING, RunStatus.CANCELLED)
    mails = runs(cluster, NOW - HOUR + 1_000, SUCCEEDED, SUCCEEDED)
    late = runs(cluster, NOW - DAY, FAILED)
    put(cluster.database, shop, app_id=7)
    put(cluster.database, [*mails, *late], app_id=8)
    one = reporter()

    one.run_round(NOW)

    assert by_app(cluster, [7]) == {"2026-11-19": (0, 0, 0), "2026-11-20": (1, 1, 1)}
    assert by_app(cluster, [8]) == {"2026-11-19": (0, 0, 1), "2026-11-20": (0, 2, 0)}
    assert by_app(cluster, [7, 8, 9]) == by_app(cluster, None) == report(cluster)
    assert by_app(cluster, []) == {"2026-11-19": (0, 0, 0), "2026-11-20": (0, 0, 0)}

    put(cluster.database, shop, status=RunStatus.CANCELLED)
    one.run_round(NOW + 10 * MINUTE)
    assert by_app(cluster, [7])["2026-11-20"] == (0, 0, 0)
    assert report(cluster)["2026-11-20"] == (0, 2, 0)


def test_what_is_cleared_of_an_app_stays_in_its_part(
    cluster: Cluster, reporter: NewReporter
) -> None:
    shop, mails = (
        runs(cluster, NOW - HOUR, SUCCEEDED, FAILED, FAILED),
        runs(cluster, NOW - HOUR + 1_000, SUCCEEDED),
    )
    put(cluster.database, shop, app_id=7)
    put(cluster.database, mails, app_id=8)
    one, days = reporter(), CalendarDays("Asia/Shanghai")
    one.run_round(NOW)

    for chunk in (shop[:2], mails):
        cluster.database.write(
            lambda session, ids=chunk: purges.clear(
                session, ids, by="tests", now_ms=NOW, day_of=days.of
            )
        )
    one.run_round(NOW + 10 * MINUTE)
    reporter("two").run_round(NOW + 10 * MINUTE + LEASE_MS)

    assert by_app(cluster, [7]) == {"2026-11-20": (0, 1, 2)}
    assert by_app(cluster, [8]) == {"2026-11-20": (0, 1, 0)}
    assert report(cluster) == {"2026-11-20": (0, 2, 2)}


@on_memory
def test_days_that_were_counted_before_apps_were_told_apart_are_counted_anew(
    cluster: Cluster, reporter: NewReporter
) -> None:
    """What the migration does: without a time of counting no day is settled."""
    runs(cluster, NOW - 5 * DAY, SUCCEEDED, FAILED)
    reporter().run_round(NOW)

    def forget(session: Any) -> None:
        session.execute(delete(AppDay))
        session.execute(
            update(DayReport).values(update_time=None, cleared_succeeded=40, succeeded=41)
        )

    cluster.database.write(forget)
    reporter("two").run_round(NOW + LEASE_MS)

    assert by_app(cluster, [1])["2026-11-15"] == (0, 1, 1)
    assert report(cluster)["2026-11-15"] == (0, 41, 1)


def test_each_status_is_counted_where_xxl_job_counts_it_and_cancelled_nowhere(
    cluster: Cluster, reporter: NewReporter
) -> None:
    runs(cluster, NOW - HOUR, *RunStatus)

    reporter().run_round(NOW)

    assert report(cluster) == {"2026-11-20": (4, 1, 6)}
    [counts] = cluster.database.read(
        lambda s: day_reports.of_days(s, None, date(2026, 11, 20), date(2026, 11, 20))
    ).values()
    assert (counts.skipped, counts.total) == (1, len(RunStatus) - 1)


@on_memory
def test_days_are_those_of_the_zone(cluster: Cluster, reporter: NewReporter) -> None:
    midnight = NOW - 3 * HOUR - 15 * MINUTE
    runs(cluster, midnight - 1_000, SUCCEEDED)
    runs(cluster, midnight, FAILED, FAILED)

    one = reporter()
    one.run_round(NOW)

    assert report(cluster) == {"2026-11-19": (0, 1, 0), "2026-11-20": (0, 0, 2)}


@on_memory
def test_today_has_a_report_before_anything_has_run(
    cluster: Cluster, reporter: NewReporter
) -> None:
    reporter().run_round(NOW)

    assert report(cluster) == {"2026-11-20": (0, 0, 0)}


@on_memory
def test_what_is_due_later_today_is_counted_when_its_time_comes(
    cluster: Cluster, reporter: NewReporter
) -> None:
    runs(cluster, NOW + HOUR, RunStatus.PLANNED)
    one = reporter()

    one.run_round(NOW)
    assert report(cluster)["2026-11-20"] == (0, 0, 0)

    one.run_round(NOW + HOUR)
    assert report(cluster)["2026-11-20"] == (1, 0, 0)


@on_memory
def test_what_is_due_in_a_moment_is_not_running_yet(
    cluster: Cluster, reporter: NewReporter
) -> None:
    for seconds in (0, 1, 3, 240, 299, 300, 560):
        runs(cluster, NOW + seconds * 1_000, RunStatus.PLANNED)
    one = reporter()

    one.run_round(NOW)
    assert report(cluster)["2026-11-20"] == (1, 0, 0)

    one.run_round(NOW + 5 * MINUTE)
    assert report(cluster)["2026-11-20"] == (6, 0, 0)


def test_a_run_that_ends_hours_later_is_corrected(cluster: Cluster, reporter: NewReporter) -> None:
    [run_id, _] = runs(cluster, NOW - HOUR, RunStatus.RUNNING, SUCCEEDED)
    one = reporter()
    one.run_round(NOW)
    assert report(cluster)["2026-11-20"] == (1, 1, 0)

    put(cluster.database, [run_id], status=FAILED)
    one.run_round(NOW + 2 * HOUR)

    assert report(cluster)["2026-11-20"] == (0, 1, 1)


@on_memory
def test_a_run_over_midnight_is_corrected_in_the_report_of_its_day_days_later(
    cluster: Cluster, reporter: NewReporter
) -> None:
    [run_id] = runs(cluster, NOW, RunStatus.RUNNING)
    reporter().run_round(NOW)

    # Other schedulers, after the day has long been over.
    reporter("two").run_round(NOW + 5 * DAY)
    put(cluster.database, [run_id], status=SUCCEEDED)
    reporter("two").run_round(NOW + 6 * DAY)

    assert report(cluster)["2026-11-20"] == (0, 1, 0)


@on_memory
def test_the_last_seconds_before_midnight_are_in_the_report_of_their_day(
    cluster: Cluster, reporter: NewReporter
) -> None:
    midnight = NOW + 20 * HOUR + 45 * MINUTE
    one = reporter()
    one.run_round(midnight - 10_000)
    runs(cluster, midnight - 1_000, SUCCEEDED)

    one.run_round(midnight + 5_000)

    assert report(cluster) == {"2026-11-20": (0, 1, 0), "2026-11-21": (0, 0, 0)}


@on_memory
def test_after_a_week_away_today_comes_first_and_every_day_follows(
    cluster: Cluster, reporter: NewReporter
) -> None:
    for days in range(4):
        runs(cluster, NOW - days * DAY, SUCCEEDED)
    one = reporter(round_seconds=-1.0)

    one.run_round(NOW)
    assert list(report(cluster)) == ["2026-11-19", "2026-11-20"]

    for round_number in range(1, 4):
        one.run_round(NOW + round_number * 10_000)
    assert report(cluster) == {
        "2026-11-17": (0, 1, 0),
        "2026-11-18": (0, 1, 0),
        "2026-11-19": (0, 1, 0),
        "2026-11-20": (0, 1, 0),
    }


@on_memory
def test_an_hour_that_the_clock_had_skipped_and_comes_after_all_is_counted(
    cluster: Cluster, reporter: NewReporter
) -> None:
    one = reporter()
    one.run_round(NOW)
    one.run_round(NOW + HOUR)

    runs(cluster, NOW + 10 * MINUTE, SUCCEEDED)
    one.run_round(NOW + 20 * MINUTE)

    assert report(cluster)["2026-11-20"] == (0, 1, 0)


@on_memory
def test_what_is_over_is_not_counted_again(cluster: Cluster, reporter: NewReporter) -> None:
    for minutes in range(0, 180, 5):
        runs(cluster, NOW - minutes * MINUTE, SUCCEEDED)
    runs(cluster, NOW - 40 * DAY, SUCCEEDED)
    one = reporter()
    for round_number in range(3):
        one.run_round(NOW + round_number * 250_000)

    with statements(cluster.database) as sent:
        one.run_round(NOW + 510_000)

    assert sum("GROUP BY" in words for words, _ in sent) <= 3


def test_what_is_cleared_stays_in_the_report(cluster: Cluster, reporter: NewReporter) -> None:
    day = date(2026, 11, 20)
    run_ids = runs(cluster, NOW - HOUR, SUCCEEDED, FAILED, FAILED)
    one = reporter()
    one.run_round(NOW)

    def clear(session: Any) -> None:
        for run_id in run_ids[:2]:
            session.delete(session.get_one(day_reports.Run, run_id))
        day_reports.note_cleared(session, {day: {1: Counts(0, 1, 1)}})

    cluster.database.write(clear)
    one.run_round(NOW + 10_000)
    assert report(cluster)["2026-11-20"] == (0, 1, 2)

    reporter("two").run_round(NOW + 10_000 + LEASE_MS)
    assert report(cluster)["2026-11-20"] == (0, 1, 2)


def test_a_count_during_which_runs_were_cleared_is_not_written(cluster: Cluster) -> None:
    day = date(2026, 11, 20)
    database = cluster.database

    def store(counted: Counts, already_cleared: Cleared) -> bool:
        return database.write(
            lambda session: day_reports.store(
                session, day, {7: counted}, already_cleared=already_cleared, at=at(NOW)
            )
        )

    assert store(Counts(0, 5, 0), Cleared())
    database.write(lambda session: day_reports.note_cleared(session, {day: {7: Counts(0, 3, 0)}}))

    assert not store(Counts(0, 5, 0), Cleared())
    assert report(cluster) == {"2026-11-20": (0, 5, 0)}
    gone = database.read(lambda session: day_reports.cleared(session, day))
    assert gone == (Counts(0, 3, 0), {7: Counts(0, 3, 0)})
    assert store(Counts(0, 2, 0), gone)
    assert report(cluster) == {"2026-11-20": (0, 5, 0)}
    assert by_app(cluster, [7]) == {"2026-11-20": (0, 5, 0)}


def test_one_scheduler_counts_and_another_goes_on_when_it_has_left(
    cluster: Cluster, reporter: NewReporter
) -> None:
    one, two = reporter("one"), reporter("two")
    one.run_round(NOW)
    runs(cluster, NOW, SUCCEEDED)

    assert two.run_round(NOW + 1_000) == POLL_SECONDS
    assert report(cluster)["2026-11-20"] == (0, 0, 0)

    one.leave()
    two.run_round(NOW + 2_000)
    assert report(cluster)["2026-11-20"] == (0, 1, 0)


@on_memory
def test_another_goes_on_when_the_one_that_counted_has_died(
    cluster: Cluster, reporter: NewReporter
) -> None:
    reporter("dead").run_round(NOW)
    runs(cluster, NOW, SUCCEEDED)

    reporter("heir").run_round(NOW + LEASE_MS)

    assert report(cluster)["2026-11-20"] == (0, 1, 0)


@on_memory
def test_counting_takes_a_small_part_of_the_time(cluster: Cluster, reporter: NewReporter) -> None:
    elapsed = iter([0.0, 0.0, 2.0])
    one = reporter(monotonic=lambda: next(elapsed))

    one.run_round(NOW)
    runs(cluster, NOW, SUCCEEDED)
    one.run_round(NOW + 39_000)

    assert report(cluster)["2026-11-20"] == (0, 0, 0)


def test_a_scheduler_keeps_the_report_by_itself(cluster: Cluster) -> None:
    first = cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    cluster.job("one")
    cluster.wait_final(cluster.trigger("one"))

    cluster.schedulers.remove(first)
    first.stop()
    cluster.scheduler()  # it counts at once

    eventually(lambda: (0, 1, 0) in report(cluster).values())
