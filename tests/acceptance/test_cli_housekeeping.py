"""`warren report`, `warren runs clear` and `warren schedulers list` as a user types them."""

import socket
import time
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.acceptance.test_cli_jobs import Desk
from tests.support.schemas import SQLiteSchema
from warren.scheduler.retention.reporter import Reporter
from warren.sql.registry.presence import process_name

DAY = 86_400_000
#: Zones whose clocks never show the same day.
FAR_WEST, FAR_EAST = "Pacific/Pago_Pago", "Pacific/Kiritimati"


@pytest.fixture
def desk(tmp_path: Path, sqlite_schema: SQLiteSchema, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Two jobs; runs of today, yesterday and 100 days ago."""
    desk = Desk(tmp_path, sqlite_schema)
    now = time.time_ns() // 1_000_000
    one, two = desk.rows.job("one"), desk.rows.job("two")
    for days in (0, 1, 100):
        desk.rows.run(one, now - days * DAY, status="SUCCEEDED")
    desk.rows.run(two, now - DAY, status="FAILED")
    desk.rows.run(two, now - 100 * DAY, status="PLANNED")
    return desk


def count_days(desk: Desk, zone: str = "UTC") -> None:
    database = desk.rows.database
    reporter = Reporter(node="test", database=database, timezone=zone, round_seconds=60.0)
    reporter.run_round(time.time_ns() // 1_000_000)


def today(zone: str = "UTC") -> str:
    return datetime.now(ZoneInfo(zone)).date().isoformat()


def test_report_shows_each_day_and_the_sum(desk: Desk) -> None:
    count_days(desk)

    table = desk.warren("report", "--since", "1d").stdout.splitlines()
    listed = desk.listed("report", "--since", "1d", "--json")

    assert table[0].split() == [
        "DAY",
        "(UTC)",
        "TOTAL",
        "SUCCEEDED",
        "FAILED",
        "SKIPPED",
        "RUNNING",
        "SUCCESS",
    ]
    assert table[-1].split()[:5] == ["all", "3", "2", "1", "0"]
    assert [(one["total"], one["success_share"]) for one in listed] == [(2, 0.5), (1, 1.0)]
    assert (listed[-1]["day"], listed[-1]["timezone"]) == (today(), "UTC")
    assert len(desk.listed("report", "--json")) == 7
    assert len(desk.listed("report", "--since", "400d", "--json")) == 101


def test_days_are_labelled_with_the_zone_as_it_is_written(desk: Desk) -> None:
    count_days(desk)

    table = desk.warren("report", "--timezone", "Asia/Shanghai").stdout.splitlines()

    assert table[0].startswith("DAY (Asia/Shanghai)  TOTAL")


def test_days_are_those_of_the_schedulers_whoever_asks(desk: Desk) -> None:
    desk.rows.scheduler("far", 1, zone=FAR_WEST)
    count_days(desk, FAR_WEST)
    since = ("--since", today(FAR_WEST))

    table = desk.warren("report", *since, "--timezone", FAR_EAST).stdout.splitlines()
    listed = desk.listed("report", *since, "--json", "--timezone", FAR_EAST)

    assert table[0].startswith(f"DAY ({FAR_WEST})  TOTAL")
    assert [(one["day"], one["timezone"], one["total"]) for one in listed] == [
        (today(FAR_WEST), FAR_WEST, 1)
    ]


def test_report_without_a_scheduler_says_so(desk: Desk) -> None:
    done = desk.warren("report")

    assert done.stdout == ""
    assert done.stderr == "no report for these days yet; is a scheduler running?\n"


def test_runs_are_cleared_by_age_by_number_and_all(desk: Desk) -> None:
    assert desk.warren("runs", "clear", "--older-than", "90d", "--dry-run").stdout == (
        "1 run would be cleared\n"
    )
    assert len(desk.listed("runs", "list", "--json")) == 5

    assert desk.warren("runs", "clear", "--older-than", "90d").stdout == "1 run cleared\n"
    assert desk.warren("runs", "clear", "--job", "one", "--keep", "1").stdout == "1 run cleared\n"
    assert desk.warren("runs", "clear", "--app", "reports", "--all").stdout == "2 runs cleared\n"

    [left] = desk.listed("runs", "list", "--json")
    assert left["status"] == "PLANNED"


def test_clearing_does_not_lower_the_report(desk: Desk) -> None:
    count_days(desk)
    desk.warren("runs", "clear", "--all")
    count_days(desk)

    listed = desk.listed("report", "--since", "1d", "--json")

    assert [one["total"] for one in listed] == [2, 1]


def test_cleared_runs_stay_in_the_days_of_the_schedulers_whoever_clears_them(desk: Desk) -> None:
    desk.rows.scheduler("far", 1, zone=FAR_WEST)
    count_days(desk, FAR_WEST)
    before = totals(desk)

    desk.warren("runs", "clear", "--all", "--timezone", FAR_EAST)
    count_days(desk, FAR_WEST)

    assert totals(desk) == before
    assert sum(before.values()) == 5


def totals(desk: Desk) -> dict[object, int]:
    listed = desk.listed("report", "--since", "102d", "--json")
    return {one["day"]: int(str(one["total"])) for one in listed if one["total"]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected one of --older-than, --keep and --all"),
        (("--all", "--keep", "3"), "expected one of --older-than, --keep and --all"),
        (("--job", "one", "--app", "reports", "--all"), "expected --job or --app, got both"),
        (("--keep", "0"), "0 is not in the range"),
        (("--older-than", "soon"), "expected a time like"),
        (("--older-than", ""), "expected a time like"),
    ],
)
def test_a_clearing_that_does_not_say_what_is_wrong_usage(
    desk: Desk, arguments: tuple[str, ...], words: str
) -> None:
    done = desk.warren("runs", "clear", *arguments, status=2)

    assert words in done.stderr
    assert len(desk.listed("runs", "list", "--json")) == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--job", "nix", "--all"), "no job named 'nix'"),
        (("--app", "nix", "--all"), "no app named 'nix'"),
    ],
)
def test_what_cannot_be_cleared_is_one_line(
    desk: Desk, arguments: tuple[str, ...], words: str
) -> None:
    assert words in desk.refused("runs", "clear", *arguments)
    assert len(desk.listed("runs", "list", "--json")) == 5


def test_a_pause_of_an_app_has_a_reason_and_an_end_and_is_shown_with_the_schedulers(
    desk: Desk,
) -> None:
    desk.rows.scheduler("node-1", time.time_ns() // 1_000_000)
    desk.warren("apps", "add", "printing")

    done = desk.warren("pause", "--app", "printing", "--reason", "new disk", "--for", "2h")
    again = desk.warren("pause", "--app", "printing", "--reason", "new disk")
    shown = desk.warren("schedulers", "list").stdout
    endless = desk.warren("pause", "--app", "printing", "--no-until")

    assert "paused; to resume: warren resume --app printing" in done.stdout
    assert "it was already paused" in again.stdout
    assert "app printing is paused by cli:" in shown
    assert " until " in shown
    assert "it was already paused; its reason or end has changed" in endless.stdout
    assert " until " not in desk.warren("schedulers", "list").stdout
    assert ": new disk; to resume: warren resume --app printing" in shown
    assert "resumed" in desk.warren("resume", "--app", "printing").stdout
    assert "paused" not in desk.warren("schedulers", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--until", "2020-01-01"), "expected the pause to end between now and"),
        (("--until", "1970-01-01T00:00Z"), "expected the pause to end between now and"),
        (("--for", "999999999w"), "and the year 9999, got: 9999-12-31T23:59:59.999+00:00"),
        (("--reason", "x" * 201), "expected reason to be a line of up to 200 characters"),
        (("--app", "nix"), "no app named 'nix'"),
    ],
)
def test_a_pause_that_cannot_be_is_refused_in_one_line(
    desk: Desk, arguments: tuple[str, ...], words: str
) -> None:
    assert words in desk.refused("pause", *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--for", "soon"), "expected --for to be a duration such as 90s, 5m"),
        (("--for", "0h"), "expected --for to be a duration such as 90s, 5m"),
        (("--for", ""), "expected --for to be a duration such as 90s, 5m"),
        (("--until", ""), "expected --until to be a time like"),
        (("--until", "noon"), "expected --until to be a time like"),
        (("--for", "2h", "--no-until"), "give only one of --until, --for and --no-until"),
    ],
)
def test_a_pause_with_an_end_that_is_none_is_wrong_usage(
    desk: Desk, arguments: tuple[str, ...], words: str
) -> None:
    assert words in desk.refused("pause", *arguments, status=2)


def test_a_scheduler_of_another_host_is_not_alive_on_this_one(desk: Desk) -> None:
    host, now_ms = socket.gethostname(), time.time_ns() // 1_000_000 + 3_600_000
    desk.rows.scheduler(f"{host[:46]}-2-a1b2c3", now_ms)

    assert desk.refused("check", "--alive") == f"scheduler: no scheduler on {host} is alive"
    other = desk.refused("check", "--alive", "--for", "gateway", status=2)
    assert "expected --alive for scheduler, executor, console or api, got: gateway" in other

    desk.rows.scheduler(process_name(host, "b00t1d"), now_ms)
    assert desk.warren("check", "--alive").stdout.startswith(
        f"ok     scheduler: {host[:48]}-b00t1d"
    )


def test_who_paused_and_when_is_shown_with_the_schedulers(desk: Desk) -> None:
    desk.rows.scheduler("node-1", time.time_ns() // 1_000_000)
    desk.warren("pause")

    done = desk.warren("schedulers", "list")
    [paused] = desk.listed("schedulers", "list", "--json")
    assert "paused by cli:" in done.stdout
    assert str(paused["paused_by"]).startswith("cli:")
    assert datetime.fromisoformat(str(paused["paused_at"])).tzinfo is not None

    desk.warren("resume")
    assert "paused" not in desk.warren("schedulers", "list").stdout
    [resumed] = desk.listed("schedulers", "list", "--json")
    assert (resumed["paused_at"], resumed["paused_by"]) == (None, None)


def test_a_restore_is_told_once_and_the_audit_names_it(desk: Desk) -> None:
    done = desk.warren("db", "restored")

    assert done.stdout.startswith("run ids continue at 2000000000 instead of ")
    audit = desk.warren("audit")
    [line] = [line for line in audit.stdout.splitlines() if line.startswith("epoch: ")]
    assert "(restored, told by cli:" in line
    assert '"epochs": 1' in audit.stdout.splitlines()[-1]
