"""Texts that would do harm on a page that believed them, on every page, in Debian's Chromium.

No services are needed: the console is a real server on rows of SQLite, and executors are played.
"""

from collections.abc import Iterator
from typing import cast

import pytest
from flask import Flask
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import PATIENCE_MS, page_of, require_chromium
from tests.support.console import Clock, add_user, make_app
from tests.support.fixed_logs import FixedLogs
from tests.support.sample_app import SampleApp, add_sample_app
from tests.support.stored_rows import Rows
from warren.admin_web.serving.http_server import ConsoleServer
from warren.admin_web.template_globals import MANIFEST
from warren.broker.rpc import Requester
from warren.jobfile.export import job_file
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.registry import apps
from warren.sql.schema import migration

#: All at once: whichever way a page would have believed it.
NASTY = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)><svg/onload=alert(3)>"
    "{{7*7}}javascript:alert(4)</textarea></title></script><iframe srcdoc='<script>alert(5)'>"
)
#: A page of so many is opened before each change; `every_route/test_shown_text.py` reads them all.
PART = 4
#: Tells a page's test of everything that the policy refused or a script threw.
_LISTEN = """
window.refused = [];
addEventListener("securitypolicyviolation", (event) =>
  window.refused.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    require_chromium()
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('texts') / 'console.db'}")
    migration.upgrade(database)
    database.write(lambda session: apps.ensure(session, "demo"))
    add_user(database, "admin", Role.ADMINISTRATOR)
    yield database
    database.close()


@pytest.fixture(scope="module")
def made(database: Database) -> Iterator[SampleApp]:
    rows = Rows(database.url.render_as_string(hide_password=False))
    yield add_sample_app(rows, "demo", lambda field: f"{NASTY}~{field}~", Clock().now)
    rows.database.close()


@pytest.fixture(scope="module")
def app(database: Database) -> Flask:
    requester = cast("Requester", FixedLogs(f"{NASTY}~log-line~"))
    return make_app(database, Clock(), job_file=job_file, requester=requester)


@pytest.fixture(scope="module")
def url(app: Flask) -> Iterator[str]:
    server = ConsoleServer(app, host="127.0.0.1", port=0)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


@pytest.fixture
def page(url: str, chromium: Browser) -> Iterator[Page]:
    """The administrator's browser; afterwards nothing may have run or been refused."""
    page = page_of(chromium, url, "admin", timezone_id="UTC")
    page.context.set_default_timeout(PATIENCE_MS)
    page.context.add_init_script(_LISTEN)
    wrong: list[str] = []
    page.on(
        "dialog", lambda dialog: (wrong.append(f"a dialog: {dialog.message}"), dialog.dismiss())
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if _is_refusal(said.text) else None)
    yield page
    page.context.close()
    assert wrong == []


def _is_refusal(said: str) -> bool:
    return "Content Security Policy" in said or "Content-Security-Policy" in said


def pages(app: Flask, made: SampleApp) -> list[str]:
    """Return every path that is a page, of a job and of a script, and some with filters."""
    files = ("static", "health.healthz", "health.metrics", "jobs.export", "runs.log_lines")
    with app.test_request_context():
        return sorted(
            {
                app.url_for(rule.endpoint, **made.values(set(rule.arguments), script=is_script))
                for rule in app.url_map.iter_rules()
                if "GET" in (rule.methods or set())
                and rule.endpoint not in (*files, "runs.download_log", "sign_in.login")
                for is_script in (False, True)
            }
            | {f"/glue/{made.ids['script_id']}/compare?old=1&new=2", "/?range=30", "/jobs?name=x"}
        )


@pytest.mark.parametrize("every", [PART, pytest.param(1, marks=pytest.mark.release)])
def test_no_text_runs_anywhere_and_the_policy_has_nothing_to_refuse(
    page: Page, app: Flask, made: SampleApp, every: int
) -> None:
    """Every so many pages; before a release, each one."""
    seen: set[str] = set()

    for path in pages(app, made)[::every]:
        answer = page.goto(path)

        assert answer is not None
        assert answer.status in (200, 403, 404, 405), path
        assert page.evaluate("window.refused") == [], path
        assert page.locator("img, iframe, script:not([src]), [onerror], [onload]").count() == 0, (
            path
        )
        text = page.evaluate("document.documentElement.outerHTML")
        assert ">49javascript" not in text, path
        seen |= {field for field in made.fields if f"~{field}~" in text}

    assert len(seen) > (35 if every == 1 else 5)
    if every == 1:
        assert {"job", "author", "handler", "title", "executor", "exit-message", "before"} <= seen


@pytest.mark.skipif(not MANIFEST.exists(), reason="the console's scripts are not built")
class TestWithScripts:
    def test_a_log_that_grows_and_is_searched_stays_text(self, page: Page, made: SampleApp) -> None:
        page.goto(f"/runs/{made.ids['run_id']}/log")
        line = page.locator("#log code").first
        expect(line).to_contain_text("<script>alert(1)</script>")

        page.locator("#log-search").fill("<img src=x")

        expect(page.locator("#log mark").first).to_have_text("<img src=x")
        assert page.locator("#log img").count() == 0
        assert page.evaluate("window.refused") == []

    def test_the_editor_colours_and_saves_without_a_violation(
        self, page: Page, made: SampleApp
    ) -> None:
        page.goto(f"/glue/{made.ids['script_id']}")
        editor = page.locator(".cm-content")
        expect(editor).to_contain_text("<script>alert(1)</script>")
        editor.click()
        editor.press("Control+End")
        editor.press_sequentially("\nif true; then\n# <img src=x onerror=alert(6)>\nfi")
        editor.press("Control+f")
        expect(page.locator(".cm-panel.cm-search")).to_be_visible()
        editor.press("Escape")
        coloured = page.locator(".cm-line span[class]").first
        expect(coloured).to_be_visible()

        page.get_by_label("Change note").fill("<b>nothing</b>")
        page.get_by_role("button", name="Save new version").click()

        expect(page.locator("tr.present")).to_contain_text("<b>nothing</b>")
        assert page.evaluate("window.refused") == []

    def test_the_previews_of_a_form_and_its_advice_stay_text(self, page: Page) -> None:
        page.goto("/jobs/new")

        page.locator("[name=cron]").fill("0 0 <img/src=x/onerror=alert(7)> * * ?")

        expect(page.locator("#preview .field-error")).to_contain_text("<IMG/SRC=X/ONERROR")
        assert page.locator("#preview img").count() == 0
        assert page.evaluate("window.refused") == []
