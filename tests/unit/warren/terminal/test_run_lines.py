"""Runs as they are shown."""

from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from warren.resources.instant import to_builtins
from warren.resources.runs import Condition, Join, Node, Run
from warren.scheduler.views.run_view import NodeView, node_of, run_of
from warren.sql.runs.run_rows import DetailedRun
from warren.terminal.run_lines import (
    HEADERS,
    NODE_HEADERS,
    job_name,
    lasted,
    run_facts,
    run_line,
    tree_rows,
)

NOON = 1_796_126_400_000  # 2026-12-01T12:00:00Z
NOW = 1_800_000_000_000


def run(**columns: Any) -> Run:
    return run_of(row(**columns))


def row(**columns: Any) -> DetailedRun:
    """A row as `warren.sql.listings.recent` gives it."""
    values: dict[str, Any] = {
        "id": 9,
        "job_id": 7,
        "job": "nightly",
        "app": "reports",
        "kind": "CRON",
        "status": "PLANNED",
        "scheduled_at": NOON,
        "due_at": NOON,
        "run_date": date(2026, 11, 19),
        "address": None,
        "handler": "report",
        "script_version": None,
        "script_number": None,
        "code_version": None,
        "param": "",
        "origin_id": 0,
        "shard_index": 0,
        "shard_total": 1,
        "attempt": 0,
        "starts": 0,
        "trigger_code": 0,
        "handle_code": 0,
        "routed_at": None,
        "sent_at": None,
        "started_at": None,
        "finished_at": None,
        "kill_requested_at": None,
        "late_status": None,
        "message": "",
        "trigger_message": "",
        "message_why": None,
        "trigger_why": None,
        "log_tail": "the end",
        "progress": None,
        "result": None,
        "boot_id": None,
        "retries_left": 0,
        "wanted_addresses": None,
        "timezone": "UTC",
        "route": "FIRST",
        "limits": None,
        "scope": "executor",
        "rerun_of": None,
        "called_by": None,
        "backfill_id": None,
        "flow_run_id": None,
    }
    return DetailedRun(**values | columns)


def test_line_has_a_cell_for_each_header() -> None:
    assert len(run_line(run(), now_ms=NOON)) == len(HEADERS)


def test_line_counts_tries_from_one_and_names_shards_only_where_there_are_some() -> None:
    cells = dict(zip(HEADERS, run_line(run(starts=2), now_ms=NOON), strict=True))
    sharded = dict(
        zip(HEADERS, run_line(run(shard_index=1, shard_total=3), now_ms=NOON), strict=True)
    )

    assert (cells["try"], cells["shard"]) == ("3", "")
    assert sharded["shard"] == "1/3"


def test_a_running_run_says_how_far_it_is_in_lists_and_alone() -> None:
    told = '{"done":3,"total":10,"text":"loading"}'
    running = run(status="RUNNING", started_at=NOON - 1_000, progress=told)

    cells = dict(zip(HEADERS, run_line(running, now_ms=NOON), strict=True))
    facts = run_facts(running, now_ms=NOON, zone=ZoneInfo("UTC"))

    assert cells["status"] == "RUNNING 30 %"
    assert facts["progress"] == "3 of 10 (30 %), loading"
    assert run_facts(run(), now_ms=NOON, zone=ZoneInfo("UTC"))["progress"] == ""


@pytest.mark.parametrize(
    ("late", "words"),
    [(None, ""), ("SUCCEEDED", "SUCCEEDED"), ("NEVER_STARTED", "it never started")],
)
def test_facts_say_what_was_reported_of_a_lost_run(late: str | None, words: str) -> None:
    lost = run(status="LOST", late_status=late)

    assert run_facts(lost, now_ms=NOON, zone=ZoneInfo("UTC"))["reported later"] == words


@pytest.mark.parametrize("message", ["first\nsecond", "\n\nfirst\nsecond", "  first\r\nsecond"])
def test_line_holds_the_first_line_of_the_message(message: str) -> None:
    assert run_line(run(message=message), now_ms=NOON)[-1].strip() == "first"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, ""),
        ({"status": "RUNNING", "started_at": NOON - 5_000}, "5.00 s"),
        ({"status": "RUNNING", "started_at": NOON - 65_000}, "65 s"),
        ({"status": "SUCCEEDED", "started_at": NOON - 130, "finished_at": NOON}, "0.13 s"),
        ({"status": "SUCCEEDED", "started_at": NOON - 7_200_000, "finished_at": NOON}, "2 h"),
        ({"status": "UNDELIVERED", "finished_at": NOON}, ""),
        ({"status": "LOST", "started_at": NOON, "finished_at": NOON - 5}, ""),
        ({"status": "SENT", "started_at": NOON - 5}, ""),
    ],
)
def test_took_is_the_time_of_the_process(columns: dict[str, Any], words: str) -> None:
    assert lasted(run(**columns), NOON) == words


