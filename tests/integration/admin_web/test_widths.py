"""Pages with long names, in windows of three widths: nothing is cut off, nothing sticks out."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.support.browser import page_of
from tests.support.console import Clock, add_user, make_app
from tests.support.flow_rows import night
from tests.support.stored_rows import Rows
from warren.admin_web.serving.http_server import ConsoleServer
from warren.sql.accounts.users import Role

LONG = "import-the-prices-of-all-suppliers-from-the-north-and-the-south-without-a-space"
ADDRESS = "executor-7f9c6d5b8-xk2lp.production.svc.cluster.local:9999"
PATHS = (
    "/",
    "/jobs",
    "/jobs/1",
    "/runs",
    "/runs/1",
    "/executors",
    "/apps",
    "/ledger",
    "/audit",
    "/backfills/1000000001",
)
FLOW = "/runs/6"
#: Whatever is wider than its place: the page itself, or a table in its frame.
_WIDER = """
() => [document.documentElement, ...document.querySelectorAll(".scroll")]
  .filter((place) => place.scrollWidth > place.clientWidth + 1)
  .map((place) => `${place.tagName}.${place.className} ${place.scrollWidth}`)
"""


#: Whatever is cut off in a frame, or sticks out of one, though nothing scrolls on paper.
_CUT = """
() => [...document.querySelectorAll("main, main *")]
  .filter((one) => one.clientWidth && getComputedStyle(one).display !== "inline")
  .filter((one) => !one.closest("svg, .visually-hidden"))
  .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 4)
  .map((one) => `${one.tagName}.${one.className} ${one.scrollWidth} x ${one.scrollHeight}`)
"""
#: What is too small to touch, in pixels each way.
_SMALL = """
() => [...document.querySelectorAll("form.jobs :is(a, button, label)")]
  .map((one) => [one.textContent.trim(), one.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.height < 24 || box.width < 24))
  .map(([text, box]) => `${text} ${box.width} x ${box.height}`)
