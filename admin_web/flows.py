"""The graph of a flow as a drawing, with the states of a run's nodes or while it is typed.

The layout has a column for each step, boxes close to what they depend on. Edges over several
columns pass through bends in between, so that they cross no box. It is a pure function of the
graph.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from flask import url_for
from flask_babel import LazyString, gettext, lazy_gettext
from sqlalchemy.orm import Session

from warren.admin_web.language import labels
from warren.admin_web.language.labels import State, problem_text, stored_text
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import FlowTexts
from warren.resources.runs import Condition, Join
from warren.scheduler.flows.graph import (
    FIELD,
    MAX_BYTES,
    Graph,
    Node,
    parse,
    stored_graph,
)
from warren.scheduler.jobs.dependencies import KnownJobs
from warren.scheduler.problems import Code, Problem, Refused
from warren.scheduler.views.run_view import FlowView, NodeState, NodeView
from warren.sql.run_status import OPEN, RunStatus
from warren.sql.runs.run_rows import DetailedRun

BOX_WIDTH, BOX_HEIGHT = 176, 46
COLUMN_GAP, ROW_GAP = 68, 14
MARGIN = 6
#: The height that an edge needs where it passes a column.
BEND_HEIGHT = 10
#: The most bends of a drawing; without them, edges run straight.
MAX_BENDS = 4_000
#: How often the columns are sorted, to and fro.
SWEEPS = 4


#: The most nodes with the same edges that have a box each; more share one.
MAX_SIBLINGS = 16


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node is drawn, or several with the same edges: `nodes` are all of them."""

    nodes: tuple[str, ...]
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Edge:
    before: str
    node: str
    condition: Condition
    path: str
    #: Where a word about it stands.
    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A drawing of `width` by `height` pixels."""

    width: int
    height: int
    boxes: Sequence[Box]
    edges: Sequence[Edge]


@lru_cache(maxsize=32)
def drawing_of(source: str) -> Drawing:
    """Return the drawing of a stored graph. Raises Refused as `stored_graph`."""
    return draw(stored_graph(source))


def draw(graph: Graph) -> Drawing:
    groups = siblings(graph)
    return _Layout(_without_siblings(graph, groups), groups).drawing()


def siblings(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return the nodes that share a box, by the first of them."""
    alike: dict[Any, list[str]] = {}
    for name in graph.order:
        node = graph.nodes[name]
        behind = [(other, graph.nodes[other].after[name]) for other in graph.followers[name]]
        alike.setdefault((frozenset(node.after.items()), node.join, frozenset(behind)), []).append(
            name
        )
    return {names[0]: tuple(names) for names in alike.values() if len(names) > MAX_SIBLINGS}


def _without_siblings(graph: Graph, groups: Mapping[str, tuple[str, ...]]) -> Graph:
    hidden = {name for names in groups.values() for name in names[1:]}
    if not hidden:
        return graph
    return Graph(
        {
            name: replace(
                node,
                after={
                    before: condition
                    for before, condition in node.after.items()
                    if before not in hidden
                },
            )
            for name, node in graph.nodes.items()
            if name not in hidden
        }
    )


#: A place in a column: a node by its name, or the bend of an edge by the edge and its column.
_Place = str | tuple[str, str, int]


