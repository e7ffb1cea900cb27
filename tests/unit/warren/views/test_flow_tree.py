"""A flow's run as a tree on a terminal."""

from typing import Any

from warren.scheduler.flows.graph import Condition, Join
from warren.scheduler.views.flow_view import NodeView
from warren.views.flow_tree import NODE_HEADERS, tree_rows

NOW = 1_800_000_000_000


def node(name: str, state: str, **columns: Any) -> NodeView:
    blank: dict[str, Any] = dict.fromkeys(NodeView._fields)
    counts = {"succeeded": 0, "skipped": 0, "failed": 0, "attempt": 0}
    given = {"node": name, "state": state, "after": {}, "join": Join.ALL, "reason": ""}
    return NodeView(**blank | counts | given | columns)


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
