"""A database of XXL-JOB beside one of Warren, and the command between them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import select

from tests.support.mariadb import PrivateMariaDB
from tests.support.stored_rows import Rows
from tests.support.xxl_job_tables import XxlJobDatabase
from warren.cli import root
from warren.error_output import report_of
from warren.sql.models import App, Job


class ImportCase:
    """Runs `warren import xxl-job` from one database into another."""

    def __init__(self, xxl: XxlJobDatabase, target: str, folder: Path) -> None:
        self.xxl = xxl
        self.url = target
        self.rows = Rows(target)
        self.folder = folder
        self.password_file = folder / "password"
        self.password_file.write_text(xxl.password)

    def run(self, *options: str, place: str = "", zone: str = "Asia/Shanghai") -> str:
        """Return what the command prints, or the line of its error."""
        given = [] if place else ["--password-file", str(self.password_file)]
        arguments = ["import", "xxl-job", place or self.xxl.url, *given, "--timezone", zone]
        result = CliRunner(env={"WARREN_DATABASE_URL": self.url}).invoke(
            root, [*arguments, *options], standalone_mode=False
        )
        if isinstance(result.exception, Exception):
            report = report_of(result.exception)
            if report.is_unexpected:
                raise result.exception
            return "\n".join(f"error: {line}" for line in report.lines)
        return result.output

    def findings(self, *options: str, **where: str) -> list[dict[str, Any]]:
        """Return what it finds and does, as values."""
        return [json.loads(line) for line in self.run("--json", *options, **where).splitlines()]

    def outcomes(self, *options: str) -> dict[str, str]:
        """Return what became of each app, job and user."""
        return {
            f"{one['what']} {one['name']}": one["did"]
            for one in self.findings(*options)
            if one["type"] == "outcome"
        }

    def job(self, job_id: int) -> Job:
        return self.rows.database.read(lambda session: session.get_one(Job, job_id))

    def named(self, name: str) -> Job:
        return self.rows.database.read(
            lambda session: session.execute(select(Job).where(Job.name == name)).scalar_one()
        )

    def app(self, app_id: int) -> App:
        return self.rows.database.read(lambda session: session.get_one(App, app_id))


@pytest.fixture
def xxl(mysql_server: PrivateMariaDB) -> Iterator[XxlJobDatabase]:
    """A database with 3.4's columns and no rows."""
    database = XxlJobDatabase(mysql_server)
    yield database
    database.close()


@pytest.fixture(params=["sqlite", pytest.param("mariadb", marks=pytest.mark.twin)])
def case(
    request: pytest.FixtureRequest, xxl: XxlJobDatabase, tmp_path: Path
) -> Iterator[ImportCase]:
    """An import into SQLite, and one into MariaDB.

    Both run in `make test` where the test says `pytest.mark.both` and why, as with `cluster`.
    """
    target: str = request.getfixturevalue(f"{request.param}_schema_url")
    made = ImportCase(xxl, target, tmp_path)
    yield made
    made.rows.database.close()


@pytest.fixture
def make_case(
    mysql_server: PrivateMariaDB, sqlite_schema_url: str, tmp_path: Path
) -> Iterator[Callable[[str], ImportCase]]:
    """Make an import into SQLite from a database with the columns of a version."""
    made: list[ImportCase] = []

    def make(version: str) -> ImportCase:
        made.append(ImportCase(XxlJobDatabase(mysql_server, version), sqlite_schema_url, tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.rows.database.close()
        one.xxl.close()
