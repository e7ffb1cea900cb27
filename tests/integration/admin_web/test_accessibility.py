"""What axe-core finds on every page, with everything opened that opens, in both themes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.support.acting import acting
from tests.support.browser import page_of
from tests.support.console import Clock, add_user, make_app
from tests.support.flow_rows import night
from tests.support.sample_app import SampleApp, add_sample_app
from tests.support.stored_rows import Rows
from warren import admin_web
from warren.admin_web.services import FlowTexts
from warren.admin_web.serving.http_server import ConsoleServer
from warren.admin_web.template_globals import MANIFEST
from warren.sql.accounts.idempotency import FormKey
from warren.sql.accounts.users import Role
from warren.wiring.web import read_flow_text, write_flow_text

AXE = Path(admin_web.__file__).parent / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE_MS = 60_000
WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}

pytestmark = pytest.mark.skipif(
    not (MANIFEST.exists() and AXE.exists()),
    reason="the console's scripts are not built: make console",
)

#: A page of each kind.
COMMON_PATHS = (
    "/",
    "/jobs?name=some",
    "/jobs/{job_id}",
    "/jobs/{job_id}/edit",
    "/jobs/{job_id}/trigger",
    "/runs?period=hour",
    "/runs/{run_id}",
    "/runs/{flow_run_id}",
    "/runs/{shard_id}/shards",
    "/jobs/{flow_id}/edit",
    "/timeline",
    "/executors/{executor_id}",
    "/backfills/{backfill_id}",
    "/users/{user_id}",
    "/audit",
)
#: All others; looking at a page costs a second.
OTHER_PATHS = (
    "/jobs/new",
    "/jobs/{job_id}/history",
    "/jobs/{job_id}/copy",
    "/jobs/ask-delete?id={job_id}&id={script_id}",
    "/runs/errors",
    "/runs/{long_run_id}",
    "/jobs/{flow_id}",
    "/runs/{run_id}/log",
    "/runs/{long_run_id}/log/difference",
    "/runs/clear",
    "/glue/{script_id}",
    "/glue/{script_id}/versions/{version_id}",
    "/glue/{script_id}/compare?old={former_version_id}&new={version_id}",
    "/glue/{script_id}/compare?old={former_version_id}&new={version_id}&view=side",
    "/apps",
    "/apps/new",
    "/apps/{app_id}",
    "/executors",
    "/schedulers",
    "/schedulers/pause/ask",
    "/apps/{app_id}/pause/ask",
    "/ledger",
    "/backfills",
    "/jobs/{job_id}/backfill",
    "/jobs/{job_id}/gaps",
    "/tokens",
    "/cli",
    "/cli/done?outcome=allowed",
    "/users",
    "/users/new",
    "/account",
    "/find",
    "/nothing",
)
#: Nobody looks, so no part is fetched again while axe is at work.
_HIDDEN = "Object.defineProperty(document, 'hidden', { get: () => true })"
#: Details of one name would close each other.
_OPEN = """
() => document.querySelectorAll("details").forEach((one) => {
  one.removeAttribute("name");
  one.open = true;
})
"""
#: A form or a block within text, which browsers take apart.
_NESTED = """
() => [...document.querySelectorAll(":is(span, p) :is(form, div, p, ul, table, section)")]
  .map((one) => one.outerHTML.slice(0, 120))
