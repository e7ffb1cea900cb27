"""A person finds what failed last night, runs all of it again, and restores a job, in a browser."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from flask import Flask
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.support.acting import acting
from tests.support.browser import page_of
from tests.support.console import Clock, add_user, make_app
from tests.support.stored_rows import Rows
from warren.admin_web.serving.http_server import ConsoleServer
from warren.admin_web.template_globals import MANIFEST
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.accounts.users import Role

WIDE: ViewportSize = {"width": 1280, "height": 900}


@dataclass
class Shop:
    """A console with failed runs of two jobs."""

    url: str
    app: Flask
    rows: Rows


@pytest.fixture
def shop(sqlite_schema_url: str) -> Iterator[Shop]:
    rows, clock = Rows(sqlite_schema_url), Clock()
    for name in ("nightly-report", "nightly-bill"):
        job_id = rows.job(name, tags="night")
        for number in range(60):
            at = clock.now - 1 - number * 1_000
            rows.run(job_id, at, status="FAILED", message=f"disk {number} full", started_at=at)
    add_user(rows.database, "alice", Role.ADMINISTRATOR)
    app = make_app(rows.database, clock)
    server = ConsoleServer(app, host="127.0.0.1", port=0)
    server.start()
    yield Shop(f"http://127.0.0.1:{server.port}", app, rows)
    server.stop()
    rows.database.close()


@pytest.fixture
def page(chromium: Browser, shop: Shop) -> Iterator[Page]:
    found = page_of(chromium, shop.url, "alice", viewport=WIDE)
    yield found
    found.context.close()


def test_what_failed_is_found_by_its_error_and_run_again(page: Page) -> None:
    page.goto("/runs/errors")

    page.get_by_role("row", name="nightly-report").get_by_role("link", name="60").click()
    expect(page.get_by_text("60 runs match")).to_be_visible()
    page.get_by_label("All matching runs").check()
    page.get_by_role("button", name="Run again").click()
    page.get_by_role("button", name="Run 60 again").click()

    expect(page.get_by_text("Queued again: 60")).to_be_visible()
    page.get_by_role("link", name="Show the new runs").click()
    expect(page.get_by_text("60 runs match")).to_be_visible()


def test_a_saved_filter_leads_to_queued_runs_that_are_killed_together(
    page: Page, shop: Shop
) -> None:
    job_id = shop.rows.job("mailing")
    for number in range(3):
        shop.rows.run(job_id, Clock().now - 1 - number * 1_000, status="PLANNED")
    page.goto("/runs?status=PLANNED")
    page.get_by_text("Saved filters …").click()
    page.get_by_label("Save this filter as").fill("What waits")
    page.get_by_role("button", name="Save", exact=True).click()

    page.goto("/runs")
    page.get_by_role("link", name="What waits").click()
    expect(page).to_have_url(re.compile("status=PLANNED"))
    page.get_by_label("All matching runs").check()
    page.get_by_role("button", name="Kill").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Kill 3 runs?")
    page.get_by_role("button", name="Kill 3").click()

    expect(page.get_by_text("Killed, cancelled or kill requested: 3")).to_be_visible()
    page.goto("/runs?job=reports/mailing")
    expect(page.get_by_role("cell", name="cancelled", exact=True)).to_have_count(3)


def test_the_keyboard_alone_leads_to_a_job(page: Page) -> None:
    if not MANIFEST.exists():
        pytest.skip("the console's scripts are not built: make console")
    page.goto("/")

    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox")
    expect(box).to_be_focused()
    page.keyboard.type("bill")
    expect(
        page.get_by_role("option", name="reports/nightly-bill Job", exact=True)
    ).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1)).to_have_text("nightly-bill")


def test_the_arrow_keys_walk_the_timeline_and_enter_opens_a_run(page: Page) -> None:
    if not MANIFEST.exists():
        pytest.skip("the console's scripts are not built: make console")
    page.goto("/timeline?zoom=1")
    bars = page.locator("tr", has=page.locator(".span-row a")).first.locator(".span-row a")
    told = page.locator("[data-span-told]")

    bars.first.focus()
    page.keyboard.press("End")
    expect(bars.last).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(bars.nth(-2)).to_be_focused()
    words = told.text_content()
    page.keyboard.press("ArrowDown")
    expect(told).not_to_have_text(words or "")
    target = page.evaluate("document.activeElement.getAttribute('href')")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(f"{re.escape(target)}$"))


def test_a_stop_of_two_jobs_is_undone_where_it_was_made(page: Page, shop: Shop) -> None:
    for name in ("hourly-sum", "hourly-mail"):
        shop.rows.job(name, schedule_kind="CRON", schedule_value="0 0 * * * ?")
    page.goto("/jobs?name=hourly")

    for action in ("Start", "Stop"):
        for name in ("hourly-sum", "hourly-mail"):
            page.get_by_label(name, exact=True).check()
        page.get_by_role("group", name="Selected jobs").get_by_role("button", name=action).click()
        expect(page.get_by_role("status").filter(has_text="2 jobs")).to_contain_text(action.lower())
    page.get_by_role("button", name="Undo").click()

    expect(page.get_by_text("Started again: 2")).to_be_visible()


def test_a_deleted_job_is_restored_whatever_was_typed_into_a_new_one(
    page: Page, shop: Shop
) -> None:
    if not MANIFEST.exists():
        pytest.skip("the console's scripts are not built: make console")
    commands = acting(shop.rows.database, Clock().now_ms).jobs
    gone = commands.create(JobSpec(name="monthly", app="reports", handler="report.monthly"))
    commands.delete([gone])
    page.goto("/jobs/new")
    page.get_by_label("Name", exact=True).fill("something else")
    page.get_by_label("Handler", exact=True).fill("other")
    page.wait_for_function("Object.keys(sessionStorage).length > 0")

    page.goto(f"/jobs/{gone}/history")
    page.get_by_role("link", name="Restore").first.click()
    expect(page.get_by_label("Handler", exact=True)).to_have_value("report.monthly")
    expect(page.get_by_label("Name", exact=True)).to_have_value("monthly")
    page.get_by_role("button", name="Create job").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("monthly")
