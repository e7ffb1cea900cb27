"""Measures every page of the console over HTTP: `python -m benchmarks.console [--quick]`.

The database holds 100,000 jobs and 10,000,000 runs; a real `warren console` answers one request at
a time, so each figure is what one person waits. Filling it takes some minutes and about 6 GB of
disk.
"""

import argparse
import re
import statistics
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from http.cookiejar import CookieJar
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks import databases
from benchmarks.console_rows import EXECUTORS, PASSWORD, SCRIPT_JOB, TEAMS, Size, fill
from benchmarks.servers import Servers, servers
from benchmarks.stack import SECRET
from tests.support.eventually import eventually
from tests.support.service import Service
from warren.database_access import now_ms
from warren.sql.engine import Database
from warren.sql.models import Registration, Run

FULL, QUICK = Size(100_000, 10_000_000, 20), Size(2_000, 20_000, 20)
ROUNDS, QUICK_ROUNDS = 40, 2
#: The goal, at the 95th percentile.
GOAL_MS = 300
#: Bytes of a download to wait for.
BEGINNING = 8_192
METRICS_TOKEN = "only for measuring"
#: Time limit of a statement that fills a table.
FILLING_SECONDS = 3_600


class Page(NamedTuple):
    """A page: its name and path."""

    name: str
    path: str


#: Each request gets other values for {name}, as people open different jobs and runs.
PAGES = (
    Page("board", "/"),
    Page("board, what recovered", "/?tab=recovered"),
    Page("board, all jobs", "/?tab=all"),
    Page("runs by day", "/overview"),
    Page("runs by day, 30 days", "/overview?range=30"),
    Page("incidents", "/incidents"),
    Page("queue", "/queue"),
    Page("jobs", "/jobs"),
    Page("jobs, a page from the middle", "/jobs?after=10/job-{job}"),
    Page("jobs of one app, next fire first", "/jobs?app=app-1&order=due"),
    Page("jobs, the greatest change first", "/jobs?order=change"),
    Page("jobs, the longest first, from the middle", "/jobs?order=took&after={job}"),
    Page("jobs that are stopped", "/jobs?state=stopped"),
    Page("jobs by a part of their name", "/jobs?name={part}"),
    Page("jobs by a name that none has", "/jobs?name=nowhere"),
    Page("jobs by handler and author", "/jobs?handler=handler-{part}&author=author-9"),
    Page("jobs with a tag", "/jobs?tag=team-{team}"),
    Page("jobs that are favourites", "/jobs?favourites=1"),
    Page("jobs as CSV, the beginning", "/jobs?format=csv"),
    Page("job, with its family", "/jobs/{job}"),
    Page("job, history", "/jobs/{job}/history"),
    Page("job, edit", "/jobs/{job}/edit"),
    Page("job, the form's preview", "/jobs/preview?schedule_kind=CRON&cron={cron}"),
    Page("runs", "/runs"),
    Page("runs, a page from the middle", "/runs?until={hour}"),
    Page("runs that failed in any way", "/runs?status=failures"),
    Page("runs that were lost", "/runs?status=LOST"),
    Page("runs in a state that none has", "/runs?status=UNDELIVERED"),
    Page("runs of one job", "/runs?app=app-2&job=job-{job}"),
    Page("runs of one job that failed", "/runs?app=app-2&job=job-{job}&status=failures"),
    Page("runs by hand", "/runs?kind=MANUAL"),
    Page("runs by a cause that none has", "/runs?kind=PARENT"),
    Page("runs at one executor", "/runs?address=exec-{executor}"),
    Page("runs at one executor that failed", "/runs?address=exec-{executor}&status=FAILED"),
    Page("runs at an executor that there is not", "/runs?address=nowhere"),
    Page("runs of one hour", "/runs?since={hour}&until={next_hour}"),
    Page("runs by words that none says", "/runs?text=no+such+words"),
    Page("runs by words of their message", "/runs?text=line+is+bad"),
    Page("runs by a part of a job's name", "/runs?app=app-2&job=ob-{job}"),
    Page("runs, how many match", "/runs/total"),
    Page("runs, how many failed", "/runs/total?status=failures"),
    Page("runs grouped by error", "/runs/errors"),
    Page("runs of one app grouped by error", "/runs/errors?app=app-2&period=night"),
    Page("runs as CSV, the beginning", "/runs?format=csv"),
    Page("runs that failed as JSON, the beginning", "/runs?status=failures&format=json"),
    Page("find a job by a part of its name", "/find?part=1&q=b-{part}"),
    Page("find a run by its id", "/find?part=1&q={run}"),
    Page("find what there is not", "/find?part=1&q=nowhere"),
    Page("timeline", "/timeline"),
    Page("timeline of one app", "/timeline?app=app-2&zoom=1"),
    Page("timeline by app", "/timeline?rows=app"),
    Page("run", "/runs/{run}"),
    Page("run, log", "/runs/{run}/log"),
    Page("clear runs", "/runs/clear"),
    Page("script", "/glue/{script}"),
    Page("apps", "/apps"),
    Page("executors", "/executors"),
    Page("executors, busiest first", "/executors?order=slots"),
    Page("executor, loads of an hour and a day", "/executors/{executor_id}"),
    Page("schedulers", "/schedulers"),
    Page("account", "/account"),
)
#: For administrators only.
MORE = (
    Page("ledger", "/ledger"),
    Page("users", "/users"),
    Page("audit log", "/audit"),
    Page("audit log of one author", "/audit?who=author-{part}"),
    Page("audit log of one job", "/audit?kind=job&name=app-1/job-{job}"),
    Page("audit log of one kind and day", "/audit?kind=job&since={day}&until={day}"),
    Page("audit log of a name that none has", "/audit?name=nowhere"),
    Page("audit log as CSV, the beginning", "/audit?format=csv"),
    Page("figures for Prometheus", "/metrics"),
)


