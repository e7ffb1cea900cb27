"""Console and API show days in the schedulers' zone, whatever zone their own process has."""

import re
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.api import Program, make_token
from tests.support.console import SECRET, Clock, make_app, signed_in
from tests.support.stored_rows import Rows
from warren.admin_web.api.application import create_api
from warren.admin_web.app import create_app
from warren.scheduler.membership.self_health import ClusterZone
from warren.scheduler.retention.clearing import CalendarDays
from warren.settings.settings import Settings
from warren.sql.instants import at
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import Cleared, Counts
from warren.wiring import console, web

#: Zones whose clocks never show the same day.
FAR_WEST, FAR_EAST = "Pacific/Pago_Pago", "Pacific/Kiritimati"


@pytest.fixture
def rows(rows: Rows) -> Rows:
    """A scheduler in the far west."""
    rows.scheduler("one", 1, zone=FAR_WEST)
    return rows


@pytest.fixture
def wired(rows: Rows, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what a process of the far east would be started with."""
    monkeypatch.setattr(console, "Console", lambda services, *_, **__: services)
    monkeypatch.setattr(web, "Api", lambda services, *_, **__: services)
    parts: Any = SimpleNamespace(
        settings=Settings(timezone=FAR_EAST),
        database=rows.database,
        clock=clock,
        link=SimpleNamespace(is_ready=bool, requester=None),
        secret=SECRET,
    )
    return lambda make: make(parts, port=0)


def test_a_consoles_days_are_those_of_the_schedulers(wired: Any, rows: Rows, clock: Clock) -> None:
    day, job_id = count_today(rows, clock, FAR_WEST), rows.job("nightly")
    rows.run(job_id, clock.now, status="SUCCEEDED")
    visit = signed_in(create_app(wired(console.make_console)), "viewer")

    dashboard = visit.get("/overview").text
    job = visit.get(f"/jobs/{job_id}").text

    assert '<p class="number"><a href="/runs">7</a></p>' in dashboard
    assert labels("Runs today|Runs per day|Day", dashboard) == [FAR_WEST] * 3
    assert labels("The last 90 days", job) == [FAR_WEST]
    assert f"<title>{day} · 1 succeeded" in job


def count_today(rows: Rows, clock: Clock, zone: str) -> date:
    """Store a report of a zone's day with 7 runs."""
    day, app_id = CalendarDays(zone).of(at(clock.now)), rows.app()
    rows.database.write(
        lambda session: day_reports.store(
            session, day, {app_id: Counts(0, 7, 0)}, already_cleared=Cleared(), at=at(clock.now)
        )
    )
    return day


def labels(titles: str, page: str) -> list[str]:
    """Return the zones beside these titles."""
    return re.findall(rf'(?:{titles}) <span class="quiet">(.*?)</span>', page)


def test_an_apis_days_are_those_of_the_schedulers(wired: Any, rows: Rows, clock: Clock) -> None:
    day = count_today(rows, clock, FAR_WEST)
    token = make_token(rows.database, clock)
    program = Program(create_api(wired(web.make_api)), token)

    answer: Any = program.get("/reports/days").json

    assert answer["timezone"] == FAR_WEST
    assert [one["day"] for one in answer["items"]] == [day.isoformat()]


def test_a_scheduler_that_starts_in_another_zone_brings_it_along(rows: Rows, clock: Clock) -> None:
    zone = ClusterZone(rows.database, "UTC")
    visit = signed_in(make_app(rows.database, clock, cluster_zone=zone.name), "viewer")
    rows.scheduler("two", 2, zone=FAR_EAST)

    zone.run_round()

    assert labels("Runs per day", visit.get("/overview").text) == [FAR_EAST]


def test_the_last_zone_stays_while_no_scheduler_is_registered(rows: Rows) -> None:
    zone = ClusterZone(rows.database, "UTC")
    rows.forget_schedulers()

    zone.run_round()

    assert zone.name() == FAR_WEST
    assert ClusterZone(rows.database, "UTC").name() == "UTC"
