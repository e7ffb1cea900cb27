"""Takes the pictures of docs/images: `python -m tests.screenshots [FOLDER]`.

It starts `warren up` with the examples in a temporary folder, lets it work for a while, and opens
each page in Debian's Chromium; the Chinese ones need fonts-noto-cjk.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, StorageState

from tests.support.browser import browser, choose_password, sign_in
from tests.support.command import Command, run_warren
from tests.support.eventually import eventually
from tests.support.outage_console import outage_console
from tests.support.pictures import small_png

ROOT = Path(__file__).parents[1]
PASSWORD = "a password for pictures"
#: Runs that have ended before the first picture.
RUNS = 40
WIDE, PHONE = (1440, 900), (390, 844)


@dataclass(frozen=True)
class Picture:
    """One file: the page by its path or by how to get there, and how it is looked at."""

    name: str
    path: str = ""
    go: Callable[[Page, str], None] | None = None
    theme: str = "light"
    language: str = "en"
    size: tuple[int, int] = WIDE
    ready: str = "main"


def _first(path: str, link: str) -> Callable[[Page, str], None]:
    """Return how to follow the first link of a page that leads to where `link` says."""

    def go(page: Page, url: str) -> None:
        page.goto(url + path)
        found = page.locator("main a[href]").evaluate_all("links => links.map(a => a.pathname)")
        page.goto(url + next(name for name in found if re.fullmatch(link, name)))

    return go


def _log(page: Page, url: str) -> None:
    _first("/runs?job=examples/folder-sizes&status=SUCCEEDED", r"/runs/\d+")(page, url)
    page.goto(page.url + "/log")


def _script(page: Page, url: str) -> None:
    page.goto(f"{url}/jobs?name=folder-sizes")
    job = page.get_by_role("link", name="folder-sizes", exact=True).first.get_attribute("href")
    page.goto(f"{url}/glue/{str(job).rpartition('/')[2]}")


def _flow_edit(page: Page, url: str) -> None:
    page.goto(f"{url}/jobs?name=nightly")
    page.get_by_role("link", name="nightly", exact=True).first.click()
    page.get_by_role("link", name="Edit").click()


PICTURES = (
    Picture("sign-in", "/login"),
    Picture("dashboard", "/overview", ready=".u-wrap"),
    Picture("jobs", "/jobs"),
    Picture("jobs-zh", "/jobs", language="zh-CN"),
    Picture("jobs-phone", "/jobs", size=PHONE),
    Picture("job", go=_first("/jobs?name=order-parts", r"/jobs/\d+")),
    Picture("job-new", "/jobs/new"),
    Picture("runs", "/runs"),
    Picture("runs-dark", "/runs", theme="dark"),
    Picture("run", go=_first("/runs?job=examples/third-time-lucky&status=SUCCEEDED", r"/runs/\d+")),
    Picture("run-log", go=_log),
    Picture("flow-edit", go=_flow_edit),
    Picture("runs-errors", "/runs/errors"),
    Picture("flow", go=_first("/runs?job=examples/nightly&status=FAILED", r"/runs/\d+")),
    Picture("backfill", go=_first("/backfills", r"/backfills/\d+")),
    Picture("calendar", "/calendars/warehouse?year=2026"),
    Picture("timeline", "/timeline?zoom=1"),
    Picture("script", go=_script),
    Picture("script-dark", go=_script, theme="dark"),
    Picture("executors", "/executors"),
    Picture("apps", "/apps"),
    Picture("schedulers", "/schedulers"),
    Picture("ledger", "/ledger", ready="main:not(:has(td.quiet[colspan]))"),
    Picture("users", "/users"),
    Picture("audit-trail", "/audit"),
    Picture("account", "/account"),
)


#: Pictures of an installation on a bad afternoon.
OUTAGE_PICTURES = (
    Picture("board", "/", size=(1440, 1100)),
    Picture("board-dark", "/", theme="dark", size=(1440, 1100)),
    Picture("board-zh", "/", language="zh-CN", size=(1440, 1100)),
    Picture("board-phone", "/", size=PHONE),
)


def main() -> None:
    """Take every picture, or those that are named."""
    arguments = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    arguments.add_argument("--only", nargs="*", default=[], help="names of pictures")
    arguments.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "images")
    given = arguments.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)

    def take(pictures: Iterable[Picture], url: str, state: StorageState) -> None:
        for picture in pictures:
            _take(found, url, state, picture, given.folder / f"{picture.name}.png")

    def wanted(pictures: Iterable[Picture]) -> list[Picture]:
        return [one for one in pictures if not given.only or one.name in given.only]

    with browser() as found:
        if chosen := wanted(OUTAGE_PICTURES):
            with outage_console(PASSWORD) as url:
                take(chosen, url, _cookies(found, url, PASSWORD))
        if chosen := wanted(PICTURES):
            with _everything() as (url, password):
                take(chosen, url, _signed_in(found, url, password))


@contextmanager
def _everything() -> Iterator[tuple[str, str]]:
    """Give the address and the first password of a `warren up` that has worked for a while."""
    with tempfile.TemporaryDirectory(prefix="warren-pictures-") as folder:
        examples = ROOT / "examples"
        arguments = (
            *("--jobs", str(examples / "handlers.py")),
            *("--seed", str(examples / "jobs.yaml")),
        )
        with Command("up", *arguments, folder=Path(folder), env={"WARREN_PORT": "0"}) as up:
            password = up.wait_for("admin password: ", 60).rpartition(" ")[2].strip()
            url = up.wait_for("console   ").split()[1]
            _fill_the_warehouse(Path(folder))
            run_warren("jobs", "trigger", "folder-sizes", "--wait", folder=Path(folder))
            eventually(lambda: up.text().count("  run ") >= RUNS, 300, every=0.5)
            yield url, password


def _fill_the_warehouse(folder: Path) -> None:
    """Let a night fail, and fill in the week before it."""
    locked = folder / ".warren/examples/warehouse/locked"
    locked.parent.mkdir(parents=True)
    locked.write_text("south")
    run_warren("jobs", "trigger", "nightly", "--run-date", "2026-11-24", "--wait", folder=folder)
    locked.unlink()
    week = ("--from", "2026-11-16", "--to", "2026-11-22")
    made = run_warren("backfill", "nightly", *week, "--at-once", "3", folder=folder)
    assert made.returncode == 0, made.stderr


def _cookies(found: Browser, url: str, password: str) -> StorageState:
    """Sign in; return the cookies for all that follows."""
    context = found.new_context(locale="en")
    sign_in(context.new_page(), url, "admin", password)
    cookies = [one for one in context.cookies() if one["name"].startswith("warren")]
    context.close()
    return {"cookies": cookies, "origins": []}


def _signed_in(found: Browser, url: str, password: str) -> StorageState:
    """Sign in for the first time; return the cookies for all that follows."""
    context = found.new_context(locale="en")
    page = context.new_page()
    sign_in(page, url, "admin", password)
    choose_password(page, password, PASSWORD)
    page.get_by_text("Choose a new password to continue").wait_for(state="detached")
    # Language, theme and zone are to be those of each picture's browser.
    cookies = [one for one in context.cookies() if one["name"].startswith("warren-")]
    context.close()
    return {"cookies": cookies, "origins": []}


def _take(found: Browser, url: str, state: StorageState, picture: Picture, path: Path) -> None:
    width, height = picture.size
    context = found.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if picture.theme == "dark" else "light",
        locale=picture.language,
        timezone_id="Europe/Berlin",
        storage_state=None if picture.name == "sign-in" else state,
    )
    page = context.new_page()
    if picture.go is None:
        page.goto(url + picture.path)
    else:
        picture.go(page, url)
    page.locator(picture.ready).first.wait_for()
    taken = page.screenshot()
    page.goto("about:blank")
    path.write_bytes(small_png(page, taken))
    context.close()
    sys.stdout.write(f"{path.stat().st_size / 1000:6.0f} kB  {path.name}\n")


if __name__ == "__main__":
    main()
