"""A soak's plan, book and verdict: what finds mistakes must not make any."""

import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak import book, shares
from benchmarks.soak.book import Start
from benchmarks.soak.flows import FlowRun, Last, NodeRow, SoakFlow, mistakes
from benchmarks.soak.plan import OF_NODES, Kind, plan
from benchmarks.soak.proxy import Proxy
from benchmarks.soak.topology import TOPOLOGIES
from benchmarks.soak.verdict import Calendar, Evidence, Row, Skip, judge
from tests.support import flow_judge
from warren.sql.run_status import RunStatus

ZEROS = ("lost", "doubled", "started_twice", "stuck", "orphans", "exceeded")


def row(run: int, tick: int, **facts: Any) -> Row:
    return Row(run=run, job=1, tick=tick, due=tick, **facts)


def start(run: int, tick: int, *, attempt: int = 0, late: int = 5) -> Start:
    return Start(run, 1, tick, 0, attempt, tick + late)


#: Two due times and a skipped one, each row with its start.
SOUND = {
    "rows": [row(10, 1_000), row(11, 3_000)],
    "starts": [start(10, 1_000), start(11, 3_000)],
    "skips": [Skip(1, 2_000, 2_000)],
    "calendars": [Calendar(1, 1_000, 1_000, 4_000)],
}


def wrong(**changed: Any) -> dict[str, int]:
    """Return what the verdict finds in the sound evidence with these changes."""
    verdict = judge(Evidence(**{**SOUND, **changed}))
    return {name: len(found) for name, found in verdict.wrong.items() if found}


def test_a_sound_cluster_is_said_to_be_sound_in_one_line() -> None:
    verdict = judge(Evidence(**SOUND, memory=[100, 100, 100, 110]))

    assert verdict.is_clean
    assert str(verdict) == (
        "ticks=2 runs=2 skipped=1 flows=0 filled=0 lost=0 doubled=0 started_twice=0 stuck=0 "
        "orphans=0 exceeded=0 late_p99_ms=5 rss_growth_percent=10.0"
    )


def test_lost_runs_are_counted_by_their_reason_and_by_what_was_said_later() -> None:
    gone = {"status": RunStatus.LOST, "why": "EXECUTOR_LOST"}
    rows = [row(20, 1_000, **gone), row(21, 2_000, **gone, was_unstarted=True)]

    verdict = judge(Evidence(**{**SOUND, "rows": rows}))

    assert verdict.given_up == {"EXECUTOR_LOST": 1, "EXECUTOR_LOST, never started": 1}


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"skips": []}, "lost"),  # a due time without run or skip
        ({"starts": [start(10, 1_000)]}, "lost"),  # a success that never began
        ({"audit_lost": 1}, "lost"),
        ({"untold": 1}, "lost"),
        ({"rows": [*SOUND["rows"], row(12, 3_000, status=RunStatus.FAILED)]}, "doubled"),
        ({"audit_doubled": 1}, "doubled"),
        ({"starts": [*SOUND["starts"], start(10, 1_000)]}, "started_twice"),
        ({"rows": [*SOUND["rows"], row(12, 3_000, attempt=1, status=RunStatus.SENT)]}, "stuck"),
        ({"orphans": ["sleep"]}, "orphans"),
    ],
)
def test_each_mistake_is_found_and_counted_as_what_it_is(
    changed: dict[str, Any], found: str
) -> None:
    assert wrong(**changed) == {found: 1}


def test_start_of_a_due_time_under_another_id_is_doubled_and_has_no_row() -> None:
    assert wrong(starts=[*SOUND["starts"], start(99, 3_000)]) == {"doubled": 1, "started_twice": 1}


def test_start_of_a_run_that_is_said_to_have_never_started_is_found() -> None:
    rows = [
        row(10, 1_000, status=RunStatus.UNDELIVERED),
        row(12, 1_000, attempt=1),
        row(11, 3_000),
    ]

    assert wrong(rows=rows, starts=[*SOUND["starts"], start(12, 1_000, attempt=1)]) == {
        "started_twice": 1
    }


def test_due_time_whose_last_attempt_came_back_from_the_broker_is_lost() -> None:
    returned = row(12, 3_000, status=RunStatus.UNDELIVERED)
    again = row(11, 3_000, attempt=1)
    first, starts = SOUND["rows"][0], [start(10, 1_000), start(11, 3_000, attempt=1)]

    assert wrong(rows=[first, returned, again], starts=starts) == {}
    assert wrong(rows=[first, replace(returned, was_routed=False)], starts=starts[:1]) == {}
    assert wrong(rows=[first, returned], starts=starts[:1]) == {"lost": 1}


