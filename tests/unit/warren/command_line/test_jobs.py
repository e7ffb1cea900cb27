"""`warren jobs` and `runs list`: several jobs at once, standard input, the runs of one app."""

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import update

from tests.support.stored_rows import Rows
from warren.cli import root
from warren.sql.models import Job

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


CRONTAB = """
jobs:
  - name: half-hourly
    app: mails
    handler: send
    enabled: true
    schedule: {unix_cron: "*/30 * * * *", timezone: Europe/Berlin}
  - {name: nightly, app: mails, handler: send, schedule: {unix_cron: "30 2 * * *"}}
"""


@pytest.fixture
def stored_by_0_1_0(warren: Callable[..., Result], rows: Rows) -> None:
    rows.app("mails")
    warren("jobs", "apply", "-", given=CRONTAB)
    rows.database.write(lambda session: session.execute(update(Job).values(schedule_options=None)))


@pytest.mark.usefixtures("stored_by_0_1_0")
def test_jobs_by_an_older_rule_are_listed_and_moved_when_asked(
    warren: Callable[..., Result],
) -> None:
    unchanged = warren("jobs", "apply", "-", given=CRONTAB)
    refused = warren("jobs", "follow-rules", given="n\n")
    moved = warren("jobs", "follow-rules", "--app", "mails", "--yes", "--json")

    assert "0 changed, 2 unchanged" in unchanged.output
    assert "job 'mails/half-hourly' and 1 more: due by the rule of an earlier" in unchanged.output
    assert "mails/half-hourly" in refused.output
    found = [json.loads(line) for line in moved.output.splitlines()]
    half_hourly, nightly, done = found
    # Autumn's second hour is due twice, spring's missing one not made good.
    assert len(half_hourly["newly_due"]) == 2
    assert half_hourly["no_longer_due"] == []
    assert (nightly["job"], nightly["newly_due"], done) == ("nightly", [], {"moved": 2})
    assert "0 changed, 2 unchanged" in warren("jobs", "apply", "-", given=CRONTAB).output
    assert "every job follows the newest rule" in warren("jobs", "follow-rules").output
    assert "earlier" not in warren("jobs", "apply", "-", given=CRONTAB).output


@pytest.mark.usefixtures("stored_by_0_1_0")
def test_an_exported_job_that_is_applied_keeps_its_rule(warren: Callable[..., Result]) -> None:
    exported = warren("jobs", "export").output
    applied = warren("jobs", "apply", "-", given=exported)

    assert "rule" not in exported
    assert "0 changed" in applied.output
    assert "an earlier version" in warren("jobs", "show", "nightly").output


def test_the_next_clock_changes_are_told(warren: Callable[..., Result], rows: Rows) -> None:
    rows.app("mails")
    berlin = {"timezone": "Europe/Berlin"}
    rows.job("quartz", schedule_kind="CRON", schedule_value="0 30 2 * * ?", **berlin)
    rows.job("daily", schedule_kind="CRON", schedule_value="0 30 9 * * ?", **berlin)
    warren("jobs", "apply", "-", given=CRONTAB)

    quartz, half_hourly = (
        warren("jobs", "next", name).output for name in ("quartz", "half-hourly")
    )

    assert "the clock leaves out 02:00 to 03:00: nothing runs for that time" in quartz
    assert "02:00 to 03:00 comes twice: what is due then runs the second time only" in quartz
    assert "02:00 to 03:00 comes twice: what is due then runs both times" in half_hourly
    assert "the clock" not in warren("jobs", "next", "daily").output
