"""Who is whose child: names become ids, and unknown ones, circles and orphans are refused.

Every function works in a transaction that holds `families.lock`, so that two people who save at
the same time cannot close a circle between them.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from sql import apps, families, jobs
from sql.models import Job

#: What the column of children's ids holds.
LONGEST_IDS = 255


class ChildrenRefused(ValueError):
    """A job cannot have these children; `app` and `job` are the names of whose they would be."""

    def __init__(self, words: str, app: str, job: str) -> None:
        super().__init__(words)
        self.app = app
        self.job = job


def link(session: Session, job: Job, children: Sequence[str]) -> str | None:
    """Give a locked job these children, by NAME in its app or by APP/NAME.

    Returns:
        what changed, in words; None when nothing did.

    Raises:
        ChildrenRefused: one is unknown, or all of them do not fit, in one line that names the job.

    """
    app_ids = apps.ids_by_name(session)
    found = [_find(session, job, child, app_ids) for child in children]
    unknown = [child for child, job_id in zip(children, found, strict=True) if job_id is None]
    if unknown:
        listed = ", ".join(repr(child[:100]) for child in unknown)
        raise _refused(session, job.id, f"cannot save job {job.job_desc}: unknown child {listed}")
    before = families.ids(job.child_jobid)
    after = tuple(dict.fromkeys(job_id for job_id in found if job_id is not None))
    if before == after:
        return None
    child_jobid = ",".join(map(str, after))
    if len(child_jobid) > LONGEST_IDS:
        raise _refused(
            session,
            job.id,
            f"cannot save job {job.job_desc}: expected the ids of its children to take up to "
            f"{LONGEST_IDS} characters, got: {len(child_jobid)}",
        )
    job.child_jobid = child_jobid
    session.flush()
    names = _names(session, job.job_group, {*before, *after})
    return f"children: {_listed(before, names)} -> {_listed(after, names)}"


def refuse_circles(session: Session, job_ids: Iterable[int]) -> None:
    """Raise ChildrenRefused, naming the path, when one of the jobs is its own descendant."""
    starts = list(job_ids)
    children = _descendants(session, starts)
    for start in starts:
        circle = find_circle(start, children)
        if circle:
            app_id = next(job.job_group for job in jobs.to_plan(session, [start]).values())
            names = _names(session, app_id, set(circle))
            path = " -> ".join(names[job_id] for job_id in circle)
            words = f"cannot save job {names[start]}: its children form a circle: {path}"
            raise _refused(session, start, words)


def refuse_orphans(session: Session, job_ids: Collection[int]) -> None:
    """Raise ValueError, naming the parents, when jobs to be deleted are children of others."""
    left = [row for row in families.parents(session, job_ids) if row.id not in job_ids]
    if not left:
        return
    orphans = {child for row in left for child in families.ids(row.child_jobid)} & set(job_ids)
    names = families.names(session, orphans)
    children = ", ".join(sorted("/".join(name) for name in names.values()))
    parents = ", ".join(f"{row.app}/{row.name}" for row in left)
    raise ValueError(f"cannot delete job {children}: still among the children of {parents}")


def _refused(session: Session, job_id: int, words: str) -> ChildrenRefused:
    return ChildrenRefused(words, *families.names(session, [job_id])[job_id])


def find_circle(start: int, children: Mapping[int, Sequence[int]]) -> list[int] | None:
    """Return the shortest way from a job back to itself, both ends included; None without one."""
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        parent = waiting.popleft()
        for child in children.get(parent, ()):
            if child == start:
                return _way(start, parent, came_from)
            if child not in came_from:
                came_from[child] = parent
                waiting.append(child)
    return None


def _way(start: int, last: int, came_from: Mapping[int, int]) -> list[int]:
    way = [start]
    while last != start:
        way.append(last)
        last = came_from[last]
    return [start, *reversed(way)]


def _descendants(session: Session, job_ids: Iterable[int]) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    frontier = set(job_ids)
    seen = set(frontier)
    while frontier:
        generation = families.children(session, frontier)
        found |= generation
        frontier = {child for ids in generation.values() for child in ids} - seen
        seen |= frontier
    return found


def _find(session: Session, job: Job, child: str, app_ids: Mapping[str, int]) -> int | None:
    app, slash, name = child.rpartition("/")
    app_id = app_ids.get(app) if slash else job.job_group
    found = jobs.find_in_app(session, app_id, name) if app_id is not None else None
    return found.id if found else None


def _names(session: Session, app_id: int, job_ids: Collection[int]) -> dict[int, str]:
    """Return the jobs' names as a job of this app would write them."""
    own = {name for name, found in apps.ids_by_name(session).items() if found == app_id}
    return {
        job_id: name if app in own else f"{app}/{name}"
        for job_id, (app, name) in families.names(session, job_ids).items()
    }


def _listed(job_ids: Iterable[int], names: Mapping[int, str]) -> str:
    return ", ".join(names.get(job_id, str(job_id)) for job_id in job_ids) or "none"