def test_lost_run_that_no_executor_was_called_for_is_found_unless_its_due_time_runs_again() -> None:
    lost = row(10, 1_000, status=RunStatus.LOST)
    told = replace(lost, was_unstarted=True)
    others, again = SOUND["rows"][1:], row(12, 1_000, attempt=1)
    starts = [*SOUND["starts"][1:], start(12, 1_000, attempt=1)]

    assert wrong(rows=[lost, *others], uncalled={10}) == {"lost": 1}
    assert wrong(rows=[lost, *others], uncalled=()) == {}
    assert wrong(rows=[told, *others], uncalled={10}) == {"lost": 1}
    assert wrong(rows=[told, again, *others], starts=starts, uncalled={10}) == {}
    assert wrong(rows=[lost, again, *others], starts=starts, uncalled={10}) == {"lost": 1}


def test_success_of_a_run_that_started_as_another_is_a_wrong_result() -> None:
    others = [start(10, 1_000), Start(11, 2, 3_000, 0, 0, 3_005)]

    assert wrong(starts=others) == {"lost": 1, "started_twice": 1}


def test_what_a_failover_lost_is_counted_apart_and_only_that() -> None:
    """Run 12 is gone with its row, and its due time has run 11; run 10 was sent a second time."""
    starts = [*SOUND["starts"], start(12, 3_000), start(10, 1_000)]
    verdict = judge(Evidence(**{**SOUND, "starts": starts, "unshipped": {10, 12, 13}}))

    assert verdict.is_clean
    assert " exceeded=0 unshipped=3 repeated=2 overrun=0 " in str(verdict)
    assert wrong(starts=starts, unshipped={12}) == {"started_twice": 1}
    assert wrong(starts=starts, unshipped={10}) == {"doubled": 1, "started_twice": 1}
    assert wrong(starts=starts, unshipped={10, 12}, skips=[]) == {"lost": 1}


def test_retries_and_runs_by_hand_are_no_doubled_ones() -> None:
    rows = [
        row(10, 1_000, status=RunStatus.FAILED),
        row(12, 1_000, attempt=1),
        row(11, 3_000),
        row(13, 3_000, is_scheduled=False),
    ]
    starts = [*SOUND["starts"], start(12, 1_000, attempt=1), start(13, 3_000)]

    assert wrong(rows=rows, starts=starts) == {}


def test_the_same_seed_gives_the_same_faults_and_each_kind_comes_before_one_comes_again() -> None:
    kinds = TOPOLOGIES["single"].kinds
    faults = plan(7, 600, 10, kinds)

    assert faults == plan(7, 600, 10, kinds) != plan(8, 600, 10, kinds)
    assert len(faults) == 59
    assert {fault.kind for fault in faults[: len(kinds)]} == set(kinds) == set(Kind) - OF_NODES
    assert all(5 <= fault.at_seconds <= 590 for fault in faults)
    assert plan(7, 15, 10, kinds) == []


def test_handlers_and_scripts_write_the_same_book(tmp_path: Path) -> None:
    path = tmp_path / "book"
    facts = {"WARREN_RUN_ID": "4", "WARREN_JOB_ID": "1", "WARREN_ATTEMPT": "2"}
    facts |= {"WARREN_SHARD_INDEX": "3", "WARREN_SCHEDULED_AT": "1970-01-01T00:00:01.250+00:00"}

    book.write(path, Start(4, 1, 1_250, 3, 2, 7))
    subprocess.run(["/bin/sh", "-c", book.script(path)], env=facts, check=True)

    written, by_script = book.read(path)
    assert written == Start(4, 1, 1_250, 3, 2, 7)
    assert by_script == Start(4, 1, 1_250, 3, 2, by_script.at)


def test_network_that_is_cut_holds_what_is_sent_and_one_that_is_reset_ends_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = Proxy(server.getsockname()[1])
        try:
            with socket.create_connection(("127.0.0.1", proxy.port), 10) as client:
                there, _ = server.accept()
                client.sendall(b"passes")
                assert there.recv(10) == b"passes"

                proxy.cut()
                client.sendall(b"waits")
                there.settimeout(0.05)
                with pytest.raises(TimeoutError):
                    there.recv(10)
                proxy.heal()
                there.settimeout(10)
                assert there.recv(10) == b"waits"

                proxy.reset()
                client.settimeout(10)
                with pytest.raises(ConnectionResetError):
                    client.recv(10)
                there.close()
        finally:
            proxy.close()


