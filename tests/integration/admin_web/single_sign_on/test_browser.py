"""Single sign-on in a real browser: there and back, in and out, on a console with a real server."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import page_of, sign_in
from tests.support.console import PASSWORD, Clock
from tests.support.oidc_provider import OidcProvider
from tests.support.ports import free_port
from tests.support.sso import SsoConsole
from warren.admin_web.serving.http_server import ConsoleServer
from warren.sql.accounts.users import Role
from warren.sql.engine import Database


@dataclass(frozen=True)
class Site:
    """A console that listens, and its provider."""

    console: SsoConsole
    provider: OidcProvider
    url: str


@pytest.fixture
def site(database: Database, clock: Clock) -> Iterator[Site]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    callback = f"{url}/sso/callback"
    with OidcProvider(clock=lambda: clock.now / 1000, redirect_uris=(callback,)) as provider:
        console = SsoConsole(database, clock, provider, url=url)
        console.rule("data", Role.OPERATOR, "reports")
        server = ConsoleServer(console.app, host="127.0.0.1", port=port)
        server.start()
        yield Site(console, provider, url)
        server.stop()


@pytest.fixture
def page(chromium: Browser, site: Site) -> Iterator[Page]:
    context = chromium.new_context(base_url=site.url, locale="en")
    yield context.new_page()
    context.close()


def at_the_provider(page: Page, name: str) -> None:
    """Sign in on the provider's page."""
    expect(page.get_by_role("heading", name="Sign in at the provider")).to_be_visible()
    page.get_by_label("User").fill(name)
    page.get_by_role("button", name="Continue").click()


def test_one_comes_back_to_the_page_that_one_wanted(site: Site, page: Page) -> None:
    site.provider.add("olga", "data")

    page.goto("/queue")
    page.get_by_role("link", name="Sign in with single sign-on").click()
    at_the_provider(page, "olga")

    page.wait_for_url("**/queue")
    expect(page.get_by_role("link", name="olga")).to_be_visible()


def test_who_matches_no_rule_is_told_whom_to_ask_and_nothing_else(site: Site, page: Page) -> None:
    site.provider.add("nobody", "others", subject="1234")

    page.goto("/sso/start")
    at_the_provider(page, "nobody")

    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("None of your groups has rights in Warren.")
    expect(alert).to_contain_text("Ask the platform team.")
    expect(page.get_by_text("1234")).to_be_visible()
    page.goto("/jobs")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert site.console.user("nobody") is None


def test_signing_out_ends_the_session_there_too(site: Site, page: Page) -> None:
    site.provider.add("olga", "data")
    page.goto("/sso/start")
    at_the_provider(page, "olga")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    [told] = site.provider.sign_outs
    assert told["post_logout_redirect_uri"] == f"{site.url}/login"
    assert told["client_id"] == "warren"

    page.get_by_role("link", name="Sign in with single sign-on").click()

    expect(page.get_by_role("heading", name="Sign in at the provider")).to_be_visible()


def test_without_a_sign_out_there_the_session_here_ends(site: Site, page: Page) -> None:
    site.provider.faults.has_end_session = False
    site.provider.add("olga", "data")
    page.goto("/sso/start")
    at_the_provider(page, "olga")

    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    assert site.provider.sign_outs == []
    page.goto("/jobs")
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()


def test_out_of_the_group_is_out_at_the_next_click(site: Site, page: Page, clock: Clock) -> None:
    person = site.provider.add("olga", "data")
    page.goto("/sso/start")
    at_the_provider(page, "olga")
    expect(page.get_by_role("link", name="olga")).to_be_visible()

    person.groups = []
    clock.pass_seconds(301)
    site.console.reader.run_round()
    page.goto("/jobs")

    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()


def test_a_password_works_while_the_provider_is_away(site: Site, page: Page) -> None:
    site.provider.faults.is_away = True

    page.goto("/sso/start")
    expect(page.get_by_role("alert")).to_contain_text(
        "Single sign-on does not work at the moment, but passwords do."
    )
    page.get_by_role("link", name="Sign in with a password").click()
    page.get_by_label("Name", exact=True).fill("operator")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()

    expect(page.get_by_role("link", name="operator")).to_be_visible()


def test_a_user_that_was_there_links_to_the_provider_and_signs_in_there_from_then_on(
    site: Site, page: Page
) -> None:
    site.provider.add("olga", "data", subject="1234")
    sign_in(page, site.url, "operator", PASSWORD)
    page.goto("/account")
    page.get_by_role("button", name="Link to my identity").click()
    at_the_provider(page, "olga")

    expect(page.get_by_role("link", name="operator")).to_be_visible()
    assert site.console.user("olga") is None
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    sign_in(page, site.url, "operator", PASSWORD)
    expect(page.get_by_role("alert")).to_contain_text("Wrong user name or password.")
    page.get_by_role("link", name="Sign in with single sign-on").click()
    at_the_provider(page, "olga")
    expect(page.get_by_role("link", name="operator")).to_be_visible()


def test_an_administrator_sees_whose_rights_a_rule_changes(chromium: Browser, site: Site) -> None:
    site.provider.add("olga", "data")
    site.console.sign_in(site.console.visit(), "olga")
    page = page_of(chromium, site.url, "admin")
    page.goto("/users")

    page.get_by_role("link", name="Rules for groups").click()
    page.get_by_role("link", name="data").click()
    page.get_by_label("mails").check()
    page.get_by_role("button", name="Show what would change").click()

    expect(page.get_by_role("row", name="olga")).to_contain_text("mails")
    page.get_by_role("button", name="Change the rules").click()
    expect(page.get_by_text("Rules changed.")).to_be_visible()
    assert len(site.console.rights("olga").app_ids) == 2
    page.context.close()
