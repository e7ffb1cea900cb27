"""Lays out a job's family as a graph, one column per generation, for a template to draw."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warren.sql.listings.job_family import Family

BOX_WIDTH, BOX_HEIGHT, GAP, COLUMN_GAP = 190, 34, 10, 44
#: Characters of a name that fit into a box, and boxes in a column at most.
FITTING, MOST = 23, 12


@dataclass(frozen=True, slots=True)
class Box:
    """One job; `job_id` 0 stands for all that do not fit."""

    job_id: int
    name: str
    x: int
    y: int
    width: int = BOX_WIDTH
    height: int = BOX_HEIGHT

    @property
    def short_name(self) -> str:
        """The end of the name, shortened to fit."""
        return self.name if len(self.name) <= FITTING else f"…{self.name[1 - FITTING :]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyGraph:
    """A drawing of `width` by `height` pixels; each arrow is an SVG path between two boxes.

    `relatives` are all boxes but the job's own. `is_cut`: the family is larger.
    """

    width: int
    height: int
    relatives: tuple[Box, ...]
    job: Box
    arrows: tuple[str, ...]
    is_cut: bool


def draw(job_id: int, family: Family) -> FamilyGraph | None:
    """Return the drawing of a job's family; None if it has no relatives."""
    if len(family.names) <= 1:
        return None
    ranks = generations(job_id, family.links)
    columns: dict[int, list[int]] = defaultdict(list)
    for each in sorted(family.names, key=lambda one: family.names[one]):
        columns[ranks.get(each, 0)].append(each)
    shown = [_few(columns[rank], family.names, job_id) for rank in sorted(columns)]
    height = max(len(column) for column in shown) * (BOX_HEIGHT + GAP) + GAP
    boxes = [
        box
        for place, column in enumerate(shown)
        for box in _column(column, 1 + place * (BOX_WIDTH + COLUMN_GAP), height)
    ]
    by_id = {box.job_id: box for box in boxes if box.job_id}
    return FamilyGraph(
        width=len(shown) * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP + 2,
        height=height,
        relatives=tuple(box for box in boxes if box.job_id != job_id),
        job=by_id[job_id],
        arrows=tuple(
            _arrow(by_id[parent], by_id[child])
            for parent, child in family.links
            if parent in by_id and child in by_id and parent != child
        ),
        is_cut=family.is_cut,
    )


def generations(job_id: int, links: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return each relative's longest distance from the job: children 1, parents -1."""
    down = _distances(job_id, links)
    up = _distances(job_id, [(child, parent) for parent, child in links])
    return {each: -steps for each, steps in up.items()} | down


def _distances(start: int, links: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the longest path to each job; ends even if there is a cycle, which no rule allows."""
    children: dict[int, list[int]] = defaultdict(list)
    for parent, child in links:
        children[parent].append(child)
    found, edge = {start: 0}, {start}
    for steps in range(1, len(children) + 1):
        edge = {child for parent in edge for child in children[parent]} - {start}
        found |= dict.fromkeys(edge, steps)
    return found


def _few(job_ids: Sequence[int], names: dict[int, str], job_id: int) -> list[tuple[int, str]]:
    """Return the jobs of a column; of too many, the first ones, and always the job itself."""
    first = sorted(job_ids, key=lambda one: one != job_id)
    if len(job_ids) <= MOST:
        return [(one, names[one]) for one in job_ids]
    kept = [(one, names[one]) for one in first[: MOST - 1]]
    return [*kept, (0, f"+ {len(job_ids) - MOST + 1}")]


def _column(jobs: Sequence[tuple[int, str]], x: int, height: int) -> tuple[Box, ...]:
    top = (height - len(jobs) * (BOX_HEIGHT + GAP) + GAP) // 2
    return tuple(
        Box(job_id, name, x, top + rank * (BOX_HEIGHT + GAP))
        for rank, (job_id, name) in enumerate(jobs)
    )


def _arrow(start: Box, end: Box) -> str:
    x1, y1 = start.x + BOX_WIDTH, start.y + BOX_HEIGHT // 2
    x2, y2 = end.x - 7, end.y + BOX_HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"