def test_network_that_is_turned_ends_connections_and_leads_new_ones_to_the_other_server() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as old,
        socket.create_server(("127.0.0.1", 0)) as new,
    ):
        proxy = Proxy(old.getsockname()[1])
        try:
            with socket.create_connection(("127.0.0.1", proxy.port), 10) as client:
                there, _ = old.accept()
                proxy.turn(new.getsockname()[1])
                with pytest.raises(ConnectionResetError):
                    client.recv(10)
                there.close()
            new.settimeout(10)
            with socket.create_connection(("127.0.0.1", proxy.port), 10):
                there, _ = new.accept()
                there.close()
        finally:
            proxy.close()


# -- flows, backfills and limits --------------------------------------------------------------


def test_due_time_that_a_backfill_left_out_or_ran_twice_is_found() -> None:
    filled = Calendar(2, 1_000, 1_000, 3_000)
    ran = Row(run=20, job=2, tick=1_000, due=9_000, is_scheduled=False, is_backfill=True)
    again = Row(run=21, job=2, tick=1_000, due=9_000, is_scheduled=False, is_backfill=True)
    starts = [*SOUND["starts"], *(Start(run, 2, 1_000, 0, 0, 9_005) for run in (20, 21))]

    found = wrong(filled=[filled], rows=[*SOUND["rows"], ran, again], starts=starts)

    assert found == {"lost": 1, "doubled": 1}


def test_jobs_that_share_more_than_there_is_are_told_and_those_that_died_are_not(
    tmp_path: Path,
) -> None:
    with shares.held(tmp_path, "s", 3, 2, 31), shares.held(tmp_path, "s", 3, 1, 32):
        assert shares.exceeded(tmp_path) == []
        with shares.held(tmp_path, "s", 3, 1, 33):
            pass
    with shares.held(tmp_path, "s", 3, 3, 34):
        pass

    [found] = shares.exceeded(tmp_path)
    assert str(found) == "run 33 found 0 of 1 free, of 3 of s; held by 31, 32"
    assert wrong(exceeded=[found]) == {"exceeded": 1}
    assert wrong(exceeded=[found], unshipped={33}) == {"exceeded": 1}
    assert wrong(exceeded=[found], unshipped={32}) == {}


NIGHT = SoakFlow(
    "night",
    {
        "load": flow_judge.Node(name="load"),
        "mend": flow_judge.Node(name="mend", after={"load": "failure"}),
        "report": flow_judge.Node(name="report", after={"load": "success"}),
    },
    retries=1,
)
BYPASSED = NodeRow("BYPASSED", False, {})


def ran(outcome: str, *, shards: int = 1) -> NodeRow:
    return NodeRow(outcome, False, {shard: Last(shard, 0, outcome) for shard in range(shards)})


def night(status: str, *, attempt: int = 0, **nodes: NodeRow) -> FlowRun:
    return FlowRun(NIGHT, 50 + attempt, 1_000, attempt, status, nodes)


SUCCESS = {"load": ran("SUCCEEDED"), "mend": BYPASSED, "report": ran("SUCCEEDED")}
FAILURE = {"load": ran("FAILED"), "mend": ran("FAILED"), "report": BYPASSED}
#: The runs of a flow for a tick, and what is found.
FLOW_RUNS: list[tuple[list[FlowRun], set[str]]] = [
    ([night("SUCCEEDED", **SUCCESS)], set()),
    ([night("FAILED", **FAILURE), night("SUCCEEDED", attempt=1, **SUCCESS)], set()),
    ([night("FAILED", **FAILURE)], {"lost"}),  # it was not repeated
    ([replace(night("FAILED", **FAILURE), is_repeated=False)], set()),  # its job was stopped
    ([night("FAILED", **FAILURE), night("CANCELLED", attempt=1)], set()),
    ([night("SUCCEEDED", **SUCCESS), night("SUCCEEDED", attempt=1, **SUCCESS)], {"doubled"}),
    ([night("FAILED", **SUCCESS)], {"lost"}),
    ([night("SUCCEEDED", **SUCCESS | {"report": BYPASSED})], {"lost"}),
    ([night("SUCCEEDED", **SUCCESS | {"mend": ran("SUCCEEDED")})], {"doubled"}),
    ([night("SUCCEEDED", **SUCCESS | {"load": ran("SUCCEEDED", shards=2)})], {"doubled"}),
]


def test_flow_is_judged_by_how_the_runs_of_its_nodes_ended() -> None:
    found = [{kind for kind, _ in mistakes(runs)} for runs, _ in FLOW_RUNS]

    assert found == [expected for _, expected in FLOW_RUNS]


def test_run_of_a_node_that_was_planned_twice_is_doubled() -> None:
    twice = [row(run, 1_000, is_scheduled=False, node=7) for run in (30, 31)]
    starts = [*SOUND["starts"], *(start(run, 1_000) for run in (30, 31))]

    assert wrong(rows=[*SOUND["rows"], *twice], starts=starts) == {"doubled": 1}