class _Layout:
    def __init__(self, graph: Graph, groups: Mapping[str, tuple[str, ...]]) -> None:
        self._graph, self._groups = graph, groups
        self._rank = ranks(graph)
        count = max(self._rank.values()) + 1
        self._columns: list[list[_Place]] = [[] for _ in range(count)]
        self._before: dict[_Place, list[_Place]] = {}
        self._behind: dict[_Place, list[_Place]] = {}
        for name in graph.order:
            self._columns[self._rank[name]].append(name)
        spans = [
            self._rank[node.name] - self._rank[before] - 1
            for node in graph.nodes.values()
            for before in node.after
        ]
        self._has_bends = sum(spans) <= MAX_BENDS
        for node in graph.nodes.values():
            for before in node.after:
                self._link(before, node.name)
        self._middle: dict[_Place, float] = {}

    def drawing(self) -> Drawing:
        self._sort()
        self._place()
        top = min(self._middle[place] - _height(place) / 2 for place in self._middle)
        self._middle = {place: y - top + MARGIN for place, y in self._middle.items()}
        boxes = [
            Box(
                self._groups.get(name, (name,)),
                self._x(name),
                round(self._middle[name] - BOX_HEIGHT / 2),
            )
            for name in self._graph.order
        ]
        bottom = max(self._middle[place] + _height(place) / 2 for place in self._middle)
        return Drawing(
            width=2 * MARGIN + len(self._columns) * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP,
            height=round(bottom + MARGIN),
            boxes=boxes,
            edges=[
                self._edge(before, node.name, condition)
                for node in self._graph.nodes.values()
                for before, condition in node.after.items()
            ],
        )

    def _link(self, before: str, name: str) -> None:
        """Add an edge, with a bend in each column that it passes."""
        path: list[_Place] = [before, *self._bends(before, name), name]
        for bend in path[1:-1]:
            assert isinstance(bend, tuple)
            self._columns[bend[2]].append(bend)
        for item, other in pairwise(path):
            self._behind.setdefault(item, []).append(other)
            self._before.setdefault(other, []).append(item)

    def _bends(self, before: str, name: str) -> list[_Place]:
        if not self._has_bends:
            return []
        return [
            (before, name, column) for column in range(self._rank[before] + 1, self._rank[name])
        ]

    def _sort(self) -> None:
        """Order each column by the mean place of its neighbours, which leaves few crossings."""
        for sweep in range(SWEEPS):
            goes_on = sweep % 2 == 0
            neighbours = self._before if goes_on else self._behind
            columns = self._columns if goes_on else self._columns[::-1]
            place = {name: float(n) for column in self._columns for n, name in enumerate(column)}
            for column in columns[1:]:
                wish = {
                    item: _mean([place[other] for other in neighbours.get(item, ())], place[item])
                    for item in column
                }
                column.sort(key=wish.__getitem__)
                place.update((name, float(number)) for number, name in enumerate(column))

    def _place(self) -> None:
        """Put everything as close to its neighbours as its column allows."""
        for column in self._columns:
            self._middle.update(_spread(column, dict.fromkeys(column, 0.0)))
        for neighbours, columns in (
            (self._before, self._columns[1:]),
            (self._behind, self._columns[-2::-1]),
            (self._before, self._columns[1:]),
        ):
            for column in columns:
                wish = {
                    item: _mean(
                        [self._middle[other] for other in neighbours.get(item, ())],
                        self._middle[item],
                    )
                    for item in column
                }
                self._middle.update(_spread(column, wish))

    def _x(self, name: str) -> int:
        return MARGIN + self._rank[name] * (BOX_WIDTH + COLUMN_GAP)

    def _edge(self, before: str, name: str, condition: Condition) -> Edge:
        x, y = self._x(before) + BOX_WIDTH, round(self._middle[before])
        path = f"M{x} {y}"
        stops = [
            (MARGIN + bend[2] * (BOX_WIDTH + COLUMN_GAP), round(self._middle[bend]))
            for bend in self._bends(before, name)
            if isinstance(bend, tuple)
        ]
        for to_x, to_y in [*stops, (self._x(name) - 7, round(self._middle[name]))]:
            half = (to_x - x) // 2
            path += f"C{x + half} {y} {to_x - half} {to_y} {to_x} {to_y}"
            x, y = to_x, to_y
            if x < self._x(name) - BOX_WIDTH:
                x += BOX_WIDTH
                path += f"H{x}"
        return Edge(before, name, condition, path, x, y)


def ranks(graph: Graph) -> dict[str, int]:
    """Return the column of each node: one more than the last of those before it."""
    rank: dict[str, int] = {}
    for name in graph.order:
        before = graph.nodes[name].after
        rank[name] = 1 + max((rank[other] for other in before), default=-1)
    return rank


