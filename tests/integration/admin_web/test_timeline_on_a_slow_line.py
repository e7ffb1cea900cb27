"""The timeline while only a part of its page has come."""

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from werkzeug.serving import make_server

from tests.support.browser import page_of
from tests.support.console import Clock, add_user, make_app
from tests.support.stored_rows import Rows
from warren.sql.accounts.users import Role

JOBS = 12


class HeldBack:
    """A console that sends the timeline up to its third row, and the rest once it is let go."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.go = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/timeline":
            return self._app(environ, start_response)  # type: ignore[no-any-return]
        environ.pop("HTTP_ACCEPT_ENCODING", None)
        return self._parts(b"".join(self._app(environ, start_response)))

    def _parts(self, page: bytes) -> Iterator[bytes]:
        row = b"</tr>"
        place = page.index(b"<tbody>")
        for _ in range(3):
            place = page.index(row, place) + len(row)
        yield page[:place]
        self.go.wait(60)
        yield page[place:]


@pytest.fixture
def console(sqlite_schema_url: str) -> Iterator[tuple[str, HeldBack]]:
    clock, rows = Clock(), Rows(sqlite_schema_url)
    add_user(rows.database, "alice", Role.ADMINISTRATOR)
    for number in range(JOBS):
        job_id = rows.job(f"job-{number}")
        rows.run(job_id, clock.now - 600_000, status="SUCCEEDED", started_at=clock.now - 600_000)
    held = HeldBack(make_app(rows.database, clock))
    server = make_server("127.0.0.1", 0, held, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", held
    held.go.set()
    server.shutdown()
    rows.database.close()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
@pytest.mark.parametrize("width", [1440, 390])
def test_a_skeleton_stands_for_the_rows_to_come_and_nothing_moves_when_they_do(
    chromium: Browser, console: tuple[str, HeldBack], *, scripts: bool, width: int
) -> None:
    url, held = console
    size = {"width": width, "height": 900}
    page = page_of(chromium, url, "alice", viewport=size, java_script_enabled=scripts)

    page.goto("/timeline", wait_until="commit")
    rows, skeleton = page.locator(".spans tbody tr"), page.locator(".skeleton")
    expect(rows).to_have_count(3)
    expect(skeleton).to_be_visible()
    # Before both its style sheets have come, a place on the page says nothing.
    expect(page.locator("body")).to_have_css("margin", "0px")
    expect(skeleton).to_have_css("min-width", "640px")
    came = rows.nth(2).bounding_box()
    place = skeleton.bounding_box()
    held.go.set()
    expect(skeleton).to_be_hidden()

    frame = page.locator(".card:has(> .scroll > .spans)").bounding_box()
    assert came is not None
    assert place is not None
    assert frame is not None
    assert place["y"] + place["height"] > came["y"] + came["height"]
    assert rows.nth(2).bounding_box() == came
    assert frame["height"] >= place["height"]
    assert rows.count() == JOBS
    page.context.close()
