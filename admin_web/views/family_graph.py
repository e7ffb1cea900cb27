"""Lays out parents, a job and its children as a graph; a template draws it."""

from collections.abc import Sequence
from dataclasses import dataclass

BOX_WIDTH, BOX_HEIGHT, GAP, COLUMN_GAP = 190, 34, 10, 44
#: Characters of a name that fit into a box, and boxes of a column.
FITTING, MOST = 23, 12


@dataclass(frozen=True, slots=True)
class Box:
    """One job; `job_id` 0 stands for those that are too many to draw."""

    job_id: int
    name: str
    x: int
    y: int
    width: int = BOX_WIDTH
    height: int = BOX_HEIGHT

    @property
    def short_name(self) -> str:
        """The end of the name, as far as it fits."""
        return self.name if len(self.name) <= FITTING else f"…{self.name[1 - FITTING :]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyGraph:
    """A drawing of `width` by `height`; each arrow goes from the right of a box to another."""

    width: int
    height: int
    parents: tuple[Box, ...]
    job: Box
    children: tuple[Box, ...]

    @property
    def arrows(self) -> list[str]:
        """The arrows as paths."""
        pairs = [(parent, self.job) for parent in self.parents]
        pairs += [(self.job, child) for child in self.children]
        return [_arrow(start, end) for start, end in pairs]


def draw(
    job: tuple[int, str], parents: Sequence[tuple[int, str]], children: Sequence[tuple[int, str]]
) -> FamilyGraph | None:
    """Return a drawing of `(id, name)` of jobs; None for a job without a family."""
    if not parents and not children:
        return None
    columns = [column for column in (_few(parents), [job], _few(children)) if column]
    height = max(len(column) for column in columns) * (BOX_HEIGHT + GAP) + GAP
    boxes = [
        _column(column, 1 + rank * (BOX_WIDTH + COLUMN_GAP), height)
        for rank, column in enumerate(columns)
    ]
    middle = 1 if parents else 0
    return FamilyGraph(
        width=len(columns) * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP + 2,
        height=height,
        parents=boxes[0] if parents else (),
        job=boxes[middle][0],
        children=boxes[-1] if children else (),
    )


def _few(jobs: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    if len(jobs) <= MOST:
        return list(jobs)
    return [*jobs[: MOST - 1], (0, f"+ {len(jobs) - MOST + 1}")]


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