def _height(place: _Place) -> int:
    return BOX_HEIGHT if isinstance(place, str) else BEND_HEIGHT


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _spread(column: Sequence[_Place], wish: Mapping[_Place, float]) -> dict[_Place, float]:
    """Return ordered positions without overlaps, as close as possible to the wanted ones.

    Closest by squared distance. Neighbours that would overlap move as one block to the mean of
    their wanted positions.
    """
    offset, last = 0.0, 0
    offsets: list[float] = []
    for place in column:
        height = _height(place)
        offset += (last + height) / 2 + ROW_GAP if offsets else 0
        offsets.append(offset)
        last = height
    blocks: list[tuple[float, int]] = []
    for place, distance in zip(column, offsets, strict=True):
        mean, size = wish[place] - distance, 1
        while blocks and blocks[-1][0] > mean:
            other, others = blocks.pop()
            mean, size = (mean * size + other * others) / (size + others), size + others
        blocks.append((mean, size))
    starts = [mean for mean, size in blocks for _ in range(size)]
    return {
        place: start + distance
        for place, start, distance in zip(column, starts, offsets, strict=True)
    }


#: Characters of a name, and of the line below it, that fit into a box.
MAX_NAME, MAX_DETAIL = 19, 25
#: Words of the edges that are no usual ones.
CONDITION: dict[Condition, LazyString] = {
    Condition.FAILURE: lazy_gettext("on failure"),
    Condition.ALWAYS: lazy_gettext("always"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A box: its name, the line below it, and its link; `is_stack`: it represents several nodes.

    `title` says all of it, for a tooltip and a screen reader.
    """

    box: Box
    name: str
    detail: str
    title: str
    state: State | None = None
    url: str = ""
    is_stack: bool = False
    width: int = BOX_WIDTH
    height: int = BOX_HEIGHT

    @property
    def short_name(self) -> str:
        """The name, shortened to fit."""
        return _short(self.name, MAX_NAME)

    @property
    def short_detail(self) -> str:
        """The line below it, shortened to fit."""
        return _short(self.detail, MAX_DETAIL)


@dataclass(frozen=True, slots=True)
class Line:
    """An edge; `is_true` None = it is not known yet.

    `word` is the required outcome of the node that it leaves, if that is not success. It is shown
    at the end of the edge, so only if no other edge ends there.
    """

    edge: Edge
    is_true: bool | None
    word: LazyString | str

    @property
    def look(self) -> str:
        """Its CSS classes."""
        known = {True: " taken", False: " dead", None: ""}[self.is_true]
        return f"{self.edge.condition}{known}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drawing of `width` by `height` pixels."""

    width: int
    height: int
    marks: Sequence[Mark]
    lines: Sequence[Line]


def picture(
    drawing: Drawing,
    mark: Callable[[Box], Mark],
    is_true: Callable[[Edge], bool | None] = lambda _edge: None,
) -> Picture:
    """Return the picture of a drawing, with the given marks and states of edges."""
    arriving = Counter(edge.node for edge in drawing.edges)

    def line(edge: Edge) -> Line:
        word = CONDITION.get(edge.condition, "") if arriving[edge.node] == 1 else ""
        return Line(edge, is_true(edge), word)

    return Picture(
        width=drawing.width,
        height=drawing.height,
        marks=[mark(box) for box in drawing.boxes],
        lines=[line(edge) for edge in drawing.edges],
    )


def _short(text: str, most: int) -> str:
    """Return a text that fits; wide characters count twice."""
    width, kept = 0, ""
    for character in text:
        width += 2 if ord(character) > 0x2E7F else 1  # noqa: PLR2004 - from here on they are wide
        if width > most:
            return f"{kept[:-1]}…"
        kept += character
    return text


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


#: A job's app and name.
Name = tuple[str, str]
#: The value of a flow that cannot be read; no job may be saved with it.
NO_GRAPH = Graph({})


@dataclass(frozen=True, slots=True)
class LineProblem:
    """What is wrong, and the line of the text that it is about."""

    line: int
    words: str

    @property
    def text(self) -> str:
        """Both, as a message beside a field."""
        return str(gettext("Line %(line)s: %(words)s", line=self.line, words=self.words))


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedFlow:
    """A text that was read: its graph, NO_GRAPH if it is wrong; `line` is that of a field."""

    graph: Graph = NO_GRAPH
    line: Callable[[str], int] = lambda _field: 1
    problems: Sequence[LineProblem] = ()

    def at_line(self, problem: Problem) -> LineProblem:
        """Return a problem with the line that it is about."""
        field, facts = problem.field, problem.facts
        if field == FIELD:  # of a name, or of a circle
            first = str(facts.get("path") or facts.get("got") or "").partition(" -> ")[0]
            field = f"{FIELD}/{first}"
        return LineProblem(self.line(field), problem_text(problem))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPreview:
    """What the form shows beside the text."""

    problems: Sequence[LineProblem]
    picture: Picture | None
    nodes: int


def read_flow(texts: FlowTexts, text: str) -> TypedFlow:
    """Return what a text says."""
    if len(text) > MAX_BYTES:
        long = Problem(Code.FLOW_TOO_LONG, FIELD, most=MAX_BYTES, got=len(text))
        return TypedFlow(problems=[LineProblem(1, problem_text(long))])
    if not text.strip():
        return TypedFlow()
    source = texts.read(text)
    if source.problem:
        return TypedFlow(problems=[LineProblem(*source.problem)])
    typed = TypedFlow(line=source.line)
    try:
        return replace(typed, graph=parse(source.values))
    except Refused as refused:
        problems = sorted(map(typed.at_line, refused.problems), key=lambda problem: problem.line)
        return replace(typed, problems=problems)


def preview(
    session: Session, typed: TypedFlow, place: Name, app_ids: Mapping[str, int]
) -> FlowPreview:
    """Return the preview of a flow with this place; `app_ids` are the visitor's apps by name."""
    app, job = place
    graph = typed.graph
    if not graph.nodes:
        return FlowPreview(problems=typed.problems, picture=None, nodes=0)
    known = KnownJobs(session)
    ids = known.ids((_place(app, node) for node in graph.nodes.values()), app_ids)
    flows = known.flows(ids.values())
    wrong = []
    for node in graph.nodes.values():
        job_id = ids.get(_place(app, node))
        if job_id is not None and job_id not in flows:
            continue
        code = Code.FLOW_JOB_UNKNOWN if job_id is None else Code.FLOW_IN_FLOW
        facts = {"node": node.name, "job": job, "got": node.job}
        wrong.append(typed.at_line(Problem(code, f"{FIELD}/{node.name}/job", **facts)))
    return FlowPreview(problems=wrong, picture=job_picture(graph, app, ids), nodes=len(graph.nodes))


def job_picture(graph: Graph, app: str, ids: Mapping[Name, int]) -> Picture:
    """Return the picture of a job's flow, with links to the jobs that are known by name."""

    def mark(box: Box) -> Mark:
        if len(box.nodes) > 1:
            name = str(gettext("%(n)s nodes", n=len(box.nodes)))
            some = ", ".join([*box.nodes[:10], "…"])
            return Mark(box=box, name=name, detail=some, title=f"{name}: {some}", is_stack=True)
        node = graph.nodes[box.nodes[0]]
        job_id = ids.get(_place(app, node))
        detail = " · ".join([node.job, *_signs(node)])
        return Mark(
            box=box,
            name=node.name,
            detail=detail,
            title=f"{node.name}: {detail}",
            url=url_for("jobs.show", job_id=job_id) if job_id else "",
            is_stack=bool(node.each),
        )

    drawing: Drawing = draw(graph)
    return picture(drawing, mark)


def _signs(node: Node) -> list[str]:
    """Return which options of a node a reader has to know."""
    is_any = node.join is Join.ANY and len(node.after) > 1
    signs = {"any": is_any, "if": bool(node.condition), "each": bool(node.each)}
    return [sign for sign, is_set in signs.items() if is_set]


def _place(app: str, node: Node) -> Name:
    own, _, name = node.job.rpartition("/")
    return own or app, name
