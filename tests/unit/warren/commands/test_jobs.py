"""`warren jobs` and `runs list`: several jobs at once, standard input, the runs of one app."""

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from tests.support.stored_rows import Rows
from warren.cli import root

DUE_MS = 1_795_183_200_000
FILE = """
apps: [{name: mails}]
jobs: [{name: hourly, app: mails, handler: send, schedule: {every: 1h}}]
"""


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    yield rows
    rows.database.close()


@pytest.fixture
def warren(rows: Rows, sqlite_schema_url: str) -> Callable[..., Result]:
    url = "--database-url", sqlite_schema_url

    def call(*arguments: str, given: str = "") -> Result:
        return CliRunner().invoke(root, [*arguments, *url], input=given)

    return call


def test_several_jobs_are_stopped_and_started_at_once(
    warren: Callable[..., Result], rows: Rows
) -> None:
    for name in ("a", "b"):
        rows.job(name, schedule_kind="FIX_RATE", schedule_value="60")

    assert warren("jobs", "start", "a", "b").output == "a started\nb started\n"
    assert warren("jobs", "stop", "b", "nothing").exit_code
    assert warren("jobs", "stop", "a", "b").output == "a stopped\nb stopped\n"


def test_file_from_standard_input_is_applied(warren: Callable[..., Result]) -> None:
    done = warren("jobs", "apply", "-", given=FILE)
    wrong = warren("jobs", "apply", "-", given=FILE.replace("handler", "hander"))

    assert "created job mails/hourly" in done.output
    assert "standard input:3: unknown field 'hander', did you mean 'handler'?" in str(
        wrong.exception
    )


def test_runs_of_one_app_are_listed(warren: Callable[..., Result], rows: Rows) -> None:
    warren("jobs", "apply", "-", given=FILE)
    run_id = rows.run(rows.job("nightly"), DUE_MS, status="FAILED")

    for more in ((), ("--unresolved",)):
        found = warren("runs", "list", "--app", "reports", "--json", *more).output
        assert [json.loads(line)["id"] for line in found.splitlines()] == [run_id]
        assert warren("runs", "list", "--app", "mails", "--json", *more).output == ""
    assert "nowhere" in str(warren("runs", "list", "--app", "nowhere").exception)
