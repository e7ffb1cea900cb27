"""The ancestors and descendants of a job, and the links between them."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.sql.jobs import child_links
from warren.sql.listings import job_search

#: Most generations in each direction, and most jobs in all.
GENERATIONS, JOBS = 6, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Jobs by id as APP/NAME, and pairs of parent and child among them.

    `is_cut`: there are more jobs than the limits allow.
    """

    names: dict[int, str]
    links: list[tuple[int, int]]
    is_cut: bool


def read(session: Session, job_id: int, app_ids: Collection[int] | None) -> Family:
    """Return the family of a job, as far as the visitor may see it.

    Jobs that are reached only through a hidden job are hidden too.
    """
    copied = child_links.copied(session)

    def children(job_ids: Collection[int]) -> set[int]:
        by_parent = child_links.children(session, job_ids)
        return {child for child_ids in by_parent.values() for child in child_ids}

    def parents(job_ids: Collection[int]) -> set[int]:
        return child_links.parent_ids(session, job_ids, copied)

    def visible(job_ids: Collection[int]) -> dict[int, str]:
        return job_search.names(session, job_ids, app_ids)

    known = visible([job_id])
    cuts = [_walk(known, job_id, step, visible) for step in (children, parents)]
    links = [
        (parent, child)
        for parent, child_ids in child_links.children(session, known).items()
        for child in child_ids
        if child in known
    ]
    return Family(names=known, links=links, is_cut=any(cuts))


def _walk(
    known: dict[int, str],
    start: int,
    step: Callable[[Collection[int]], set[int]],
    visible: Callable[[Collection[int]], dict[int, str]],
) -> bool:
    """Add the generations in one direction to `known`; return whether some were left out."""
    edge = {start}
    for _ in range(GENERATIONS):
        new = visible(step(edge) - known.keys())
        room = JOBS - len(known)
        if not new:
            return False
        known.update(list(new.items())[:room])
        if len(new) > room:
            return True
        edge = set(new)
    return bool(visible(step(edge) - known.keys()))