"""
_LOOK = """
async (rules) => {
  const options = rules ? { runOnly: { type: "rule", values: rules } } : {};
  const found = await axe.run(document, { ...options, resultTypes: ["violations"] });
  return found.violations.flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.html}`));
}
"""


@pytest.fixture
def site(sqlite_schema_url: str) -> Iterator[tuple[str, SampleApp]]:
    clock, rows = Clock(), Rows(sqlite_schema_url)
    made = add_sample_app(rows, "reports", lambda field: f"some-{field}", clock.now)
    made.ids["former_version_id"] = made.ids["version_id"] - 1
    runs = []
    for number, status in enumerate(("RUNNING", "FAILED", "SUCCEEDED", "PLANNED")):
        due = clock.now - 90_000 - number * 60_000
        facts = {"status": status, "started_at": due + 300, "message": "full"}
        runs.append(rows.run(made.ids["job_id"], due, **facts))
    long = {"log_tail": "a line\n" * 100, "message": "a line\n" * 100, "param": "a line\n" * 100}
    made.ids["long_run_id"] = rows.run(
        made.ids["job_id"], clock.now - 600_000, status="FAILED", **long
    )
    rows.run(
        made.ids["job_id"], clock.now - 700_000, status="SUCCEEDED", log_tail="a line\nanother"
    )
    for shard, status in enumerate(("FAILED", "RUNNING")):
        made.ids["shard_id"] = rows.run(
            made.ids["job_id"],
            clock.now - 800_000,
            status=status,
            shard_index=shard,
            shard_total=2,
            address="host-1:9999",
        )
    rows.skip(made.ids["job_id"], clock.now - 900_000, count=1, reason="misfired")
    flow = night(rows, clock.now)
    flow.over("FAILED")
    made.ids |= {"flow_id": flow.job_id, "flow_run_id": flow.run_id}
    rows.job("tagged", tags="nightly,eu", is_enabled=1, schedule_kind="CRON")
    form = FormKey(user_id=1, key="form")
    list(
        acting(rows.database, clock.now_ms).bulk_runs.again(runs, form)
    )  # the audit log links them
    load = '{"slots": 8, "running": 3, "waiting": 1, "cpu_percent": 41, "memory_percent": 62}'
    rows.executor("host-1:9999", clock.now, load)
    add_user(rows.database, "alice", Role.ADMINISTRATOR)
    texts = FlowTexts(read=read_flow_text, write=write_flow_text)
    app = make_app(rows.database, clock, flow_texts=texts)
    server = ConsoleServer(app, host="127.0.0.1", port=0)
    server.start()
    yield f"http://127.0.0.1:{server.port}", made
    server.stop()
    rows.database.close()


@pytest.fixture
def page(chromium: Browser, site: tuple[str, SampleApp]) -> Iterator[Page]:
    found = page_of(chromium, site[0], "alice", viewport=WIDE, reduced_motion="reduce")
    found.context.add_init_script(_HIDDEN)
    found.set_default_timeout(PATIENCE_MS)
    yield found
    found.context.close()


def violations(page: Page) -> list[Any]:
    """Return what is wrong with a page in the light theme, and with the colours of the dark one."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text())
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    found = list(page.evaluate(_LOOK, None))
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    return found + [f"dark {one}" for one in page.evaluate(_LOOK, ["color-contrast"])]


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(COMMON_PATHS, id="a page of each kind"),
        pytest.param(OTHER_PATHS, id="all others", marks=pytest.mark.release),
    ],
)
def test_no_page_has_a_violation_and_on_a_phone_what_is_touched_is_large_enough(
    page: Page, site: tuple[str, SampleApp], paths: tuple[str, ...]
) -> None:
    """Each page is loaded once, on a phone: loading it is most of what looking at it costs."""
    wrong = {}

    for path in paths:
        page.set_viewport_size(PHONE)
        page.goto(path.format(**site[1].ids))
        page.evaluate(AXE.read_text())
        small = page.evaluate(_LOOK, ["target-size"])
        page.set_viewport_size(WIDE)
        page.evaluate(_OPEN)
        if found := small + violations(page) + page.evaluate(_NESTED):
            wrong[path] = found

    assert wrong == {}


def test_no_dialog_or_question_has_a_violation(page: Page, site: tuple[str, SampleApp]) -> None:
    wrong = {}

    page.goto("/jobs")
    page.keyboard.press("Control+k")
    page.keyboard.type("some")
    expect(page.get_by_role("dialog").get_by_role("option").first).to_be_visible()
    wrong["find"] = violations(page)
    page.goto(f"/glue/{site[1].ids['script_id']}")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+f")
    expect(page.locator(".cm-search")).to_be_visible()
    wrong["search in a script"] = violations(page)
    page.goto(f"/executors/{site[1].ids['executor_id']}#drain")
    expect(page.get_by_role("button", name="Drain executor")).to_be_visible()
    wrong["drain an executor that the URL asks about"] = violations(page)
    page.goto("/runs")
    page.get_by_label("All matching runs").check()
    page.get_by_role("button", name="Kill").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Kill")
    wrong["kill many"] = violations(page)
    page.get_by_role("button", name="Kill").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Killing runs")
    wrong["killed many"] = violations(page)
    page.goto("/jobs")
    page.get_by_label("All matching jobs").check()
    page.get_by_role("button", name="Stop").first.click()
    wrong["stop many"] = violations(page)
    page.set_viewport_size(PHONE)
    page.goto("/runs")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Show the menu").check(force=True)
    wrong["menu and filters on a phone"] = violations(page)

    page.context.clear_cookies()
    page.goto("/login")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    wrong["sign in"] = violations(page)

    assert {name: found for name, found in wrong.items() if found} == {}
