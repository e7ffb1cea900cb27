"""Single sign-on with a whole Keycloak, set up as docs/single-sign-on.md says, in a browser."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.console import Clock
from tests.support.eventually import eventually
from tests.support.keycloak import CLIENT_ID, CLIENT_SECRET, Keycloak, fetched
from tests.support.ports import free_port
from tests.support.schemas import SQLiteSchema
from tests.support.sso import SsoConsole
from warren.admin_web.serving.http_server import ConsoleServer
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.registry import apps

#: On a busy machine Keycloak takes minutes to start.
pytestmark = pytest.mark.timeout(900)

#: Longer than the time after which groups are read again.
LATER_SECONDS = 301
#: Without offline access, what Keycloak gives ends with its session.
PLAIN = {"scopes": "openid profile email"}


@dataclass(frozen=True)
class Site:
    """A console that listens, and its provider."""

    console: SsoConsole
    keycloak: Keycloak
    clock: Clock
    url: str

    def later(self) -> None:
        """Let the time pass after which groups are read again, and read them."""
        self.clock.pass_seconds(LATER_SECONDS)
        self.console.reader.run_round()


@pytest.fixture(scope="module")
def keycloak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Keycloak, int]]:
    port = free_port()
    home = fetched(tmp_path_factory.mktemp("keycloak"))
    with Keycloak(home, f"http://127.0.0.1:{port}", "/sso/callback") as keycloak:
        yield keycloak, port


@pytest.fixture
def site(
    keycloak: tuple[Keycloak, int],
    sqlite_schema: SQLiteSchema,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Site]:
    server_of_people, port = keycloak
    url = f"http://127.0.0.1:{port}"
    database = Database(sqlite_schema.copy(tmp_path / "console.db"))
    database.write(lambda session: apps.ensure(session, "reports"))
    clock = Clock(time.time_ns() // 1_000_000)
    client: dict[str, Any] = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    client |= getattr(request, "param", {})
    console = SsoConsole(database, clock, cast(Any, server_of_people), client=client, url=url)
    console.rule("warren-admins", Role.ADMINISTRATOR)
    console.rule("warren-reports", Role.OPERATOR, "reports")
    server = ConsoleServer(console.app, host="127.0.0.1", port=port)
    server.start()
    yield Site(console, server_of_people, clock, url)
    server.stop()
    database.close()


@pytest.fixture
def page(chromium: Browser, site: Site) -> Iterator[Page]:
    context = chromium.new_context(base_url=site.url, locale="en")
    yield context.new_page()
    context.close()


def sign_in(page: Page, name: str) -> None:
    """Sign in on Keycloak's page."""
    page.goto("/login")
    page.get_by_role("link", name="Sign in with single sign-on").click()
    page.get_by_label("Username or email").fill(name)
    page.get_by_label("Password", exact=True).fill(f"password of {name}")
    page.get_by_role("button", name="Sign In").click()


def test_the_provider_passes_the_check(site: Site) -> None:
    assert site.console.connection.check().startswith(f"{site.keycloak.issuer} answers")


def test_groups_give_the_rights(site: Site, page: Page) -> None:
    sign_in(page, "alice")

    expect(page.get_by_role("link", name="alice")).to_be_visible()
    assert site.console.rights("alice").role is Role.ADMINISTRATOR


def test_who_is_in_no_group_with_a_rule_has_nothing(site: Site, page: Page) -> None:
    sign_in(page, "nobody")

    expect(page.get_by_role("alert")).to_contain_text("None of your groups has rights in Warren.")


@pytest.mark.parametrize("site", [PLAIN], indirect=True)
def test_signing_out_ends_the_session_there_too(site: Site, page: Page) -> None:
    sign_in(page, "alice")
    expect(page.get_by_role("link", name="alice")).to_be_visible()
    assert len(site.keycloak.sessions("alice")) == 1

    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    assert eventually(lambda: site.keycloak.sessions("alice") == [])
    page.get_by_role("link", name="Sign in with single sign-on").click()
    expect(page.get_by_label("Username or email")).to_be_visible()


def test_with_offline_access_keycloak_asks_again_after_signing_out(site: Site, page: Page) -> None:
    sign_in(page, "alice")
    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    page.get_by_role("link", name="Sign in with single sign-on").click()
    expect(page.get_by_label("Username or email")).to_be_visible()


@pytest.mark.parametrize("site", [{}, PLAIN], indirect=True, ids=["offline", "plain"])
def test_who_stays_in_the_group_stays_in_and_who_leaves_it_is_out(site: Site, page: Page) -> None:
    site.keycloak.join("oscar", "warren-reports")
    sign_in(page, "oscar")
    expect(page.get_by_role("link", name="oscar")).to_be_visible()

    site.later()
    page.goto("/jobs")
    expect(page.get_by_role("link", name="oscar")).to_be_visible()
    site.keycloak.leave("oscar", "warren-reports")
    site.later()
    page.goto("/jobs")

    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()


@pytest.mark.parametrize("site", [PLAIN], indirect=True)
def test_a_session_that_is_ended_there_ends_here(site: Site, page: Page) -> None:
    sign_in(page, "alice")
    expect(page.get_by_role("link", name="alice")).to_be_visible()

    site.keycloak.end_sessions("alice")
    site.later()
    page.goto("/jobs")

    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
