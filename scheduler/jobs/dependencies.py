"""Resolves the names of child jobs to ids; refuses unknown names, circles and orphans.

Every caller's transaction holds `child_links.lock`, so that two people who save at the same time
cannot make a circle together.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from scheduler.jobs.rules import CHILDREN
from scheduler.problems import Code, Problem
from sql.jobs import child_links, jobs
from sql.models import Job
from sql.registry import apps


def link(
    session: Session, job: Job, children: Sequence[str], app_ids: Collection[int] | None = None
) -> str | None:
    """Set the children of a locked job, given as NAME or APP/NAME.

    `app_ids` are the apps that the caller may see, None = all; children in other apps are kept.

    Returns:
        a sentence about what changed; None if nothing did.

    Raises:
        Problem: a child is unknown, or there are too many; its facts name `app` and `job`.

    """
    child_ids = find(session, job.app_id, children, apps.ids_by_name(session, app_ids))
    unknown = [child for child, job_id in zip(children, child_ids, strict=True) if job_id is None]
    if unknown:
        listed = ", ".join(repr(child[:100]) for child in unknown)
        raise _problem(session, job.id, Code.CHILDREN_UNKNOWN, children=listed)
    before = child_links.children_of(session, job.id)
    hidden = _hidden(session, before, app_ids)
    after = tuple(dict.fromkeys([job_id for job_id in child_ids if job_id is not None] + hidden))
    if before == after:
        return None
    if len(after) > CHILDREN:
        facts = {"most": CHILDREN, "got": len(after)}
        raise _problem(session, job.id, Code.CHILDREN_TOO_MANY, **facts)
    child_links.set_children(session, job, after)
    names = _names(session, job.app_id, {*before, *after})
    seen = [[job_id for job_id in ids if job_id not in hidden] for ids in (before, after)]
    return f"children: {_listed(seen[0], names)} -> {_listed(seen[1], names)}"


def find(
    session: Session, app_id: int, children: Sequence[str], app_ids: Mapping[str, int]
) -> list[int | None]:
    """Return the id of each named child of a job of this app; None for an unknown name.

    `app_ids` are the ids of the apps that APP/NAME may name.
    """
    places = []
    for child in children:
        app, slash, name = child.rpartition("/")
        places.append((app_ids.get(app) if slash else app_id, name))
    wanted: dict[int, list[str]] = defaultdict(list)
    for place, name in places:
        if place is not None:
            wanted[place].append(name)
    known = {place: jobs.ids_in_app(session, place, names) for place, names in wanted.items()}
    return [known[place].get(name) if place is not None else None for place, name in places]


def refuse_circles(session: Session, job_ids: Iterable[int]) -> None:
    """Raise Problem with the path if one of the jobs is its own descendant."""
    starts = list(job_ids)
    children = _descendants(session, starts)
    for start in starts:
        circle = find_circle(start, children)
        if circle:
            app_id = next(job.app_id for job in jobs.to_plan(session, [start]).values())
            names = _names(session, app_id, set(circle))
            path = " -> ".join(names[job_id] for job_id in circle)
            raise _problem(session, start, Code.CIRCLE, path=path)


def refuse_orphans(session: Session, job_ids: Collection[int]) -> None:
    """Raise Problem with the parents if jobs to be deleted are children of jobs that stay."""
    staying = [row for row in child_links.parents(session, job_ids) if row.id not in job_ids]
    if not staying:
        return
    kept = child_links.children(session, [row.id for row in staying]).values()
    orphans = {child for child_ids in kept for child in child_ids} & set(job_ids)
    names = child_links.names(session, orphans)
    children = ", ".join(sorted("/".join(name) for name in names.values()))
    parents = ", ".join(f"{row.app}/{row.name}" for row in staying)
    raise Problem(Code.STILL_A_CHILD, job=children, parents=parents)


def _problem(session: Session, job_id: int, code: Code, **facts: object) -> Problem:
    app, job = child_links.names(session, [job_id])[job_id]
    return Problem(code, "children", app=app, job=job, **facts)


def find_circle(start: int, children: Mapping[int, Sequence[int]]) -> list[int] | None:
    """Return the shortest path from a job back to itself, both ends included; None without one."""
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        parent = waiting.popleft()
        for child in children.get(parent, ()):
            if child == start:
                return _path(start, parent, came_from)
            if child not in came_from:
                came_from[child] = parent
                waiting.append(child)
    return None


def _path(start: int, last: int, came_from: Mapping[int, int]) -> list[int]:
    backwards = [start]
    while last != start:
        backwards.append(last)
        last = came_from[last]
    return [start, *reversed(backwards)]


def _descendants(session: Session, job_ids: Iterable[int]) -> dict[int, tuple[int, ...]]:
    children: dict[int, tuple[int, ...]] = {}
    frontier = set(job_ids)
    seen = set(frontier)
    while frontier:
        generation = child_links.children(session, frontier)
        children |= generation
        frontier = {child for ids in generation.values() for child in ids} - seen
        seen |= frontier
    return children


def _hidden(session: Session, job_ids: Sequence[int], app_ids: Collection[int] | None) -> list[int]:
    """Return those of the jobs that exist in other apps than these; None = all apps."""
    if app_ids is None:
        return []
    known = apps.ids_by_name(session, app_ids)
    names = child_links.names(session, job_ids)
    return [job_id for job_id in job_ids if job_id in names and names[job_id][0] not in known]


def _names(session: Session, app_id: int, job_ids: Collection[int]) -> dict[int, str]:
    """Return the jobs' names as seen from this app: NAME for its own jobs, else APP/NAME."""
    own = {name for name, known_id in apps.ids_by_name(session).items() if known_id == app_id}
    return {
        job_id: name if app in own else f"{app}/{name}"
        for job_id, (app, name) in child_links.names(session, job_ids).items()
    }


def _listed(job_ids: Iterable[int], names: Mapping[int, str]) -> str:
    return ", ".join(names.get(job_id, str(job_id)) for job_id in job_ids) or "none"
