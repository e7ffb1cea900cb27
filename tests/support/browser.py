"""Debian's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.console import PASSWORD
from tests.support.plain_browser import PlainBrowser

#: Keep it from contacting anything but the console.
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
#: How long to wait for a page to reach the expected state.
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)


def chromium() -> str:
    """Return the path of the browser; empty if it is not installed.

    Where no package has it without windows, the whole browser does the same in twice the time.
    """
    return shutil.which("chromium-headless-shell") or shutil.which("chromium") or ""


def require_chromium() -> None:
    """Skip the test if the browser is not installed; in CI it must be."""
    if chromium():
        return
    reason = "Chromium is not installed: make services"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def browser() -> Iterator[Browser]:
    """Yield a running browser; it closes with the block."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        try:
            yield found
        finally:
            found.close()


def page_of(chromium: Browser, url: str, name: str, **options: Any) -> Page:
    """Return a page in a context of its own, in which this user with PASSWORD has signed in.

    It has opened nothing yet. `options` are those of the context.
    """
    plain = PlainBrowser(url)
    assert plain.sign_in(name, PASSWORD).status == 303
    context = chromium.new_context(base_url=url, locale="en", **options)
    context.add_cookies(
        [{"name": cookie.name, "value": cookie.value or "", "url": url} for cookie in plain.cookies]
    )
    return context.new_page()


def sign_in(page: Page, url: str, name: str, password: str) -> None:
    """Sign in with the form; return when the next page and its scripts have loaded.

    For users who must change their password that is the account page.
    """
    page.goto(f"{url}/login")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    with page.expect_navigation():
        page.get_by_role("button", name="Sign in", exact=True).click()


def choose_password(page: Page, present: str, fresh: str) -> None:
    """Change the temporary password."""
    page.get_by_label("Current password").fill(present)
    page.get_by_label("New password", exact=True).fill(fresh)
    page.get_by_label("Repeat new password").fill(fresh)
    page.locator("form", has=page.get_by_label("Current password")).get_by_role("button").click()
