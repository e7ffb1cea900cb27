"""An administrator disables somebody, on a phone, in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.support.browser import page_of, sign_in
from tests.support.console import PASSWORD, Clock, add_user, make_app
from warren.admin_web.serving.http_server import ConsoleServer
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.registry import apps

PHONE: ViewportSize = {"width": 390, "height": 800}


@pytest.fixture
def url(sqlite_schema_url: str) -> Iterator[str]:
    database = Database(sqlite_schema_url)
    database.write(lambda session: apps.ensure(session, "reports"))
    add_user(database, "alice", Role.ADMINISTRATOR)
    add_user(database, "victor", Role.VIEWER, "reports")
    server = ConsoleServer(make_app(database, Clock()), host="127.0.0.1", port=0)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()
    database.close()


def test_who_is_disabled_is_asked_to_sign_in_at_the_next_click(chromium: Browser, url: str) -> None:
    victor, alice = (page_of(chromium, url, name, viewport=PHONE) for name in ("victor", "alice"))
    alice.goto("/users")
    alice.get_by_role("link", name="victor").click()

    alice.locator("summary", has_text="Disable").click()
    box = alice.locator(".confirm-box", has_text="Disable victor?")
    expect(box).to_be_visible()
    question = box.bounding_box()
    alice.get_by_role("button", name="Disable user").click()

    expect(alice.get_by_text("User victor disabled.")).to_be_visible()
    assert question is not None
    assert question["x"] >= 0
    assert question["x"] + question["width"] <= PHONE["width"]
    victor.goto("/jobs")
    expect(victor.get_by_role("heading", level=1)).to_have_text("Sign in")
    sign_in(victor, url, "victor", PASSWORD)
    expect(victor.get_by_text("Wrong user name or password.")).to_be_visible()
    victor.context.close()
    alice.context.close()
