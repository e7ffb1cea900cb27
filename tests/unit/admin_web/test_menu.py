"""The menu: groups of entries, tabs behind some of them, and how much trouble there is."""

import re

from flask import Flask

from tests.support.console import Clock, Visit, signed_in
from tests.support.stored_rows import Rows
from warren.sql.alarms import incidents
from warren.sql.engine import Database
from warren.sql.models import App, FlowJob


def entries(text: str) -> dict[str, str]:
    """Return where the menu leads, and the words of each entry."""
    menu = text.split('<div id="menu"')[1].split('<div class="menu-foot">', maxsplit=1)[0]
    found = re.findall(r'<a href="([^"]+)"[^>]*>(.*?)</a>', menu, re.DOTALL)
    return {url: " ".join(re.sub("<[^>]+>", " ", words).split()) for url, words in found}


def test_four_groups_lead_everywhere(admin: Visit) -> None:
    page = admin.get("/").text

    assert re.findall(r'<h2 id="menu-\d">([^<]+)', page) == ["Watch", "Plan", "Machines", "Govern"]
    assert [*entries(page).values()] == [
        *("Board", "Runs", "Timeline", "Incidents", "Queue"),
        *("Jobs", "Flows", "Backfills", "Calendars", "Limits"),
        *("Executors", "Schedulers"),
        *("Apps & people", "Alarms", "Audit"),
    ]
    for url in entries(page):
        assert admin.get(url).text.count('aria-current="page"') >= 1, url


def test_pages_that_belong_together_are_tabs(admin: Visit, app: Flask) -> None:
    tabs = re.compile(r'<nav class="tabs".*?</nav>', re.DOTALL)
    listed = tabs.search(admin.get("/users").text)
    assert listed is not None
    assert re.findall('href="([^"]+)"', listed[0]) == ["/apps", "/users", "/tokens"]

    viewer = signed_in(app, "viewer")
    assert "/users" not in viewer.get("/apps").text
    assert entries(viewer.get("/").text)["/ledger"] == "Audit"


def test_flows_are_the_jobs_that_are_flows(admin: Visit, rows: Rows, database: Database) -> None:
    flow_id, node_id = rows.job("nightly"), rows.job("load")
    database.write(lambda session: session.add(FlowJob(flow_id=flow_id, job_id=node_id)))

    page = admin.get("/jobs?kind=flow").text

    assert f"/jobs/{flow_id}" in page
    assert f"/jobs/{node_id}" not in page


def test_the_menu_counts_the_trouble_of_the_visitors_apps(
    app: Flask, admin: Visit, rows: Rows, database: Database, clock: Clock
) -> None:
    for name in ("reports", "secrets"):
        job_id = rows.job(f"late-{name}", app=name)
        rows.run(job_id, clock.now - 60_000, app=name)
        rows.executor("gone-1", clock.now - 60_000, "{}", app=name)
        _open_incident(database, job_id, name, clock.now)

    every, own = entries(admin.get("/").text), entries(signed_in(app, "viewer").get("/").text)

    assert every["/incidents"].endswith("Open incidents: 2")
    assert every["/queue"].endswith("Due runs that are waiting: 2")
    assert every["/executors"].endswith("Executors that are gone: 2")
    assert own["/incidents"].endswith("Open incidents: 1")
    assert own["/queue"].endswith("Due runs that are waiting: 1")
    assert own["/executors"].endswith("Executors that are gone: 1")


def _open_incident(database: Database, job_id: int, app: str, now_ms: int) -> None:
    def unit(session: object) -> None:
        app_id = session.query(App.id).filter_by(name=app).scalar()  # type: ignore[attr-defined]
        times = {"due_at": now_ms, "now_ms": now_ms, "remind_ms": now_ms}
        incidents.open_one(
            session,  # type: ignore[arg-type]
            job_id=job_id,
            app_id=app_id,
            rule="longest",
            expected="5m",
            **times,
        )

    database.write(unit)


def test_an_acknowledged_incident_is_no_trouble_until_its_time_is_over(
    admin: Visit, rows: Rows, database: Database, clock: Clock
) -> None:
    job_id = rows.job("late")
    _open_incident(database, job_id, "reports", clock.now)
    admin.post("/incidents/1/ack", {"hours": "1"})

    def count(now_ms: int) -> int:
        return database.read(
            lambda session: incidents.count_unseen(session, None, now_ms=now_ms, most=9)
        )

    assert count(clock.now) == 0
    assert count(clock.now + 3_600_001) == 1