def test_run_of_a_deleted_job_is_still_named() -> None:
    assert job_name(None, 7) == "(deleted job 7)"
    assert run_line(run(job=None), now_ms=NOON)[1] == "(deleted job 7)"
    assert to_builtins(run(job=None))["job"] is None


def test_json_tells_nothing_as_null_and_leaves_out_what_only_pages_need() -> None:
    shown = to_builtins(run())

    assert shown["started_at"] is shown["finished_at"] is shown["address"] is None
    assert shown["message"] == shown["trigger_message"] == shown["param"] == ""
    assert "log_tail" not in shown
    assert "timezone" not in shown


def test_facts_name_every_instant_that_is_known() -> None:
    facts = run_facts(
        run(status="RUNNING", started_at=NOON, kill_requested_at=NOON + 1_000, routed_at=None),
        now_ms=NOON + 3_000,
        zone=ZoneInfo("Asia/Shanghai"),
    )

    assert facts["started"] == "2026-12-01 20:00:00 CST  (3 s ago)"
    assert facts["kill requested"].endswith("(2 s ago)")
    assert facts["routed"] == facts["finished"] == ""
    assert facts["duration"] == "3.00 s"


@pytest.mark.parametrize("absurd", [-(2**53), 2**53 - 1])
def test_run_whose_row_holds_an_instant_that_no_calendar_has_is_shown(absurd: int) -> None:
    shown = run(status="SUCCEEDED", started_at=absurd, finished_at=absurd, sent_at=absurd)

    assert to_builtins(shown)["finished_at"][:4] in ("1970", "9999")
    assert len(run_line(shown, now_ms=NOON)) == len(HEADERS)
    assert run_facts(shown, now_ms=NOON, zone=ZoneInfo("Pacific/Kiritimati"))


def test_facts_name_a_version_of_a_script_by_its_number_while_it_is_kept() -> None:
    def script(**columns: Any) -> str:
        return run_facts(run(**columns), now_ms=NOON, zone=ZoneInfo("UTC"))["script"]

    assert script(script_version=57, script_number=3) == "version 3"
    assert script(script_version=57) == "version no longer kept"
    assert script() == ""


def test_facts_have_the_version_of_the_code_that_ran_it() -> None:
    facts = run_facts(run(code_version="v1.4-7-gabc"), now_ms=NOON, zone=ZoneInfo("UTC"))

    assert facts["code version"] == "v1.4-7-gabc"
    assert to_builtins(run(code_version="v1.4-7-gabc"))["code_version"] == "v1.4-7-gabc"


def node(name: str, state: str, **columns: Any) -> Node:
    blank: dict[str, Any] = dict.fromkeys(NodeView._fields)
    counts = {"succeeded": 0, "skipped": 0, "failed": 0, "attempt": 0}
    given = {"node": name, "state": state, "after": {}, "join": Join.ALL, "reason": ""}
    return node_of(NodeView(**blank | counts | given | columns))


def test_each_node_is_below_the_last_one_before_it() -> None:
    success, failure = Condition.SUCCESS, Condition.FAILURE
    nodes = [
        node("extract", "SUCCEEDED", shards=1, begun_at=NOW - 9_000, ended_at=NOW - 6_500),
        node("load", "SUCCEEDED", shards=1, after={"extract": success}, run_id=7),
        node("parts", "RUNNING", shards=9, succeeded=2, failed=1, after={"load": success}),
        node("mend", "BYPASSED", after={"load": failure}, reason="load succeeded\nmore"),
        node("report", "WAITING", after={"parts": success, "mend": success}, join=Join.ANY),
        node("tidy", "KEPT", outcome="KEPT", kept_outcome="SUCCEEDED", kept_run_id=3),
    ]

    rows = [dict(zip(NODE_HEADERS, row, strict=True)) for row in tree_rows(nodes, now_ms=NOW)]

    assert [row["node"] for row in rows] == [
        "extract",
        "└─ load",
        "   ├─ parts",
        "   └─ mend",
        "      └─ report",
        "tidy",
    ]
    assert [row["state"] for row in rows[:3]] == ["SUCCEEDED", "SUCCEEDED", "RUNNING"]
    assert (rows[0]["duration"], rows[1]["run"], rows[2]["shards"]) == ("2.50 s", "7", "3/9")
    assert (rows[1]["after"], rows[3]["after"]) == ("", "load: failure")
    assert rows[4]["after"] == "any of parts, mend"
    assert rows[3]["reason"] == "load succeeded"
    assert rows[5]["reason"] == "SUCCEEDED in run 3"


def test_a_flow_of_a_thousand_nodes_in_a_row_is_printed() -> None:
    nodes = [node("n0", "WAITING")]
    nodes += [
        node(f"n{k}", "WAITING", after={f"n{k - 1}": Condition.SUCCESS}) for k in range(1, 1000)
    ]

    rows = tree_rows(nodes, now_ms=NOW)

    assert len(rows) == 1000
    assert rows[-1][0].endswith("└─ n999")