class Visitor:
    """A user who has signed in."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(CookieJar()), urllib.request.ProxyHandler({})
        )
        # Only needed for /metrics.
        self._opener.addheaders = [("Authorization", f"Bearer {METRICS_TOKEN}")]
        token = re.search(r'name="csrf_token" value="([^"]+)"', self.get("/login"))
        assert token is not None
        form = {"username": name, "password": PASSWORD, "csrf_token": token[1]}
        body = urllib.parse.urlencode(form).encode()
        with self._opener.open(f"{url}/login", body, timeout=60) as answer:
            assert not answer.url.endswith("/login"), "the sign-in was refused"

    def get(self, path: str) -> str:
        """Return a page; any status but 200 is an error."""
        with self._opener.open(self._url + path, timeout=60) as answer:
            return str(answer.read().decode(errors="ignore"))

    def milliseconds_of(self, path: str) -> float:
        """Return how long a page takes, or the beginning of a file, which is then given up."""

        def look() -> float | None:
            began = time.perf_counter()
            try:
                with self._opener.open(self._url + path, timeout=60) as answer:
                    answer.read(BEGINNING if "format=" in path else None)
                    return (time.perf_counter() - began) * 1000
            except HTTPError as error:
                if error.code != HTTPStatus.TOO_MANY_REQUESTS:
                    raise
                return None  # a user gets one file at a time, and the last one has not ended yet

        return float(eventually(look, 60.0))


def main() -> None:
    """Fill, measure and print."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="few rows, in half a minute")
    arguments.add_argument("--jobs", type=int, help="another number of jobs")
    arguments.add_argument("--runs", type=int, help="another number of runs")
    arguments.add_argument("--apps", type=int, help="another number of apps")
    arguments.add_argument(
        "--pages", nargs="+", default=[""], metavar="PART", help="only pages with one in their name"
    )
    databases.add_option(arguments)
    given = arguments.parse_args()
    usual = QUICK if given.quick else FULL
    size = Size(given.jobs or usual.jobs, given.runs or usual.runs, given.apps or usual.apps)
    rounds = QUICK_ROUNDS if given.quick else ROUNDS
    with (
        tempfile.TemporaryDirectory(prefix="warren-bench-") as folder,
        servers(Path(folder), given.database) as own,
    ):
        amounts = f"{size.jobs:,} jobs of {size.apps} apps and {size.runs:,} runs"
        print(own.facts(), amounts, sep="\n", flush=True)
        _measure(own, size, rounds, given.pages)


