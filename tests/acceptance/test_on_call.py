"""What somebody on call asks on a bad afternoon, each with its clicks from the home page."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.browser import page_of
from tests.support.console import PASSWORD
from tests.support.fixed_logs import TimedLogs
from tests.support.outage_console import outage_console


@pytest.fixture(scope="module")
def logs() -> TimedLogs:
    """The logs of runs, as executors would have them."""
    return TimedLogs()


@pytest.fixture(scope="module", params=[7, 11], ids=["seed 7", "seed 11"])
def url(request: pytest.FixtureRequest, logs: TimedLogs) -> Iterator[str]:
    with outage_console(PASSWORD, seed=request.param, requester=logs) as found:
        yield found


@pytest.fixture
def home(chromium: Browser, url: str, logs: TimedLogs) -> Iterator[Page]:
    """The home page of somebody who has signed in; no run has a log yet."""
    logs.of_run.clear()
    page = page_of(chromium, url, "admin", viewport={"width": 1440, "height": 900})
    page.goto("/")
    yield page
    page.context.close()


def test_without_a_click_it_says_what_is_broken_and_since_when(home: Page) -> None:
    heading = home.get_by_role("heading", level=1)

    expect(heading).to_contain_text("13 of 120 jobs fail; 8 share one error since")
    row = home.locator("[data-row]", has=home.get_by_role("link", name="index-build", exact=True))
    expect(row.locator(".since")).to_contain_text(re.compile("1[78]."))


def test_without_a_click_it_says_what_has_recovered_and_which_jobs_share_a_cause(
    home: Page,
) -> None:
    expect(home.get_by_text("23 that failed in the last 24 hours have recovered.")).to_be_visible()
    group = home.locator(".group")
    expect(group).to_contain_text("8 jobs, one error")
    expect(group).to_contain_text("password authentication failed")


def test_each_job_of_a_cause_runs_once_more_with_two_clicks(home: Page) -> None:
    home.get_by_role("link", name="Re-run the newest due time of each…").click()
    home.get_by_role("button", name="Run 8 again").click()

    expect(home.locator("#work")).to_contain_text("8 of 8")


def test_what_was_skipped_last_night_and_why_is_one_click(home: Page) -> None:
    expect(home.get_by_text("Due times of 8 jobs were skipped.")).to_be_visible()
    row = home.locator("[data-row]", has=home.get_by_role("link", name="load-items", exact=True))
    expect(row.locator(".why")).to_have_text(
        "1 skipped: no scheduler could send it in time; its job skips what it missed"
    )
    row.get_by_role("link", name="load-items", exact=True).click()

    expect(home.locator("main")).to_contain_text("no scheduler could send it in time")


def test_the_jobs_of_an_outage_are_one_click_on_its_bar(home: Page) -> None:
    home.locator(".day tspan", has_text="Connection refused").click()

    expect(home.locator("[data-board-keys] [data-row]")).to_have_count(31)
    home.locator(".needs .chips").get_by_text("Connection refused").click()
    expect(home.get_by_text("8 jobs, one error")).to_be_visible()


def test_what_is_slower_than_last_week_is_one_click(home: Page) -> None:
    home.get_by_role("link", name="Slower than a week ago").click()

    first = home.locator("form.jobs tbody tr").first
    expect(first).to_contain_text("snapshot-clicks")
    expect(first.locator(".slower")).to_contain_text("%")


def test_why_a_job_did_not_run_at_two_is_one_click(home: Page) -> None:
    row = home.locator("[data-row]", has=home.get_by_role("link", name="close-day", exact=True))
    expect(row.locator(".since")).to_contain_text("02:00")
    row.get_by_role("link", name="close-day", exact=True).click()

    skipped = home.locator("tr", has_text="02:00:00").filter(has_text="skipped")
    expect(skipped).to_contain_text("no scheduler could send it in time")
    expect(skipped).to_be_in_viewport()


def test_who_waits_and_for_what_is_one_click(home: Page) -> None:
    home.get_by_role("navigation").get_by_role("link", name="Queue").click()

    waiting = home.locator("tr", has_text="copy-items").first
    expect(waiting).to_contain_text("warehouse (2 of 2: copy-items")
    expect(waiting).to_contain_text("min ago")


def test_without_a_click_it_says_what_the_next_hour_holds(home: Page) -> None:
    hour = home.get_by_role("region", name="Next hour against slots")

    expect(hour.locator(".pool", has_text="billing")).to_contain_text(re.compile("[0-9]+ .*due"))
    expect(hour.locator(".pool")).to_have_count(5)


def test_the_executor_that_left_and_what_it_lost_is_one_click(home: Page) -> None:
    home.locator(".machine").get_by_role("link", name="warehouse-1").click()

    expect(home.get_by_role("heading", level=1)).to_contain_text("warehouse-1")
    expect(home.locator("main")).to_contain_text("gone since")
    expect(home.locator("main")).to_contain_text("copy-customers")


def test_the_last_success_is_one_click(home: Page) -> None:
    row = home.locator("[data-row]", has=home.get_by_role("link", name="index-build", exact=True))
    row.get_by_role("link", name="index build stopped").click()

    expect(home.get_by_role("heading", name="Compared with the last success")).to_be_visible()


def test_an_app_is_paused_with_two_clicks(home: Page) -> None:
    """The reason is typed."""
    home.get_by_role("link", name="Pause … search").click()
    expect(home.get_by_role("textbox", name="Reason")).to_be_focused()
    home.keyboard.type("the cluster is rebuilt")
    home.get_by_role("button", name="Pause", exact=True).click()

    notice = home.locator(".notice", has_text="admin paused app search")
    expect(notice).to_contain_text("the cluster is rebuilt")
    notice.get_by_role("button", name="Resume app").click()


def test_a_job_is_muted_with_two_clicks(home: Page) -> None:
    row = home.locator("[data-row]", has=home.get_by_role("link", name="dwh-load", exact=True))
    row.hover()
    row.get_by_role("link", name="Acknowledge").click()
    home.get_by_role("button", name="Acknowledge", exact=True).click()

    expect(row).to_contain_text("muted until")
    expect(row).to_contain_text("by admin")


def test_a_field_of_twenty_jobs_is_edited_with_four_clicks(home: Page) -> None:
    """The field and its value are typed, and Enter shows what changes."""
    home.get_by_role("navigation").get_by_role("link", name="Jobs", exact=True).click()
    home.get_by_role("textbox", name="Name").fill("mail")
    home.keyboard.press("Enter")
    expect(home.get_by_role("link", name="Remove this filter")).to_be_visible()
    home.get_by_role("checkbox", name="All matching jobs").click()
    home.get_by_role("button", name="Edit a field …").click()
    expect(home.get_by_role("combobox", name="Field")).to_be_focused()
    home.keyboard.type("Timeout")
    home.keyboard.press("Tab")
    home.keyboard.type("601")
    home.keyboard.press("Enter")
    save = home.get_by_role("button", name="Save")
    expect(save).to_have_text("Save 22 jobs")
    expect(home.locator("ins", has_text="601").first).to_be_visible()
    save.click()

    expect(home.get_by_role("heading", level=1)).to_contain_text("jobs edited")
    home.get_by_role("button", name="Undo").click()
    expect(home.get_by_role("heading", level=1)).to_contain_text("changed back")


def test_the_first_error_is_one_click(home: Page) -> None:
    home.get_by_role("link", name="First log").click()

    expect(home).to_have_url(re.compile("/log$"))
    expect(home.locator("main")).to_contain_text("password authentication failed")


def test_a_broadcast_that_runs_for_long_is_killed_with_two_clicks(home: Page) -> None:
    row = home.locator("[data-row]", has=home.get_by_role("link", name="purge-caches", exact=True))
    row.hover()
    row.get_by_role("link", name="Kill…").click()
    home.get_by_role("button", name="Kill 3", exact=True).click()

    expect(home.get_by_text("Kill requested. Shards: 3.")).to_be_visible()
    expect(home.locator(".shards tbody tr", has_text="kill requested")).to_have_count(3)


def test_the_logs_of_all_shards_are_one_in_the_order_of_their_times(
    home: Page, logs: TimedLogs
) -> None:
    row = home.locator("[data-row]", has=home.get_by_role("link", name="purge-caches", exact=True))
    row.hover()
    row.get_by_role("link", name="Log").click()
    lines, shards = home.locator("#log .log-line"), home.locator("tr[data-run]")
    expect(shards).to_have_count(3)
    runs = [int(run) for run in shards.evaluate_all("all => all.map(e => e.dataset.run)")]

    begin = [(10_000 + number, "begin") for number in range(3)]
    end = [(20_000 + number, "end") for number in range(3)]
    logs.of_run[runs[0]] = [begin[0], end[0]]
    logs.of_run[runs[1]] = [begin[1]]
    logs.of_run[runs[2]] = [begin[2], end[2]]
    expect(lines).to_have_count(5)
    logs.of_run[runs[1]] = [begin[1], (15_000, "ValueError: between"), end[1]]
    expect(lines).to_have_count(7)

    said = lines.evaluate_all(
        "all => all.map(e => [...e.children].map(c => c.textContent).join(' '))"
    )
    assert said[:3] == ["1/3 begin", "2/3 begin", "3/3 begin"]
    assert said[3:] == ["2/3 ValueError: between", "1/3 end", "2/3 end", "3/3 end"]
    expect(home.locator("#log .log-line.error")).to_have_text("2/3ValueError: between")


def test_next_error_goes_from_one_error_of_a_log_to_the_next(home: Page, logs: TimedLogs) -> None:
    link = home.get_by_role("link", name="First log")
    run_id = int((link.get_attribute("href") or "").split("/")[2])
    texts = ["connecting", "ValueError: first", *["working"] * 200, "KeyError: second", "end"]
    logs.of_run[run_id] = [(1_000 + number, text) for number, text in enumerate(texts)]
    link.click()
    following = home.get_by_role("button", name="Next error")
    here = home.locator("#log .log-line.at")

    for error in ("ValueError: first", "KeyError: second", "ValueError: first"):
        following.click()

        expect(here.locator("code")).to_have_text(error)
        expect(here).to_be_in_viewport()


def test_what_is_kept_of_a_log_that_is_gone_stays_named_so(home: Page, logs: TimedLogs) -> None:
    link = home.get_by_role("link", name="First log")
    logs.gone.add(int((link.get_attribute("href") or "").split("/")[2]))

    link.click()

    expect(home.locator("#log-standing")).to_have_text("End of log.")
    expect(home.locator("#log .kept").first).to_be_visible()
    expect(home.locator("[data-log-notice]")).to_contain_text(
        "The executor no longer has this log."
    )
    logs.gone.clear()


def test_enter_in_the_search_box_waits_for_the_answer_to_what_was_typed(home: Page) -> None:
    home.keyboard.press("Control+k")
    expect(home.locator("[data-found] a").first).to_be_visible()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    home.route(re.compile("q=fx-rates"), hold)
    at_home = home.url

    home.locator("dialog[data-find] input").fill("fx-rates")
    with home.expect_request(re.compile("q=fx-rates")):
        home.keyboard.press("Enter")
    expect(home.locator("dialog[data-find]")).to_be_visible()
    assert home.url == at_home
    for route in held:
        route.continue_()

    expect(home).to_have_url(re.compile(r"/jobs/\d+$"))
    expect(home.get_by_role("heading", level=1)).to_contain_text("fx-rates")


def test_a_new_token_is_copied_by_its_button(home: Page) -> None:
    home.context.grant_permissions(["clipboard-read", "clipboard-write"])
    home.goto("/tokens")
    home.get_by_label("Name", exact=True).fill("monitor")
    home.locator("[name=rights]").first.check()
    home.get_by_role("button", name="Create token").click()

    home.get_by_role("button", name="Copy", exact=True).click()

    expect(home.get_by_role("button", name="Copied")).to_be_visible()
    token = home.locator("#fresh-token").text_content()
    assert token
    assert home.evaluate("navigator.clipboard.readText()") == token


def test_the_keys_move_in_the_list_and_ask_before_they_run(home: Page) -> None:
    rows = home.locator("[data-board-keys] [data-row]")
    rows.first.focus()
    home.keyboard.press("j")
    home.keyboard.press("j")
    expect(rows.nth(2)).to_be_focused()

    home.locator("[data-row]", has=home.get_by_role("link", name="index-build", exact=True)).focus()
    home.keyboard.press("r")

    expect(home.get_by_role("button", name="Run again")).to_be_visible()


def test_a_key_opens_the_search_and_another_says_what_the_keys_do(home: Page) -> None:
    rows = home.locator("[data-board-keys] [data-row]")
    rows.first.focus()
    home.keyboard.press("?")
    expect(home.get_by_text("In the list: j k move")).to_be_visible()

    home.keyboard.press("/")

    expect(home.locator("dialog[data-find] input")).to_be_focused()
    expect(home.locator("dialog[data-find] input")).to_have_value("")


def test_the_keys_do_nothing_elsewhere_and_can_be_switched_off(home: Page) -> None:
    home.locator("main").focus()
    home.keyboard.press("r")
    expect(home.locator("#board")).to_be_visible()

    home.get_by_text("Keys", exact=True).click()
    home.get_by_role("button", name="Turn the keys off").click()
    home.locator("[data-board-keys] [data-row]").nth(1).focus()
    home.keyboard.press("r")

    expect(home.locator("#board")).to_be_visible()


def test_the_title_and_the_icon_follow_what_the_page_says(home: Page) -> None:
    def one_more(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("13", "14"))

    expect(home).to_have_title("13 jobs fail · Warren")
    home.route(home.url, one_more)

    expect(home).to_have_title("14 jobs fail · Warren", timeout=60_000)
    expect(home.locator("link[rel=icon]")).to_have_attribute("href", re.compile("n=14$"))


def test_on_a_phone_nothing_is_wider_than_the_screen(chromium: Browser, url: str) -> None:
    page = page_of(chromium, url, "admin", viewport={"width": 390, "height": 844})
    page.goto("/")

    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.context.close()
