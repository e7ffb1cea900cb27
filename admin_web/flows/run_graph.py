"""The nodes of a flow's run as a page shows them: a graph by state, and a bar for each node."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from flask import url_for
from flask_babel import gettext

from warren.admin_web.flows.layout import Box, Edge, drawing_of
from warren.admin_web.flows.picture import Mark, Picture, picture
from warren.admin_web.language import labels
from warren.admin_web.language.labels import State, stored_text
from warren.admin_web.local_times import LocalTimes
from warren.scheduler.views.flow_view import FlowView, NodeState, NodeView
from warren.sql.listings.recent import DetailedRun
from warren.sql.run_status import OPEN, RunStatus

#: The width of a bar's row, whatever the time it shows.
WIDTH = 1_000
#: Shorter bars would be invisible.
MIN_WIDTH = 6
#: A flow with more nodes is refreshed less often.
MANY = 150
#: A box of several nodes shows the state that comes first here.
_GRAVITY = (RunStatus.FAILED, *OPEN, NodeState.WAITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBar:
    """A node of the list: its state, and when it waited and worked."""

    view: NodeView
    state: State
    reason: str
    x: int
    waited: int
    worked: int
    lasted_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGraph:
    """A flow's run; `picture` is None if its graph is no longer kept."""

    picture: Picture | None
    bars: Sequence[NodeBar]
    counts: Sequence[tuple[State, int]]
    from_ms: int | None
    until_ms: int
    refresh_seconds: int


def run_graph(flow: FlowView, run: DetailedRun, times: LocalTimes, now_ms: int) -> RunGraph:
    """Return what the page of a flow's run shows."""
    begun = [node.begun_at for node in flow.nodes if _has_bar(node) and node.begun_at]
    from_ms = min(begun, default=None)
    until_ms = max(run.finished_at or now_ms, (from_ms or 0) + 1)
    counts = Counter(node.state for node in flow.nodes)
    ordered = [state for state in labels.NODE if state in counts]
    return RunGraph(
        picture=_picture(flow, times, now_ms) if flow.graph else None,
        bars=[_bar(node, from_ms or until_ms, until_ms) for node in _by_begin(flow.nodes)],
        counts=[(labels.NODE[state], counts[state]) for state in ordered],
        from_ms=from_ms,
        until_ms=until_ms,
        refresh_seconds=2 if len(flow.nodes) <= MANY else 10,
    )


def lasted_ms(node: NodeView, now_ms: int) -> int | None:
    """Return how long a node has taken since it began; None if it has not, or was kept."""
    if not node.begun_at or not _has_bar(node):
        return None
    return max(0, (node.ended_at or now_ms) - node.begun_at)


def _by_begin(nodes: Sequence[NodeView]) -> list[NodeView]:
    """Return the nodes in the order in which they began; then those that have not, as they were."""
    return sorted(nodes, key=lambda node: (node.begun_at is None, node.begun_at or 0))


def _has_bar(node: NodeView) -> bool:
    return node.begun_at is not None and node.outcome != NodeState.KEPT


def _bar(node: NodeView, from_ms: int, until_ms: int) -> NodeBar:
    def place(at_ms: int) -> int:
        inside = min(max(at_ms, from_ms), until_ms) - from_ms
        return inside * WIDTH // (until_ms - from_ms)

    x = waited = worked = 0
    if _has_bar(node) and node.begun_at:
        end = place(node.ended_at or until_ms)
        x = place(node.begun_at)
        start = min(place(node.started_at), end) if node.started_at else end
        waited, worked = start - x, end - start
        if node.started_at or not waited:
            worked = max(worked, MIN_WIDTH)
        if x + waited + worked > WIDTH:
            x, waited = min(x, WIDTH - worked), max(0, WIDTH - worked - x)
    return NodeBar(
        view=node,
        state=labels.NODE[node.state],
        reason=_reason(node),
        x=x,
        waited=waited,
        worked=worked,
        lasted_ms=lasted_ms(node, until_ms),
    )


def _reason(node: NodeView) -> str:
    # Of an exception, the traceback is on the page of its run.
    reason = stored_text(node.reason, node.why).strip().partition("\n")[0]
    if node.outcome != NodeState.KEPT or not node.kept_outcome:
        return reason
    became = str(labels.NODE[node.kept_outcome].word)
    return f"{became}: {reason}" if reason else became


def _picture(flow: FlowView, times: LocalTimes, now_ms: int) -> Picture:
    def mark(box: Box) -> Mark:
        views = [flow.by_name[name] for name in box.nodes]
        if len(views) > 1:
            return _group_mark(box, views)
        return _mark(box, views[0], times, now_ms)

    drawing = drawing_of(flow.source)
    alike = {box.nodes[0]: box.nodes for box in drawing.boxes}

    def is_true(edge: Edge) -> bool | None:
        """Return whether the edges from or to all nodes of a box are true."""
        known = {
            flow.edge(before, node) for before in alike[edge.before] for node in alike[edge.node]
        }
        return known.pop() if len(known) == 1 else None

    return picture(drawing, mark, is_true)


def _mark(box: Box, node: NodeView, times: LocalTimes, now_ms: int) -> Mark:
    state = labels.NODE[node.state]
    words = [str(state.word)]
    if node.shards is not None and node.shards != 1 and not node.outcome:
        shards = {"done": node.ended_shards, "total": node.shards}
        words.append(gettext("%(done)s of %(total)s", **shards))
    took = lasted_ms(node, now_ms)
    if took is not None and node.outcome != NodeState.BYPASSED:
        words.append(times.duration(took))
    elif node.kept_outcome:
        words.append(str(labels.NODE[node.kept_outcome].word))
    detail = " · ".join(words)
    reason = _reason(node)
    url = url_for("runs.show", run_id=node.run_id) if node.run_id else f"#node-{node.node}"
    return Mark(
        box=box,
        name=node.node,
        detail=detail,
        title=f"{node.node}: {detail}" + (f". {reason}" if reason else ""),
        state=state,
        url=url,
        is_stack=(node.shards or 1) > 1,
    )


def _group_mark(box: Box, nodes: Sequence[NodeView]) -> Mark:
    counts = Counter(node.state for node in nodes)
    worst = next((state for state in _GRAVITY if state in counts), nodes[0].state)
    words = [f"{labels.NODE[state].word} {count}" for state, count in counts.items()]
    name = gettext("%(n)s nodes", n=len(nodes))
    return Mark(
        box=box,
        name=name,
        detail=f"{labels.NODE[worst].word} {counts[worst]}",
        title=f"{name}: {', '.join(words)}",
        state=labels.NODE[worst],
        url=f"#node-{next(node.node for node in nodes if node.state == worst)}",
        is_stack=True,
    )