def _measure(own: Servers, size: Size, rounds: int, parts: Sequence[str]) -> None:
    if size.runs >= FULL.runs:
        own.measured.take_memory()
    url = own.database.create_database()
    database = Database(url, answer_seconds=FILLING_SECONDS)
    now = now_ms(database)
    fill(database, size, now, _say)
    places = database.read(lambda session: list(islice(_places(session, size, now), rounds + 1)))
    database.close()
    _say("changed pages are written")
    own.measured.settle(url.rpartition("/")[2])
    console = _console(own, url)
    try:
        address = _address(console, own.folder / "console.log")
        print(f"{'page':<56}{'first':>9}{'p50':>9}{'p95':>9}   goal")
        for name, pages in (("admin", (*PAGES, *MORE)), ("operator", PAGES)):
            visitor = Visitor(address, name)
            for page in pages:
                if any(part in page.name for part in parts):
                    _print(f"{page.name} ({name})", list(_times(visitor, page.path, places)))
    finally:
        console.end()


def _places(session: Session, size: Size, now_ms: int) -> Iterator[dict[str, Any]]:
    """Yield values for the names in paths: different jobs, runs and hours each time."""
    executors = session.scalars(select(Registration.id).where(Registration.app == "app-2")).all()
    for number in count():
        # In app-2, so that both users may see it.
        job_id = 1 + size.apps * (1 + number * 1_237 % (size.jobs // size.apps - 2))
        statement = select(Run.id).where(Run.job_id == job_id, Run.finished_at.is_not(None))
        hour = now_ms - (10 * 24 + number) * 3_600_000
        yield {
            "job": job_id,
            "run": session.execute(statement.limit(1)).scalar_one(),
            "part": number % 90 + 10,
            "executor": number % EXECUTORS,
            "executor_id": executors[number % len(executors)],
            "team": number % TEAMS,
            "day": time.strftime("%Y-%m-%d", time.gmtime(now_ms // 1000)),
            "script": SCRIPT_JOB,
            "cron": urllib.parse.quote(f"{number} 0 3 ? * MON-FRI"),
            "hour": time.strftime("%Y-%m-%dT%H:%M", time.gmtime(hour // 1000)),
            "next_hour": time.strftime("%Y-%m-%dT%H:%M", time.gmtime(hour // 1000 + 3600)),
        }


def _console(own: Servers, url: str) -> Service:
    environment = {
        "WARREN_DATABASE_URL": url,
        "WARREN_BROKER_URL": own.rabbitmq.vhost_url(own.rabbitmq.add_vhost()),
        "WARREN_SECRET": SECRET,
        "WARREN_TIMEZONE": "UTC",
        "WARREN_PORT": "0",
        "WARREN_METRICS_TOKEN": METRICS_TOKEN,
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


def _times(visitor: Visitor, path: str, places: Sequence[dict[str, Any]]) -> Iterator[float]:
    for place in places:
        yield visitor.milliseconds_of(path.format(**place))


def _print(what: str, times: list[float]) -> None:
    """Print a line; the first request, with cold caches, is shown separately."""
    first, *rest = times
    middle = statistics.median(rest)
    most = statistics.quantiles(rest, n=20, method="inclusive")[-1]
    verdict = "" if most <= GOAL_MS else f"above {GOAL_MS} ms"
    line = f"{what:<56}{first:>6.0f} ms{middle:>6.0f} ms{most:>6.0f} ms   {verdict}"
    print(line.rstrip(), flush=True)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
