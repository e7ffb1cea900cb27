"""The command line on a database, and on one with the same content behind an API."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from flask import Flask

from tests.support.api import make_api, make_token
from tests.support.console import Clock, add_user
from tests.support.sample_app import add_sample_app
from tests.support.schemas import SQLiteSchema
from tests.support.stored_rows import Rows
from warren.admin_web.serving.http_server import ConsoleServer
from warren.cli import root
from warren.error_output import report_of
from warren.sql.accounts.users import Role
from warren.sql.ids import RunIds
from warren.sql.instants import DAY_MS

#: So long ago that no relative time changes between two commands.
AGO_MS = 40 * DAY_MS + 12 * 3_600_000
JOBS = """\
apps: [{name: reports}]
defaults: {app: reports, handler: report, timeout: 30}
jobs:
  - {name: new, schedule: {every: 1h}, param: "${PARAM}"}
  - {name: other, schedule: {cron: "0 0 2 ? * 1"}}
"""
DECLARED = """\
from warren import cron, every, job
@job("new", schedule=every("1h"), param="${PARAM}")
def new(context): ...
@job("declared", schedule=cron("0 0 2 * * ?"), enabled=True)
def declared(context): ...
"""
MISDECLARED = (
    DECLARED
    + """\
@job("never", schedule=cron("0 0 2 30 2 ?"))
def never(context): ...
@job("parent", children=["nothing"])
def parent(context): ...
"""
)
PROD = "jobs: [{name: new, app: reports, timeout: 90}]\n"


#: The settings that decide where commands go; none of this process count.
SETTINGS = ("WARREN_DATABASE_URL", "WARREN_API_URL", "WARREN_API_TOKEN")


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    status: int
    out: str
    warnings: str
    errors: tuple[str, ...]


@dataclass
class Desk:
    """Two databases with the same content, one of them behind an API."""

    url: str
    env: dict[str, str]
    rows: Rows
    by_api: Rows
    token: str
    clock: Clock
    ids: dict[str, int]

    def here(self, command: str) -> Said:
        """Run a command on the one database."""
        return said(command.format(**self.ids), {"WARREN_DATABASE_URL": self.url})

    def there(self, command: str, **more: str) -> Said:
        """Run a command on the other, by the API."""
        return said(command.format(**self.ids), self.env | more)


def said(command: str, env: dict[str, str], given: str = "") -> Said:
    """Run a command with these settings and no others."""
    every: dict[str, str | None] = dict.fromkeys(SETTINGS)
    done = CliRunner().invoke(
        root, command.split(), env=every | env, input=given, standalone_mode=False
    )
    status: int = done.return_value or 0
    errors: tuple[str, ...] = ()
    if isinstance(done.exception, Exception):
        report = report_of(done.exception)
        status, errors = report.status, report.lines
    return Said(status, _timeless(done.stdout), done.stderr, errors)


def _timeless(text: str) -> str:
    """Return a text that says neither how many seconds have passed nor who made what when."""
    text = re.sub(r'"(made_at|made_by)": "[^"]+"', r'"\1": "…"', text)
    text = re.sub(r"\b(in )?\d+ s( ago)?", "lately", text)
    return re.sub(" {2,}", "  ", text)  # a column is as wide as its times: `9 s ago`, `10 s ago`


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for name, text in {
        "jobs.yaml": JOBS,
        "jobs.prod.yaml": PROD,
        "wrong.yaml": "jobs: [{name: x, hander: y}]\n",
        "values.yaml": "PARAM: day\n",
        "handlers.py": "from warren import job\n@job('report')\ndef report(context): ...\n",
        "declared.py": DECLARED,
        "misdeclared.py": MISDECLARED,
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def served() -> Iterator[Callable[[Flask], str]]:
    servers = []

    def serve(app: Flask) -> str:
        server = ConsoleServer(app, host="127.0.0.1", port=0, threads=2)
        server.start()
        servers.append(server)
        return f"http://127.0.0.1:{server.port}"

    yield serve
    for server in servers:
        server.stop()


class RealClock(Clock):
    """The clock of this machine, which the commands on a database have too."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class GaplessIds(RunIds):
    """Ids without the gaps of a server's reserve, like those of a command on a database."""

    def reserve(self) -> None:
        """Reserve none."""


@pytest.fixture
def desk(
    folder: Path, sqlite_schema: SQLiteSchema, served: Callable[[Flask], str]
) -> Iterator[Desk]:
    now_ms = time.time_ns() // 1_000_000
    here = sqlite_schema.copy(folder / "here.db")
    rows = Rows(here)
    made = add_sample_app(rows, "reports", lambda name: name, now_ms - AGO_MS)
    with rows.database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(folder / "here.db", folder / "there.db")
    by_api = Rows(f"sqlite:///{folder}/there.db")
    clock = Clock()
    clock.now = now_ms
    add_user(by_api.database, "admin", Role.ADMINISTRATOR)
    token = make_token(by_api.database, clock)
    url = served(make_api(by_api.database, RealClock(), run_ids=GaplessIds(by_api.database)))
    env = {"WARREN_API_URL": url, "WARREN_API_TOKEN": token}
    yield Desk(here, env, rows, by_api, token, clock, made.ids)
    rows.database.close()
    by_api.database.close()
