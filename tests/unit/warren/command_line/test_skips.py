"""Due times that were skipped, as `runs list --skips` and `jobs show` tell them."""

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from tests.support.stored_rows import Rows
from warren.cli import root
from warren.sql.instants import iso

DUE_MS, LAST_MS = 1_795_183_200_000, 1_795_190_400_000
REASON = "no scheduler could send it in time; its job skips what it missed"
SKIP = {
    "job": "nightly",
    "app": "reports",
    "from_at": iso(DUE_MS),
    "to_at": iso(LAST_MS),
    "count": 3,
    "reason": REASON,
}


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    rows.skip(rows.job("nightly"), DUE_MS, LAST_MS, count=3, reason=REASON)
    rows.skip(rows.job("other"), DUE_MS - 1, count=1, reason="over 100 runs are overdue")
    yield rows
    rows.database.close()


@pytest.fixture
def warren(rows: Rows, sqlite_schema_url: str) -> Callable[..., Result]:
    url = "--database-url", sqlite_schema_url
    return lambda *arguments: CliRunner().invoke(root, [*arguments, *url])


def test_skips_are_listed_latest_first_with_their_times_and_cause(
    warren: Callable[..., Result],
) -> None:
    found = [
        json.loads(one)
        for one in warren("runs", "list", "--skips", "--json").output.split("\n")
        if one
    ]

    assert [one["job"] for one in found] == ["nightly", "other"]
    assert SKIP.items() <= found[0].items()


def test_skips_are_listed_of_one_job_and_since_a_time(warren: Callable[..., Result]) -> None:
    only = warren("runs", "list", "--skips", "--job", "other", "--timezone", "UTC").output
    late = warren("runs", "list", "--skips", "--since", "2026-11-20T15:00:00Z").output

    assert "2026-11-20 13:59:59" in only
    assert "overdue" in only
    assert "nightly" not in only
    assert "nightly" in late
    assert "other" not in late


def test_skips_have_no_status(warren: Callable[..., Result]) -> None:
    refused = warren("runs", "list", "--skips", "--status", "FAILED")

    assert "expected --skips without --status, --run-date, --tick, --app, --" in refused.output


def test_a_jobs_skips_are_shown_with_it(warren: Callable[..., Result]) -> None:
    [told] = json.loads(warren("jobs", "show", "nightly", "--json").output)["skips"]
    shown = warren("jobs", "show", "nightly").output

    assert SKIP.items() <= told.items()
    assert REASON in shown.partition("Due times that were skipped:")[2]