"""
PAPER: ViewportSize = {"width": 718, "height": 1_000}


@pytest.fixture
def site(sqlite_schema_url: str) -> Iterator[str]:
    clock, rows = Clock(), Rows(sqlite_schema_url)
    add_user(rows.database, "alice", Role.ADMINISTRATOR)
    job_id = rows.job(LONG, "reports", schedule_kind="CRON", schedule_value="0 0 2 * * ?")
    rows.job("nightly report", "reports", author="somebody.with.a.long.name@example.com", tags="eu")
    rows.run(job_id, clock.now - 900_000, status="FAILED", log_tail="a line\n" * 100)
    for number, status in enumerate(("RUNNING", "FAILED", "SUCCEEDED", "PLANNED")):
        due = clock.now - 90_000 - number * 60_000
        rows.run(
            job_id,
            due,
            status=status,
            address=ADDRESS,
            started_at=due + 300,
            message="ConnectionError: " + "x" * 300,
        )
    rows.backfill(job_id, clock.now, days=150, decided=150, left_out="0-148")
    flow = night(rows, clock.now)
    assert f"/runs/{flow.run_id}" == FLOW
    load = (
        '{"slots": 8, "running": 3, "waiting": 1, "cpu_percent": 41, "memory_percent": 62, '
        '"handlers": ["noop"]}'
    )
    rows.executor(ADDRESS, clock.now, load)
    server = ConsoleServer(make_app(rows.database, clock), host="127.0.0.1", port=0)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()
    rows.database.close()


@pytest.fixture
def page(chromium: Browser, site: str) -> Iterator[Page]:
    found = page_of(chromium, site, "alice")
    yield found
    found.context.close()


@pytest.mark.parametrize(
    "widths",
    [
        pytest.param((390, 1024), id="a phone and a tablet"),
        pytest.param((900, 1280, 1440), id="the others", marks=pytest.mark.release),
    ],
)
def test_no_table_is_wider_than_its_place_in_any_window(
    page: Page, widths: tuple[int, ...]
) -> None:
    wider = {}

    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        for path in (*PATHS, FLOW):
            page.goto(path)
            if found := page.evaluate(_WIDER):
                wider[path, width] = found

    assert wider == {}


def test_nothing_is_cut_off_on_paper(page: Page) -> None:
    cut = {}

    page.set_viewport_size(PAPER)
    page.emulate_media(media="print")
    for path in (*PATHS, "/runs/2", FLOW):
        page.goto(path)
        if found := page.evaluate(_CUT):
            cut[path] = found

    assert cut == {}


def test_each_tab_stop_of_a_wide_page_can_be_seen(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("/jobs")

    seen = []
    for _ in range(8):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("() => getComputedStyle(document.activeElement).opacity"))

    assert seen == ["1"] * 8


def test_on_a_phone_what_a_job_in_the_list_offers_is_large_enough_to_touch(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})

    page.goto("/jobs")

    assert page.evaluate(_SMALL) == []


def test_on_a_phone_filters_unfold_and_a_run_is_a_few_lines_beside_its_box(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/runs")

    expect(page.get_by_label("App", exact=True)).to_be_hidden()
    rows = [row.bounding_box() for row in page.locator("table.runs tbody tr").all()]
    box = page.get_by_role("checkbox", name="Run 1", exact=True).bounding_box()
    name = page.locator("tr", has=page.locator("input[value='1']")).locator(".run-link")
    name_at = name.bounding_box()
    page.get_by_text("Filters", exact=True).click()

    expect(page.get_by_label("App", exact=True)).to_be_visible()
    assert [row for row in rows if row is None or row["height"] > 200] == []
    assert box is not None
    assert name_at is not None
    assert box["x"] + box["width"] <= name_at["x"]


def test_on_a_phone_a_job_is_two_lines_with_its_buttons(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/jobs")

    row = page.locator("tr", has=page.get_by_role("link", name="nightly report"))
    box = row.bounding_box()

    expect(row.get_by_role("link", name="Run now", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Stop", exact=True).last).to_be_visible()
    assert box is not None
    assert box["height"] < 110


def test_a_question_closes_with_escape_or_cancel_and_gives_the_focus_back(page: Page) -> None:
    page.goto("/executors")
    question = page.locator("summary", has_text="Drain")
    if not page.locator("script[src*='console-']").count():
        pytest.skip("the console's scripts are not built: make console")

    question.click()
    expect(page.get_by_text("This cannot be undone")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")

    expect(page.get_by_text("This cannot be undone")).to_be_hidden()
    expect(question).to_be_focused()
    question.click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("This cannot be undone")).to_be_hidden()
    expect(question).to_be_focused()


def test_jobs_are_suggested_while_a_name_is_typed(page: Page) -> None:
    page.goto("/runs")
    if not page.locator("script[src*='console-']").count():
        pytest.skip("the console's scripts are not built: make console")

    page.get_by_label("Job", exact=True).press_sequentially("nightly r")

    suggested = page.locator("#job-names option")
    expect(suggested).to_have_count(1)
    expect(suggested).to_have_attribute("value", "reports/nightly report")


def test_a_schedule_is_built_of_choices_and_its_next_times_are_shown(page: Page) -> None:
    page.goto("/jobs/new")
    if not page.locator("script[src*='jobs-']").count():
        pytest.skip("the console's scripts are not built: make console")

    page.get_by_label("How often").select_option("week")
    page.get_by_label("Wed", exact=True).check()
    page.get_by_label("At time").fill("06:30")
    page.get_by_role("button", name="Use expression").click()

    expect(page.get_by_label("Cron expression")).to_have_value("0 30 6 ? * MON,WED")
    expect(page.locator("#preview time")).to_have_count(10)


def test_a_job_is_asked_for_what_goes_with_a_choice_that_a_script_makes(page: Page) -> None:
    page.goto("/jobs/new")
    if not page.locator("script[src*='jobs-']").count():
        pytest.skip("the console's scripts are not built: make console")
    choose = """([id, value]) => {
      const choice = document.getElementById(id);
      choice.value = value;
      choice.dispatchEvent(new Event("change", { bubbles: true }));
    }"""

    page.evaluate(choose, ["language", "shell"])
    page.evaluate(choose, ["schedule_kind", "FIX_RATE"])

    expect(page.locator(".for-script")).to_be_visible()
    expect(page.locator(".for-seconds")).to_be_visible()
    for hidden in (".for-handler", ".for-cron", ".for-at"):
        expect(page.locator(hidden)).to_be_hidden()
    page.evaluate(choose, ["language", ""])
    expect(page.locator(".for-handler")).to_be_visible()
    expect(page.locator(".for-script")).to_be_hidden()
