"""A job's family: every job that leads to it or follows from it, and which leads to which."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlalchemy.orm import Session

from sql.jobs import child_links
from sql.listings import job_search

#: How many generations are looked at to each side, and how many jobs in all.
GENERATIONS, JOBS = 6, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Jobs by id as APP/NAME, and pairs of parent and child among them.

    `is_cut`: there are more than were looked at.
    """

    names: dict[int, str]
    links: list[tuple[int, int]]
    is_cut: bool


def read(session: Session, job_id: int, app_ids: Collection[int] | None) -> Family:
    """Return the family of a job, as far as it exists for a visitor.

    What leads there through a job that does not exist for them does not either.
    """

    def children(job_ids: Collection[int]) -> set[int]:
        found = child_links.children(session, job_ids)
        return {child for mine in found.values() for child in mine}

    def parents(job_ids: Collection[int]) -> set[int]:
        return child_links.parent_ids(session, job_ids)

    def visible(job_ids: Collection[int]) -> dict[int, str]:
        return job_search.names(session, job_ids, app_ids)

    known = visible([job_id])
    cuts = [_walk(known, job_id, step, visible) for step in (children, parents)]
    found = child_links.children(session, known)
    links = [(parent, child) for parent, mine in found.items() for child in mine if child in known]
    return Family(names=known, links=links, is_cut=any(cuts))


def _walk(
    known: dict[int, str],
    start: int,
    step: Callable[[Collection[int]], set[int]],
    visible: Callable[[Collection[int]], dict[int, str]],
) -> bool:
    """Add the generations of one side to what is known; return whether some were left out."""
    edge = {start}
    for _ in range(GENERATIONS):
        fresh = visible(step(edge) - known.keys())
        room = JOBS - len(known)
        if not fresh:
            return False
        known.update(list(fresh.items())[:room])
        if len(fresh) > room:
            return True
        edge = set(fresh)
    return bool(visible(step(edge) - known.keys()))
