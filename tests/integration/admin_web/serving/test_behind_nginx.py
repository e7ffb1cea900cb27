"""A console at a path of a host, behind a real nginx, in a browser."""

import os
import shutil
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.support.console import PASSWORD, Clock, add_user, make_app
from tests.support.eventually import eventually
from tests.support.plain_browser import PlainBrowser
from tests.support.ports import free_port
from tests.support.service import Service
from tests.support.stored_rows import Rows
from warren.admin_web.serving.http_server import ConsoleServer
from warren.sql.accounts.users import Role

pytestmark = pytest.mark.release

PROGRAM = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
CONFIGURATION = """
daemon off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location /warren/ {{
            proxy_pass http://127.0.0.1:{console}{stripped};
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
        }}
    }}
}}
"""


@pytest.fixture(params=["", "/"], ids=["path kept", "path removed"])
def site(request: pytest.FixtureRequest, sqlite_schema_url: str, tmp_path: Path) -> Iterator[str]:
    if PROGRAM is None:
        pytest.skip("needs nginx, from Debian's package nginx")
    clock, rows, port = Clock(), Rows(sqlite_schema_url), free_port()
    url = f"http://127.0.0.1:{port}/warren"
    add_user(rows.database, "alice", Role.ADMINISTRATOR)
    rows.job("nightly", schedule_kind="FIX_RATE", schedule_value="60")
    app = make_app(rows.database, clock, console_url=url, trusted_proxies=1)
    server = ConsoleServer(app, host="127.0.0.1", port=0)
    server.start()
    written = tmp_path / "nginx.conf"
    written.write_text(
        CONFIGURATION.format(
            folder=tmp_path, port=port, console=server.port, stripped=request.param
        )
    )
    nginx = Service(
        [PROGRAM, "-p", str(tmp_path), "-c", str(written)], env={}, output=tmp_path / "nginx.log"
    )
    try:
        eventually(lambda: _answers(url))
        yield url
    finally:
        nginx.end()
        server.stop()
        rows.database.close()


def _answers(url: str) -> bool:
    try:
        return PlainBrowser(url).get("/login").status == HTTPStatus.OK
    except URLError:
        return False


def test_pages_forms_and_scripts_stay_below_the_path(chromium: Browser, site: str) -> None:
    context = chromium.new_context(locale="en")
    page = context.new_page()
    asked: list[tuple[str, int]] = []
    page.on("response", lambda one: asked.append((urlsplit(one.url).path, one.status)))

    page.goto(f"{site}/jobs?name=night")
    page.get_by_label("Name", exact=True).fill("alice")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page).to_have_url(f"{site}/jobs?name=night")
    page.get_by_role("link", name="nightly").click()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_text("1 job started")).to_be_visible()
    headings = {"Board": "No job fails.", "Timeline": "Timeline", "Executors": "Executors"}
    for name, heading in headings.items():
        page.get_by_role("link", name=name).first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")

    assert [path for path, _ in asked if not path.startswith("/warren/")] == []
    assert [one for one in asked if one[1] >= 400] == []
    context.close()
