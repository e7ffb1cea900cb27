"""Takes the pictures of docs/images: `python -m tests.screenshots [FOLDER]`.

It starts `warren up` with the examples in a temporary folder, lets it work for a while, and opens
each page in Debian's Chromium; the Chinese ones need fonts-noto-cjk.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.support.browser import browser, choose_password, sign_in
from tests.support.command import Command
from tests.support.eventually import eventually

ROOT = Path(__file__).parents[1]
PASSWORD = "a password for pictures"
#: Runs that have ended before the first picture.
RUNS = 45
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


def _script(page: Page, url: str) -> None:
    page.goto(f"{url}/jobs?name=folder-sizes")
    job = page.get_by_role("link", name="folder-sizes", exact=True).first.get_attribute("href")
    page.goto(f"{url}/glue/{str(job).rpartition('/')[2]}")


PICTURES = (
    Picture("login", "/login"),
    Picture("dashboard", "/", ready=".u-wrap"),
    Picture("dashboard-dark", "/", theme="dark", ready=".u-wrap"),
    Picture("dashboard-zh", "/", language="zh-CN", ready=".u-wrap"),
    Picture("dashboard-phone", "/", size=PHONE, ready=".u-wrap"),
    Picture("jobs", "/jobs"),
    Picture("jobs-zh", "/jobs", language="zh-CN"),
    Picture("jobs-phone", "/jobs", size=PHONE),
    Picture("job", go=_first("/jobs?name=order-parts", r"/jobs/\d+")),
    Picture("job-new", "/jobs/new"),
    Picture("runs", "/runs"),
    Picture("runs-dark", "/runs", theme="dark"),
    Picture("run", go=_first("/runs", r"/runs/\d+")),
    Picture("run-log", go=_first("/runs?status=SUCCEEDED", r"/runs/\d+/log")),
    Picture("script", go=_script),
    Picture("script-dark", go=_script, theme="dark"),
    Picture("executors", "/executors"),
    Picture("apps", "/apps"),
    Picture("schedulers", "/schedulers"),
    Picture("ledger", "/ledger"),
    Picture("users", "/users"),
    Picture("audit-trail", "/audit"),
    Picture("account", "/account"),
)


def main() -> None:
    """Take every picture, or those that are named."""
    arguments = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    arguments.add_argument("--only", nargs="*", default=[], help="names of pictures")
    arguments.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "images")
    given = arguments.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    chosen = [one for one in PICTURES if not given.only or one.name in given.only]
    with _everything() as (url, password), browser() as found:
        _first_sign_in(found, url, password)
        for picture in chosen:
            _take(found, url, picture, given.folder / f"{picture.name}.png")


@contextmanager
def _everything() -> Iterator[tuple[str, str]]:
    """Give the address and the first password of a `warren up` that has worked for a while."""
    with tempfile.TemporaryDirectory(prefix="warren-pictures-") as folder:
        examples = ROOT / "examples"
        arguments = (
            "--jobs",
            str(examples / "handlers.py"),
            "--apply",
            str(examples / "jobs.yaml"),
        )
        with Command("up", *arguments, folder=Path(folder), env={"WARREN_PORT": "0"}) as up:
            password = up.wait_for("admin password: ", 60).rpartition(" ")[2].strip()
            url = up.wait_for("console   ").split()[1]
            eventually(lambda: up.text().count("  run ") >= RUNS, 300, every=0.5)
            yield url, password


def _first_sign_in(found: Browser, url: str, password: str) -> None:
    page = found.new_page()
    sign_in(page, url, "admin", password)
    choose_password(page, password, PASSWORD)
    page.wait_for_url(f"{url}/**")
    page.close()


def _take(found: Browser, url: str, picture: Picture, path: Path) -> None:
    width, height = picture.size
    context = found.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if picture.theme == "dark" else "light",
        locale=picture.language,
        timezone_id="Europe/Berlin",
    )
    page = context.new_page()
    if picture.name != "login":
        _sign_in(page, url)
    if picture.go is None:
        page.goto(url + picture.path)
    else:
        picture.go(page, url)
    page.locator(picture.ready).first.wait_for()
    page.screenshot(path=path)
    context.close()
    sys.stdout.write(f"{path.stat().st_size / 1000:6.0f} kB  {path.name}\n")


def _sign_in(page: Page, url: str) -> None:
    """Sign in, whatever language the browser wants."""
    page.goto(f"{url}/login")
    page.locator("[name=username]").fill("admin")
    page.locator("[name=password]").fill(PASSWORD)
    page.locator("main form button").first.click()
    page.wait_for_url(re.compile(r"/$"))


if __name__ == "__main__":
    main()
