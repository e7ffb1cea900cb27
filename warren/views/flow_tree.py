"""The nodes of a flow's run on a terminal, as a tree."""

from collections.abc import Sequence

from warren.scheduler.flows.graph import Condition, Join
from warren.scheduler.flows.judge import Outcome
from warren.scheduler.views.flow_view import NodeState, NodeView
from warren.views.terminal import duration

NODE_HEADERS = ("node", "state", "shards", "duration", "run", "after", "reason")


def tree_rows(nodes: Sequence[NodeView], *, now_ms: int) -> list[tuple[str, ...]]:
    """Return the nodes as rows of a table with `NODE_HEADERS`.

    Each is below the last node before it, and names all of them if these are several, or if it
    runs after something else than a success.
    """
    place = {node.node: number for number, node in enumerate(nodes)}
    below: dict[str, list[NodeView]] = {}
    for node in nodes:
        parent = max(node.after, key=lambda name: place.get(name, -1), default="")
        below.setdefault(parent if parent in place else "", []).append(node)
    rows: list[tuple[str, ...]] = []
    open_branches = [(node, "", "", "") for node in reversed(below.get("", []))]
    while open_branches:
        node, indent, branch, trunk = open_branches.pop()
        rows.append((f"{indent}{branch}{node.node}", *_facts(node, now_ms)))
        inner = below.get(node.node, [])
        for follower in reversed(inner):
            is_last = follower is inner[-1]
            look = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            open_branches.append((follower, indent + trunk, *look))
    return rows


def _facts(node: NodeView, now_ms: int) -> tuple[str, ...]:
    return (
        node.state,
        _shards(node),
        _lasted(node, now_ms),
        str(node.run_id or ""),
        _after(node),
        _reason(node).partition("\n")[0],
    )


def _shards(node: NodeView) -> str:
    if node.shards is None or node.shards == 1:
        return ""
    return f"{node.ended_shards}/{node.shards}" if not node.outcome else str(node.shards)


def _lasted(node: NodeView, now_ms: int) -> str:
    if not node.begun_at or node.outcome == NodeState.KEPT:
        return ""
    seconds = max(0, (node.ended_at or now_ms) - node.begun_at) / 1000
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)  # noqa: PLR2004 - finer below ten


def _after(node: NodeView) -> str:
    if len(node.after) <= 1 and set(node.after.values()) <= {Condition.SUCCESS}:
        return ""
    named = [
        name if condition is Condition.SUCCESS else f"{name}: {condition}"
        for name, condition in node.after.items()
    ]
    words = ", ".join(named)
    return f"any of {words}" if node.join is Join.ANY and len(named) > 1 else words


def _reason(node: NodeView) -> str:
    if node.outcome != NodeState.KEPT:
        return node.reason
    place = f" in run {node.kept_run_id}" if node.kept_run_id else ""
    became = node.kept_outcome or Outcome.SUCCEEDED
    return f"{became}{place}" + (f": {node.reason}" if node.reason else "")
