"""Lays out the graph of a flow: a column for each step, boxes close to what they depend on.

Edges over several columns pass through bends in between, so that they cross no box. A pure
function of the graph.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from warren.scheduler.flows.graph import Condition, Graph, stored_graph

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
    """An edge and its path."""

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
    """Return the drawing of a graph."""
    groups = siblings(graph)
    return _Layout(_without_siblings(graph, groups), groups).drawing()


def siblings(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return the nodes that share a box by the first of them, which stands for all."""
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
        """Put everything as close to its neighbours as its column lets it be."""
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
    """Return places without overlaps, in order, whose squared distances from a wish are least.

    Neighbours that would overlap move as one block to the mean of their wishes.
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
