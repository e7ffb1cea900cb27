"""Measures every page of the console over HTTP: `python -m benchmarks.console [--quick]`.

MariaDB holds 100,000 jobs and 10,000,000 runs; a real `warren console` answers, one request at a
time, so that a figure is what one person waits. Filling takes some minutes and about 6 GB of disk.
"""

import argparse
import re
import statistics
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import select

from benchmarks.console_rows import PASSWORD, SCRIPT_JOB, Size, fill
from benchmarks.stack import SECRET, Servers, servers
from sql.engine import Database
from sql.models import Run
from tests.support.eventually import eventually
from tests.support.service import Service
from warren.access import now_ms

FULL, QUICK = Size(100_000, 10_000_000), Size(2_000, 20_000)
ROUNDS, QUICK_ROUNDS = 40, 3
#: The goal, at the 95th percentile.
GOAL_MS = 300
#: A statement that fills may take so long.
FILLING_SECONDS = 3_600
#: What a server for so many rows would be given at least.
BUFFER_POOL = 1 << 30


class Page(NamedTuple):
    """A page by what it is called and its path."""

    name: str
    path: str


PAGES = (
    Page("dashboard", "/"),
    Page("dashboard, 30 days", "/?range=30"),
    Page("jobs", "/jobs"),
    Page("jobs of one app, next fire first", "/jobs?app=app-1&order=due"),
    Page("jobs by a part of their name", "/jobs?name=99"),
    Page("jobs by a name that none has", "/jobs?name=nowhere"),
    Page("job", "/jobs/{job}"),
    Page("job, edit", "/jobs/{job}/edit"),
    Page("runs", "/runs"),
    Page("runs that failed", "/runs?status=FAILED"),
    Page("runs of one job", "/runs?app=app-1&job=job-20"),
    Page("runs by hand", "/runs?kind=MANUAL"),
    Page("runs at one executor", "/runs?address=exec-7"),
    Page("runs at an executor that there is not", "/runs?address=nowhere"),
    Page("runs of one hour", "/runs?since={hour}&until={next_hour}"),
    Page("run", "/runs/{run}"),
    Page("run, log", "/runs/{run}/log"),
    Page("clear runs", "/runs/clear"),
    Page("script", "/glue/{script}"),
    Page("apps", "/apps"),
    Page("executors", "/executors"),
    Page("schedulers", "/schedulers"),
    Page("account", "/account"),
)
#: For administrators only.
MORE = (
    Page("ledger", "/ledger"),
    Page("users", "/users"),
    Page("audit trail", "/audit"),
    Page("audit trail of one author", "/audit?who=author-7"),
)


class Visitor:
    """Somebody who has signed in."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(CookieJar()), urllib.request.ProxyHandler({})
        )
        token = re.search(r'name="csrf_token" value="([^"]+)"', self.get("/login"))
        assert token is not None
        form = {"username": name, "password": PASSWORD, "csrf_token": token[1]}
        body = urllib.parse.urlencode(form).encode()
        with self._opener.open(f"{url}/login", body, timeout=60) as answer:
            assert not answer.url.endswith("/login"), "the sign-in was refused"

    def get(self, path: str) -> str:
        """Return a page; any answer but 200 is an error."""
        with self._opener.open(self._url + path, timeout=60) as answer:
            return str(answer.read().decode())


def main() -> None:
    """Fill, measure and print."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="few rows, in half a minute")
    arguments.add_argument("--jobs", type=int, help="another number of jobs")
    arguments.add_argument("--runs", type=int, help="another number of runs")
    given = arguments.parse_args()
    usual = QUICK if given.quick else FULL
    size = Size(given.jobs or usual.jobs, given.runs or usual.runs)
    rounds = QUICK_ROUNDS if given.quick else ROUNDS
    with (
        tempfile.TemporaryDirectory(prefix="warren-bench-") as folder,
        servers(Path(folder)) as own,
    ):
        print(own.facts(), f"{size.jobs:,} jobs and {size.runs:,} runs", sep="\n", flush=True)
        _measure(own, size, rounds)


def _measure(own: Servers, size: Size, rounds: int) -> None:
    if size.runs >= FULL.runs:
        own.mariadb.execute(f"SET GLOBAL innodb_buffer_pool_size = {BUFFER_POOL}")
    url = own.mariadb.create_database()
    database = Database(url, answer_seconds=FILLING_SECONDS)
    now = now_ms(database)
    fill(database, size, now, _say)
    places = _places(database, now)
    database.close()
    console = _console(own, url)
    try:
        address = _address(console, own.folder / "console.log")
        print(f"{'page':<52}{'p50':>9}{'p95':>9}   goal")
        for name, pages in (("admin", (*PAGES, *MORE)), ("operator", PAGES)):
            visitor = Visitor(address, name)
            for page in pages:
                path = page.path.format(**places)
                _print(f"{page.name} ({name})", list(_times(visitor, path, rounds)))
    finally:
        console.end()


def _places(database: Database, now: int) -> dict[str, str]:
    """Return ids and hours for the pages' paths; the run is one of those in the middle."""
    # Of app-2, so that both who look may see it.
    statement = select(Run.id).where(Run.job_id == 21, Run.finished_at.is_not(None)).limit(1)
    run_id = database.read(lambda session: session.execute(statement).scalar_one())
    hour = now - 10 * 86_400_000
    return {
        "job": "21",
        "run": str(run_id),
        "script": str(SCRIPT_JOB),
        "hour": time.strftime("%Y-%m-%dT%H:%M", time.gmtime(hour // 1000)),
        "next_hour": time.strftime("%Y-%m-%dT%H:%M", time.gmtime(hour // 1000 + 3600)),
    }


def _console(own: Servers, url: str) -> Service:
    environment = {
        "WARREN_DATABASE_URL": url,
        "WARREN_BROKER_URL": own.rabbitmq.vhost_url(own.rabbitmq.add_vhosts(1)[0]),
        "WARREN_SECRET": SECRET,
        "WARREN_TIMEZONE": "UTC",
        "WARREN_PORT": "0",
        "WARREN_LOG_LEVEL": "warning",
    }
    command = [str(Path(sys.executable).with_name("warren")), "console"]
    return Service(command, env=environment, output=own.folder / "console.log")


def _address(console: Service, output: Path) -> str:
    def look() -> str:
        assert not console.has_ended, output.read_text()
        found = re.search(r"^console: (\S+)$", output.read_text(), re.MULTILINE)
        return found[1] if found else ""

    return eventually(look, 30.0)


def _times(visitor: Visitor, path: str, rounds: int) -> Iterator[float]:
    visitor.get(path)
    for _ in range(rounds):
        began = time.perf_counter()
        visitor.get(path)
        yield (time.perf_counter() - began) * 1000


def _print(what: str, times: list[float]) -> None:
    middle = statistics.median(times)
    most = statistics.quantiles(times, n=20, method="inclusive")[-1]
    verdict = "" if most <= GOAL_MS else f"above {GOAL_MS} ms"
    print(f"{what:<52}{middle:>6.0f} ms{most:>6.0f} ms   {verdict}".rstrip(), flush=True)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
