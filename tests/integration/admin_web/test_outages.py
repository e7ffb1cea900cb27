"""What a person sees and keeps when the console goes away, or their sign-in ends, meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import delete

from tests.support.browser import page_of
from tests.support.console import PASSWORD, Clock, add_user, make_app
from tests.support.ports import free_port
from tests.support.stored_rows import Rows
from warren.admin_web.serving.http_server import ConsoleServer
from warren.admin_web.template_globals import MANIFEST
from warren.scheduler.log_store.folder_store import FolderStore
from warren.scheduler.log_store.store import StoredLogs
from warren.sql.accounts import users
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable
from warren.sql.models import SignIn
from warren.sql.registry import pauses
from warren.sql.registry.pauses import EVERY_APP

pytestmark = pytest.mark.skipif(
    not MANIFEST.exists(), reason="the console's scripts are not built: make console"
)
LOST = "No connection to the console since"
#: Nobody looks, so a page does not notice by itself what it lost.
HIDDEN = "Object.defineProperty(document, 'hidden', { get: () => true })"


@dataclass
class Site:
    """A console that can be stopped, and started again on its port."""

    rows: Rows
    clock: Clock
    server: ConsoleServer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def start(self) -> None:
        app, port = make_app(self.rows.database, self.clock), self.server.port
        self.server = ConsoleServer(app, host="127.0.0.1", port=port)
        self.server.start()

    def end_all_sign_ins(self) -> None:
        self.rows.database.write(lambda session: session.execute(delete(SignIn)))


@pytest.fixture
def site(sqlite_schema_url: str, tmp_path: Path) -> Iterator[Site]:
    clock, rows = Clock(), Rows(sqlite_schema_url)
    add_user(rows.database, "alice", Role.ADMINISTRATOR)
    rows.scheduler("node-1", clock.now + 3_600_000)
    rows.job("nightly", "reports")
    no_folder = StoredLogs(lambda: FolderStore(tmp_path / "store"))
    app = make_app(rows.database, clock, stored_logs=no_folder)
    server = ConsoleServer(app, host="127.0.0.1", port=free_port())
    server.start()
    found = Site(rows, clock, server)
    yield found
    found.server.stop()
    rows.database.close()


@pytest.fixture
def page(chromium: Browser, site: Site) -> Iterator[Page]:
    found = page_of(chromium, site.url, "alice")
    yield found
    found.context.close()


def type_new_job(page: Page) -> None:
    page.goto("/jobs/new")
    page.get_by_label("Name", exact=True).fill("evening")
    page.get_by_label("Handler", exact=True).fill("noop")
    page.locator("[name=schedule_kind]").select_option("NONE")


def create_restored_job(page: Page) -> None:
    expect(page.get_by_text("What you typed here has been restored.")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("evening")
    page.get_by_role("button", name="Create job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("evening")


def unavailable(*_: object) -> None:
    raise DatabaseUnavailable("cannot reach the database")


def test_a_console_that_is_gone_is_told_until_it_is_back(page: Page, site: Site) -> None:
    page.goto("/jobs")
    site.server.stop()

    expect(page.get_by_text(LOST)).to_be_visible()
    expect(page.locator("#jobs")).to_have_css("opacity", "0.65")

    site.start()

    expect(page.get_by_text(LOST)).to_have_count(0)
    expect(page.locator("#jobs")).to_have_css("opacity", "1")


def test_a_database_that_is_gone_is_told_and_its_page_shown_as_it_was(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.goto("/jobs")
    with monkeypatch.context() as outage:
        outage.setattr(Database, "read", unavailable)
        outage.setattr(Database, "write", unavailable)

        expect(page.get_by_text("Database unavailable since")).to_be_visible()
        expect(page.locator("#jobs")).to_have_css("opacity", "0.65")
        page.goto("/jobs")
        expect(page.locator("[data-cached]")).to_contain_text("This page is from")
        expect(page.get_by_role("link", name="nightly")).to_be_visible()

    expect(page.locator("[data-cached]")).to_have_count(0)
    expect(page.locator("#jobs")).to_have_css("opacity", "1")


def test_a_pause_is_told_on_every_page_and_ended_from_there(page: Page, site: Site) -> None:
    page.goto("/account")
    expect(page.get_by_text("paused dispatch")).to_have_count(0)
    site.rows.database.write(
        lambda session: pauses.begin(
            session, EVERY_APP, now_ms=site.clock.now, until_ms=None, by="bob", reason="an upgrade"
        )
    )

    expect(page.get_by_text("bob paused dispatch")).to_contain_text("Reason: an upgrade")
    page.get_by_role("button", name="Resume dispatch").click()

    expect(page.get_by_text("Dispatch resumed.")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("My account")
    expect(page.get_by_text("paused dispatch")).to_have_count(0)


def test_an_app_is_paused_with_a_reason_and_an_end_that_everybody_sees(page: Page) -> None:
    page.goto("/apps")
    page.get_by_role("link", name="Pause", exact=True).click()
    page.get_by_label("Reason").fill("the printer moves")
    page.get_by_label("Until").select_option(label="in 1 hour")
    page.get_by_role("button", name="Pause", exact=True).click()

    page.goto("/timeline")

    banner = page.get_by_text("alice paused app reports")
    expect(banner).to_contain_text("Dispatch resumes automatically at")
    expect(banner).to_contain_text("Reason: the printer moves")


def test_what_was_typed_survives_an_outage_and_the_end_of_the_sign_in(
    page: Page, site: Site
) -> None:
    type_new_job(page)
    site.server.stop()
    expect(page.get_by_text(LOST)).to_be_visible()

    page.get_by_role("button", name="Create job").click()
    expect(page.get_by_text("Nothing was sent.")).to_be_visible()

    site.start()
    expect(page.get_by_text(LOST)).to_have_count(0)
    site.end_all_sign_ins()
    expect(page.get_by_text("Your session has expired.")).to_be_visible()
    page.locator("#conditions").get_by_role("link", name="Sign in").click()
    page.get_by_label("Name", exact=True).fill("alice")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()

    expect(page.get_by_role("heading", level=1)).to_have_text("New job")
    create_restored_job(page)

    page.goto("/jobs/new")
    expect(page.get_by_label("Name", exact=True)).to_have_value("")


def test_what_was_sent_while_nobody_answered_is_there_again(page: Page) -> None:
    type_new_job(page)
    page.route("**/jobs/create", lambda route: route.abort(), times=1)
    with page.expect_event("framenavigated", lambda frame: frame.url.startswith("chrome-error:")):
        page.get_by_role("button", name="Create job").click()

    page.goto("/jobs")
    page.goto("/jobs/new")

    create_restored_job(page)
    page.goto("/jobs/new")
    expect(page.get_by_label("Name", exact=True)).to_have_value("")


def test_what_was_typed_is_forgotten_once_the_page_shows_it(page: Page, site: Site) -> None:
    page.goto("/account")
    page.get_by_label("Theme", exact=True).select_option("dark")
    site.rows.database.write(lambda session: setattr(users.find(session, "alice"), "theme", "dark"))

    page.goto("/account")

    expect(page.get_by_label("Theme", exact=True)).to_have_value("dark")
    expect(page.get_by_text("What you typed here has been restored.")).to_have_count(0)


def test_what_was_typed_about_some_runs_is_not_put_into_a_form_about_others(
    page: Page, site: Site
) -> None:
    job, is_sure = page.locator("input[name=job]"), page.locator("input[name=is_sure]")
    page.goto(f"{site.url}/runs/clear?job=reports/nightly")
    is_sure.check()
    job.fill("reports/weekly")
    job.blur()

    page.goto(f"{site.url}/runs/clear?job=reports/hourly")
    expect(job).to_have_value("reports/hourly")
    expect(is_sure).not_to_be_checked()

    page.goto(f"{site.url}/runs/clear?job=reports/nightly")
    expect(job).to_have_value("reports/weekly")
    expect(is_sure).not_to_be_checked()


def test_what_was_ticked_in_a_list_survives_the_end_of_the_sign_in(page: Page, site: Site) -> None:
    for name in ("hourly-sum", "hourly-mail", "weekly"):
        site.rows.job(name, schedule_kind="CRON", schedule_value="0 0 * * * ?")
    page.add_init_script(HIDDEN)
    page.goto("/jobs")
    for name in ("hourly-sum", "hourly-mail"):
        page.get_by_label(name, exact=True).check()
    site.end_all_sign_ins()

    page.get_by_role("group", name="Selected jobs").get_by_role("button", name="Start").click()
    page.locator("#main").get_by_role("link", name="Sign in").click()
    page.get_by_label("Name", exact=True).fill("alice")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()

    expect(page.get_by_label("hourly-sum", exact=True)).to_be_checked()
    expect(page.get_by_label("hourly-mail", exact=True)).to_be_checked()
    expect(page.get_by_label("weekly", exact=True)).not_to_be_checked()
    page.get_by_role("group", name="Selected jobs").get_by_role("button", name="Start").click()
    expect(page.get_by_role("status").filter(has_text="2 jobs started")).to_be_visible()
    expect(page.get_by_label("hourly-sum", exact=True)).not_to_be_checked()


def test_a_form_with_mistakes_comes_back_after_the_end_of_the_sign_in(
    page: Page, site: Site
) -> None:
    page.goto("/jobs/new")
    page.get_by_label("Name", exact=True).fill("evening")
    page.get_by_label("Handler", exact=True).fill("noop")
    page.get_by_role("button", name="Create job").click()
    expect(page.locator(".wrong").first).to_be_visible()
    expect(page).to_have_url(f"{site.url}/jobs/create")

    site.end_all_sign_ins()
    expect(page.get_by_text("Your session has expired.")).to_be_visible()
    page.locator("#conditions").get_by_role("link", name="Sign in").click()
    page.get_by_label("Name", exact=True).fill("alice")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()

    expect(page).to_have_url(f"{site.url}/jobs/new")
    expect(page.get_by_label("Name", exact=True)).to_have_value("evening")
    expect(page.get_by_label("Handler", exact=True)).to_have_value("noop")


def test_the_foot_of_a_log_names_the_log_store_that_does_not_answer(page: Page, site: Site) -> None:
    ended = {"address": "gone-1", "status": "SUCCEEDED", "finished_at": site.clock.now}
    run_id = site.rows.run(site.rows.job("talker"), site.clock.now, **ended)
    site.rows.stored_log(run_id)

    page.goto(f"/runs/{run_id}/log")

    expect(page.locator("#log-standing")).to_have_text(
        "The log store is not responding. Retrying …"
    )
