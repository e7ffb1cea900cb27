"""Flows in a browser: drawn while they are typed, and followed while they run."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import update

from tests.support.browser import page_of
from tests.support.console import Clock, add_user, make_app
from tests.support.flow_rows import FlowRows
from tests.support.stored_rows import Rows
from warren.admin_web.services import FlowTexts
from warren.admin_web.serving.http_server import ConsoleServer
from warren.admin_web.template_globals import MANIFEST
from warren.sql.accounts.users import Role
from warren.sql.models import FlowNode
from warren.wiring.web import read_flow_text, write_flow_text

pytestmark = pytest.mark.skipif(
    not MANIFEST.exists(), reason="the console's scripts are not built: make console"
)
CHAIN = {f"n{k}": {"job": "load"} | ({"after": f"n{k - 1}"} if k else {}) for k in range(9)}


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    add_user(rows.database, "alice", Role.ADMINISTRATOR)
    rows.app("reports")
    yield rows
    rows.database.close()


@pytest.fixture
def page(chromium: Browser, rows: Rows) -> Iterator[Page]:
    texts = FlowTexts(read=read_flow_text, write=write_flow_text)
    app = make_app(rows.database, Clock(), flow_texts=texts)
    server = ConsoleServer(app, host="127.0.0.1", port=0)
    server.start()
    found = page_of(chromium, f"http://127.0.0.1:{server.port}", "alice")
    yield found
    found.context.close()
    server.stop()


def test_a_flow_is_drawn_while_it_is_typed_and_stays_where_it_was_scrolled_while_it_runs(
    page: Page, rows: Rows
) -> None:
    flow = FlowRows(rows, Clock().now - 9_000, CHAIN, status="RUNNING")
    flow.open(n0={"shards": 1, "begun_at": Clock().now - 9_000})
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))

    page.goto("/jobs/new")
    expect(page.locator("#flow")).to_be_hidden()
    page.get_by_label("Job type").select_option("FLOW")
    expect(page.locator("#handler")).to_be_hidden()
    page.locator("#flow").fill("a: {job: load}\nb: {job: load, after: a}")
    expect(page.locator("#flow-preview g.node")).to_have_count(2)
    page.locator("#flow").fill("a: {job: load}\nb: {job: load, after: c}")
    expect(page.locator("#flow-preview")).to_contain_text("Line 2: node b runs after 'c'")

    page.goto(f"/runs/{flow.run_id}")
    frame = page.locator("#flow-graph")
    frame.evaluate("frame => { frame.scrollLeft = 200; }")
    over = {"outcome": "SUCCEEDED", "ended_at": Clock().now}
    ended = update(FlowNode).where(FlowNode.id == flow.nodes["n0"]).values(**over)
    rows.database.write(lambda session: session.execute(ended))
    expect(page.locator("g.node.good", has_text="n0")).to_be_attached()
    assert frame.evaluate("frame => frame.scrollLeft") == 200
    assert broken == []
