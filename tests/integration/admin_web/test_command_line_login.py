"""`warren login` with a real browser: the command, the API, the console and Chromium together."""

import json
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from flask import Flask
from playwright.sync_api import Browser, Page, expect

from tests.support.api import Program, make_api
from tests.support.browser import page_of, sign_in
from tests.support.command import Command, run_warren
from tests.support.console import PASSWORD, Clock, add_user, make_app
from tests.support.eventually import eventually
from warren.admin_web.serving.http_server import ConsoleServer
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.registry import apps


@dataclass(frozen=True)
class Site:
    """Where console and API are, and a folder that is the home of who uses the command line."""

    console: str
    api: str
    app: Flask
    home: Path

    @property
    def login_file(self) -> Path:
        return self.home / ".config/warren/login.json"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_warren(*words, folder=self.home, env={"HOME": str(self.home)})

    def start(self, *words: str) -> Command:
        """Start a command whose browser keeps the address that it is told."""
        note = self.home / "opened"
        opener = self.home / "browser"
        opener.write_text(f'#!/bin/sh\nprintf %s "$1" > {note}.new && mv {note}.new {note}\n')
        opener.chmod(0o755)
        return Command(*words, folder=self.home, env={"BROWSER": str(opener)})

    def opened(self) -> str:
        """Return the address that the command has opened in its browser."""
        note = self.home / "opened"
        assert eventually(note.exists)
        return note.read_text()


@pytest.fixture
def site(sqlite_schema_url: str, tmp_path: Path) -> Iterator[Site]:
    database, clock = Database(sqlite_schema_url), Clock()
    database.write(lambda session: apps.ensure(session, "reports"))
    add_user(database, "alice", Role.ADMINISTRATOR)
    console = ConsoleServer(make_app(database, clock), host="127.0.0.1", port=0)
    console.start()
    url = f"http://127.0.0.1:{console.port}"
    app = make_api(database, clock, console_url=url)
    api = ConsoleServer(app, host="127.0.0.1", port=0)
    api.start()
    home = tmp_path / "home"
    home.mkdir()
    yield Site(url, f"http://127.0.0.1:{api.port}", app, home)
    api.stop()
    console.stop()
    database.close()


@pytest.fixture
def page(chromium: Browser, site: Site) -> Iterator[Page]:
    """A page of somebody who has not signed in."""
    context = chromium.new_context(base_url=site.console, locale="en")
    yield context.new_page()
    context.close()


def test_the_browser_of_this_machine_signs_the_command_in_and_the_logout_ends_it(
    site: Site, page: Page
) -> None:
    with site.start("login", site.api, "--by", "browser") as command:
        page.goto(site.opened())
        page.get_by_label("Name", exact=True).fill("alice")
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.get_by_role("heading", name="act for you?")).to_be_visible()
        page.get_by_label("admin: manage apps").uncheck()
        page.get_by_role("button", name="Allow").click()
        expect(page.get_by_text("Allowed. Go back to the terminal")).to_be_visible()
        assert command.wait() == 0
        words = command.text()

    assert f"logged in to {site.api} with the token login-" in words
    assert "of alice" in words
    assert stat.S_IMODE(site.login_file.stat().st_mode) == 0o600
    token = json.loads(site.login_file.read_text())[1]
    assert token.startswith("wrn_")
    assert token not in words
    ended = site.run("logout")
    assert ended.stdout == f"logged out; {site.login_file} is gone\n"
    assert ended.stderr == ""
    refused = Program(site.app, token).get("/whoami")
    assert refused.get_json()["detail"] == "the token was revoked"


def test_refused_in_the_browser_it_ends_in_one_line(site: Site, page: Page) -> None:
    sign_in(page, site.console, "alice", PASSWORD)
    with site.start("login", site.api, "--by", "browser") as command:
        page.goto(site.opened())
        page.get_by_role("button", name="Refuse").click()
        expect(page.get_by_text("Refused. The command gets no token.")).to_be_visible()

        assert command.wait() == 1
        assert command.text().splitlines()[1:] == ["error: the login was refused in the console"]
    assert not site.login_file.exists()


def test_a_code_typed_in_another_browser_signs_the_command_in(
    site: Site, chromium: Browser
) -> None:
    page = page_of(chromium, site.console, "alice", viewport={"width": 390, "height": 800})
    with site.start("login", site.api, "--by", "code", "--days", "2") as command:
        told = eventually(lambda: command.text().partition("\n")[0])
        code = told.rpartition(" ")[2]
        assert told == f"open {site.console}/cli and enter the code {code}"

        page.goto("/cli")
        page.get_by_label("Code").fill("WRNG-WRNG")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text("No command is waiting with this code.")).to_be_visible()
        page.get_by_label("Code").fill(code.lower())
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text(f"its code is {code}")).to_be_visible()
        page.get_by_role("button", name="Allow").click()
        expect(page.get_by_text("Allowed. Go back to the terminal")).to_be_visible()

        assert command.wait() == 0
    token = json.loads(site.login_file.read_text())[1]
    assert Program(site.app, token).get("/whoami").get_json()["owner"] == "alice"
    page.context.close()
