"""`warren backfill` and `warren backfills`: made, previewed, listed, shown, stopped and refused."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import update

from tests.support.stored_rows import Rows
from warren.cli import root
from warren.sql.models import Backfill

NIGHTLY = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?", "timezone": "UTC"}
WEEK = ("--from", "2026-03-01", "--to", "2026-03-07")


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    yield rows
    rows.database.close()


@pytest.fixture
def warren(rows: Rows, sqlite_schema_url: str) -> Callable[..., Result]:
    url = "--database-url", sqlite_schema_url
    return lambda *arguments, **options: CliRunner().invoke(
        root, [*map(str, arguments), *url], **options
    )


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_backfill_is_made_listed_shown_and_cancelled(
    warren: Callable[..., Result], rows: Rows
) -> None:
    rows.job("daily", **NIGHTLY)

    [made] = lines(warren("backfill", "daily", *WEEK, "--key", "march", "--json"))
    assert (made["due_times"], made["is_new"]) == (7, True)
    [again] = lines(warren("backfill", "daily", *WEEK, "--key", "march", "--json"))
    assert again == made | {"is_new": False}

    [listed] = lines(warren("backfills", "list", "--going", "--json"))
    assert (listed["id"], listed["state"], listed["to_come"]) == (made["id"], "OPEN", 7)
    table = warren("backfills", "list", "--job", "daily").output
    assert "2026-03-01..2026-03-07" in table
    assert "0 of 7" in table

    assert warren("backfills", "pause", made["id"]).exit_code == 0
    [shown] = lines(warren("backfills", "show", made["id"], "--json"))
    assert shown["ticks"][0]["scheduled_at"] == "2026-03-01T02:00:00.000+00:00"
    assert shown["made_at"] == listed["made_at"] == made["made_at"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}\+00:00", made["made_at"])
    assert shown["state"] == "PAUSED"
    assert [tick["run_date"] for tick in shown["ticks"]][::6] == ["2026-03-01", "2026-03-07"]
    assert {tick["state"] for tick in shown["ticks"]} == {"TO_COME"}

    assert warren("backfills", "resume", made["id"]).exit_code == 0
    assert "is cancelled" in warren("backfills", "cancel", made["id"], "--kill").output
    words = warren("backfills", "show", made["id"]).output
    assert "CANCELLED: cancelled by" in words
    assert "LEFT_OUT" in words


def test_a_dry_run_tells_what_would_run_and_makes_nothing(
    warren: Callable[..., Result], rows: Rows
) -> None:
    job_id = rows.job("daily", concurrency=1, **NIGHTLY)
    second = 1_772_416_800_000  # 2026-03-02 02:00
    rows.run(job_id, second, status="SUCCEEDED")

    ticks = lines(warren("backfill", "daily", *WEEK, "--dry-run", "--json"))
    table = warren("backfill", "daily", *WEEK, "--at-once", 2, "--dry-run")

    assert [tick["runs"] for tick in ticks] == [True, False, *[True] * 5]
    assert ticks[1] == {
        "scheduled_at": "2026-03-02T02:00:00.000+00:00",
        "run_date": "2026-03-02",
        "state": "SUCCEEDED",
        "runs": False,
    }
    assert "6 of 7 due times would run" in table.output
    assert "each executor runs 1 at a time" in table.stderr
    assert lines(warren("backfills", "list", "--json")) == []


@pytest.mark.parametrize(
    ("ended", "status", "words"),
    [
        ({"state": "DONE", "succeeded": 6, "skipped": 1}, 0, "DONE; 6 succeeded, 1 skipped"),
        ({"state": "DONE", "succeeded": 6, "failed": 1}, 1, "DONE; 6 succeeded, 1 failed"),
        ({"state": "CANCELLED", "state_reason": "by me"}, 1, "CANCELLED: by me; 7 left out"),
        ({"state": "PAUSED", "ended_at": None}, 1, "PAUSED; 7 to come"),
    ],
)
def test_whoever_waits_for_a_backfill_is_told_by_the_exit_status_how_it_ended(
    warren: Callable[..., Result], rows: Rows, ended: dict[str, Any], status: int, words: str
) -> None:
    rows.job("daily", **NIGHTLY)
    asked = ("backfill", "daily", *WEEK, "--key", "march")
    [made] = lines(warren(*asked, "--json"))
    values = {"ended_at": 9, "decided": 7 if ended["state"] == "DONE" else 0} | ended
    rows.database.write(lambda session: session.execute(update(Backfill).values(**values)))

    told = warren(*asked, "--wait", standalone_mode=False)
    record = warren(*asked, "--wait", "--json", standalone_mode=False)

    assert f"backfill {made['id']} {words}" in told.output
    assert (told.return_value, record.return_value) == (status, status)
    assert json.loads(record.stdout)["state"] == ended["state"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("daily", "--from", "2026-03-02", "--to", "2026-03-01"), "begins before it ends"),
        (("daily", "--from", "2026-03-01", "--to", "2999-01-01"), "the newest that has begun"),
        (("daily", "--from", "1/3/2026", "--to", "2026-03-01"), "1/3/2026"),
        (("often", *WEEK), "expected up to 10,000 due times, got 10,080"),
        (("demand", *WEEK), "job demand has no schedule"),
        (("daily", *WEEK, "--at-once", "101"), "expected at-once to be 1 to 100, got: 101"),
        (("nobody", *WEEK), "nobody"),
        (("daily", *WEEK, "--wait", "--dry-run"), "expected --wait or --dry-run, got both"),
    ],
)
def test_what_cannot_be_filled_is_told_in_one_line(
    warren: Callable[..., Result], rows: Rows, arguments: tuple[str, ...], words: str
) -> None:
    rows.job("daily", **NIGHTLY)
    rows.job("often", schedule_kind="FIX_RATE", schedule_value="60")
    rows.job("demand")

    refused = warren("backfill", *arguments)

    assert refused.exit_code != 0
    assert words in str(refused.exception) or words in refused.output
    assert lines(warren("backfills", "list", "--json")) == []


def test_whoever_stops_a_job_is_told_that_its_backfill_goes_on(
    warren: Callable[..., Result], rows: Rows
) -> None:
    rows.job("daily", **NIGHTLY)
    [made] = lines(warren("backfill", "daily", *WEEK, "--json"))

    assert f"backfill {made['id']} of daily goes on" in warren("jobs", "stop", "daily").stderr
    warren("backfills", "cancel", made["id"])
    assert "goes on" not in warren("jobs", "stop", "daily").stderr
