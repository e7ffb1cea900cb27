"""Resolves the names of child jobs to ids; refuses unknown names, circles and orphans.

It only reads. A caller that writes the result takes `job_links.lock` first. Otherwise two people
who save at the same time could together make a circle, which would run forever.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlalchemy.orm import Session

from warren.resources.spelling import nearest
from warren.scheduler.flows.graph import Graph
from warren.scheduler.jobs.rules import CHILDREN
from warren.scheduler.names import COMPARED
from warren.scheduler.problems import Code, Problem, Refused, refusal
from warren.sql.jobs import job_links, job_names
from warren.sql.registry import apps

#: App and name of a job.
Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """A job, the children that it is to have, each as NAME or APP/NAME, and its graph, if any."""

    job_id: int
    app_id: int
    app: str
    name: str
    children: Sequence[str]
    flow: Graph | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A job's new children; `words` is a sentence about what changes, None = nothing does.

    `nodes` are the jobs that are its nodes from now on; None = as before.
    """

    job_id: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    words: str | None
    nodes: frozenset[int] | None = None


class KnownJobs:
    """The jobs and links in the database, and those that are planned.

    Apps and jobs that are not stored yet have negative ids.
    """

    def __init__(
        self,
        session: Session,
        *,
        new_apps: Mapping[str, int] | None = None,
        new_jobs: Mapping[int, Name] | None = None,
    ) -> None:
        self._session = session
        self._new_apps = new_apps or {}
        self._new_jobs = new_jobs or {}
        self._new_ids = {name: job_id for job_id, name in self._new_jobs.items()}
        self._planned: dict[int, tuple[int, ...]] = {}
        self._compared = 0

    def plan(self, links: Iterable[Link]) -> None:
        """From now on, behave as if jobs had these children."""
        self._planned |= {link.job_id: link.after for link in links}

    def app_ids(self, visible: Collection[int] | None = None) -> dict[str, int]:
        """Return the ids of apps by name; `visible` None = all."""
        stored = apps.ids_by_name(self._session, visible)
        return {**stored, **(self._new_apps if visible is None else {})}

    def ids(self, names: Iterable[Name], app_ids: Mapping[str, int]) -> dict[Name, int]:
        """Return the ids of the jobs that exist in these apps."""
        by_app: dict[str, list[str]] = defaultdict(list)
        known = {}
        for app, name in dict.fromkeys(names):
            if app in app_ids and (app, name) in self._new_ids:
                known[app, name] = self._new_ids[app, name]
            elif app_ids.get(app, -1) > 0:
                by_app[app].append(name)
        for app, wanted in by_app.items():
            stored = job_names.ids_in_app(self._session, app_ids[app], wanted)
            known |= {(app, name): job_id for name, job_id in stored.items()}
        return known

    def nearest(self, said: str, of: Name, app_ids: Mapping[str, int]) -> str:
        """Return the job in these apps that a job probably meant; empty if none has such a name.

        Only so many names are compared, however many are unknown.
        """
        if self._compared > COMPARED:
            return ""
        stored_in = [app_id for app_id in app_ids.values() if app_id > 0]
        stored = job_names.some(self._session, stored_in, limit=COMPARED)
        names = {*stored, *(new for new in self._new_ids if new[0] in app_ids)} - {of}
        self._compared += len(names)
        said_as = "/".join if "/" in said else lambda name: _name_from(of[0], name)
        return nearest(said, map(said_as, sorted(names)))

    def names(self, job_ids: Iterable[int]) -> dict[int, Name]:
        """Return app and name of the jobs that exist, by id."""
        wanted = set(job_ids)
        new = {job_id: self._new_jobs[job_id] for job_id in wanted if job_id in self._new_jobs}
        stored = job_names.by_ids(self._session, wanted - new.keys())
        return new | {job.id: (job.app, job.name) for job in stored.values()}

    def children(self, job_ids: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """Return the ids of the jobs' children, in order; jobs without children are left out."""
        wanted = set(job_ids)
        planned = {child: ids for child in wanted if (ids := self._planned.get(child))}
        stored = [child for child in wanted if child > 0 and child not in self._planned]
        return planned | job_links.children(self._session, stored)

    @cached_property
    def stored_flows(self) -> set[int]:
        """All jobs that are stored with nodes."""
        return job_links.all_flows(self._session)

    def nodes(self, flow_ids: Iterable[int]) -> dict[int, set[int]]:
        return job_links.nodes_of(self._session, self.stored_flows.intersection(flow_ids))

    def flows(self, job_ids: Iterable[int]) -> set[int]:
        """Return which of these jobs are stored as flows."""
        return job_links.flows_among(self._session, (job for job in job_ids if job > 0))

    def flows_with(self, job_ids: Iterable[int]) -> dict[int, set[int]]:
        """Return the stored flows that have these jobs as nodes, by job."""
        return job_links.flows_with(self._session, (job for job in job_ids if job > 0))

    def parents(self, job_ids: Collection[int]) -> dict[int, Name]:
        """Return app and name of all jobs that have one of these as a child, by id."""
        stored = job_links.parent_ids(self._session, job_ids) - self._planned.keys()
        wanted = set(job_ids)
        planned = {item for item, ids in self._planned.items() if not wanted.isdisjoint(ids)}
        return self.names(stored | planned)


def link(
    known: KnownJobs,
    families: Sequence[Family],
    app_ids: Collection[int] | None = None,
) -> list[Link]:
    """Return the new children of each job, in the order of the families.

    `app_ids` are the apps that the caller may see, None = all; children in other apps are kept.

    Raises:
        Refused: children or nodes are unknown, or there are too many; the facts of each problem
            name `app` and `job`.

    """
    visible = known.app_ids(app_ids)
    wanted = [_places(family, family.children) for family in families]
    own_apps = {family.app: family.app_id for family in families}
    ids = known.ids((place for places in wanted for place in places), visible | own_apps)
    problems = [
        _unknown_child(known, family, child, visible | own_apps)
        for family, places in zip(families, wanted, strict=True)
        for child, place in zip(family.children, places, strict=True)
        if place not in ids or ("/" in child and place[0] not in visible)
    ]
    nodes: dict[int, frozenset[int]] = {}
    try:
        nodes = flow_nodes(known, families, visible, own_apps)
    except Refused as refused:
        problems += refused.problems
    if problems:
        raise refusal(problems)
    stored = known.children(family.job_id for family in families)
    names = known.names(child for children in stored.values() for child in children)
    names |= {job_id: name for name, job_id in ids.items()}
    links = []
    for family, places in zip(families, wanted, strict=True):
        before = stored.get(family.job_id, ())
        hidden = _hidden(before, names, visible) if app_ids is not None else []
        after = tuple(dict.fromkeys([*(ids[place] for place in places), *hidden]))
        words = None if before == after else _words(family, before, after, hidden, names)
        links.append(Link(family.job_id, before, after, words, nodes.get(family.job_id)))
    return links


def flow_nodes(
    known: KnownJobs,
    families: Sequence[Family],
    visible: Mapping[str, int],
    own_apps: Mapping[str, int],
) -> dict[int, frozenset[int]]:
    """Return the jobs that are the nodes of the flows, by flow, where that changes.

    Raises:
        Refused: jobs of nodes are unknown or themselves flows, or a flow is a node of another one.

    """
    flows = [family for family in families if family.flow is not None]
    stored = known.nodes(family.job_id for family in families)
    changed = {
        family.job_id: frozenset[int]()
        for family in families
        if family.flow is None and stored.get(family.job_id)
    }
    if not flows:
        return changed
    places = {
        (family.app, job): place
        for family in flows
        if family.flow is not None
        for job, place in zip(family.flow.jobs, _places(family, family.flow.jobs), strict=True)
    }
    ids = known.ids(places.values(), {**known.app_ids(), **own_apps})
    of_flows = known.flows(ids.values()) | {family.job_id for family in flows}
    problems = []
    for family in flows:
        before = stored.get(family.job_id, set())
        nodes = family.flow.nodes.values() if family.flow is not None else ()
        for node in nodes:
            app, _ = place = places[family.app, node.job]
            job_id = ids.get(place, 0)
            is_hidden = "/" in node.job and app not in visible and job_id not in before
            facts = {"node": node.name, "got": node.job[:100], "app": family.app}
            field = f"flow/{node.name}/job"
            if not job_id or is_hidden:
                own = family.app, family.name
                near = known.nearest(node.job, own, {**visible, **own_apps})
                code = Code.FLOW_JOB_UNKNOWN_NEAR if near else Code.FLOW_JOB_UNKNOWN
                problems.append(Problem(code, field, job=family.name, near=near, **facts))
            elif job_id in of_flows:
                problems.append(Problem(Code.FLOW_IN_FLOW, field, job=family.name, **facts))
        after = frozenset(ids.get(places[family.app, node.job], 0) for node in nodes)
        if after != before:
            changed[family.job_id] = after
    if problems:
        raise refusal(problems)
    if users := known.flows_with([family.job_id for family in flows]):
        job_id, user_ids = next(iter(users.items()))
        names = known.names({job_id, *user_ids})
        listed = ", ".join("/".join(names[user]) for user in sorted(user_ids) if user in names)
        app, job = names[job_id]
        raise Problem(Code.FLOW_IS_NODE, "flow", app=app, job=job, flows=listed)
    return changed


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
    known = {place: job_names.ids_in_app(session, place, names) for place, names in wanted.items()}
    return [known[place].get(name) if place is not None else None for place, name in places]


def refuse_circles(known: KnownJobs, job_ids: Iterable[int]) -> None:
    """Raise Problem with the path if one of the jobs is its own descendant."""
    starts = list(job_ids)
    children = circling(_descendants(known, starts))
    for start in starts:
        circle = find_circle(start, children)
        if circle:
            names = known.names({start, *circle})
            app, job = names[start]
            names_in = {job_id: _name_from(app, names[job_id]) for job_id in circle}
            path = " -> ".join(names_in[job_id] for job_id in circle)
            raise Problem(Code.CIRCLE, "children", app=app, job=job, path=path)


def refuse_orphans(known: KnownJobs, job_ids: Collection[int]) -> None:
    """Raise Problem with the parents if jobs to be deleted are children of jobs that stay."""
    parents = known.parents(job_ids)
    staying = parents.keys() - set(job_ids)
    if not staying:
        return
    kept = known.children(staying).values()
    orphans = {child for child_ids in kept for child in child_ids} & set(job_ids)
    children = ", ".join(sorted("/".join(name) for name in known.names(orphans).values()))
    names = ", ".join(map("/".join, sorted(parents[job_id] for job_id in staying)))
    raise Problem(Code.STILL_A_CHILD, job=children, parents=names)


def refuse_missing_nodes(known: KnownJobs, job_ids: Collection[int]) -> None:
    """Raise Problem with the flows if jobs to be deleted are nodes of flows that stay."""
    users = {
        job_id: left
        for job_id, flows in known.flows_with(job_ids).items()
        if (left := flows - set(job_ids))
    }
    if users:
        names = known.names({*users, *(flow for flows in users.values() for flow in flows)})
        jobs = ", ".join(sorted("/".join(names[job_id]) for job_id in users if job_id in names))
        flow_ids = {flow for flows in users.values() for flow in flows}
        flows = ", ".join(sorted("/".join(names[flow]) for flow in flow_ids if flow in names))
        raise Problem(Code.STILL_A_NODE, job=jobs, flows=flows)


def _descendants(known: KnownJobs, job_ids: Iterable[int]) -> dict[int, tuple[int, ...]]:
    children: dict[int, tuple[int, ...]] = {}
    frontier = set(job_ids)
    seen = set(frontier)
    while frontier:
        generation = known.children(frontier)
        children |= generation
        frontier = {child for ids in generation.values() for child in ids} - seen
        seen |= frontier
    return children


def _places(family: Family, jobs: Iterable[str]) -> list[Name]:
    """Return app and name of jobs that are written as NAME of a job's own app, or APP/NAME."""
    parts = (job.rpartition("/") for job in jobs)
    return [(app if slash else family.app, name) for app, slash, name in parts]


def _unknown_child(
    known: KnownJobs, family: Family, child: str, app_ids: Mapping[str, int]
) -> Problem:
    near = known.nearest(child, (family.app, family.name), app_ids)
    code = Code.CHILDREN_UNKNOWN_NEAR if near else Code.CHILDREN_UNKNOWN
    return _problem(family, code, children=repr(child[:100]), near=near)


def _hidden(
    job_ids: Sequence[int], names: Mapping[int, Name], visible: Collection[str]
) -> list[int]:
    """Return the jobs that exist, but in apps that are not visible."""
    return [job_id for job_id in job_ids if job_id in names and names[job_id][0] not in visible]


def _words(
    family: Family,
    before: Sequence[int],
    after: Sequence[int],
    hidden: Collection[int],
    names: Mapping[int, Name],
) -> str:
    """Return a sentence about what changes, without children that the caller may not see."""
    if len(after) > CHILDREN:
        raise _problem(family, Code.CHILDREN_TOO_MANY, most=CHILDREN, got=len(after))
    words = [
        ", ".join(
            _name_from(family.app, names[job_id]) if job_id in names else str(job_id)
            for job_id in ids
            if job_id not in hidden
        )
        for ids in (before, after)
    ]
    return f"children: {words[0] or 'none'} -> {words[1] or 'none'}"


def _name_from(app: str, name: Name) -> str:
    """Return a job's name as seen from an app: NAME for its own jobs, else APP/NAME."""
    return name[1] if name[0] == app else "/".join(name)


def _problem(family: Family, code: Code, **facts: object) -> Problem:
    return Problem(code, "children", app=family.app, job=family.name, **facts)


def circling(children: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    """Return the links that may be part of a circle; none if there is no circle.

    Linear in the number of links, so that long chains of jobs are cheap to check.
    """
    parents: dict[int, list[int]] = defaultdict(list)
    for parent, ids in children.items():
        for child in ids:
            parents[child].append(parent)
    # First remove the jobs that lead to no circle, then those that no circle leads to.
    left = _without_ends(children.keys() | parents.keys(), children, parents)
    left = _without_ends(left, parents, children)
    return {
        parent: [child for child in ids if child in left]
        for parent, ids in children.items()
        if parent in left
    }


def _without_ends(
    job_ids: Collection[int],
    onwards: Mapping[int, Sequence[int]],
    backwards: Mapping[int, Sequence[int]],
) -> set[int]:
    """Return the jobs that remain when dead ends are removed, again and again."""
    left = set(job_ids)
    ways = Counter(
        {job_id: sum(other in left for other in onwards.get(job_id, ())) for job_id in left}
    )
    ends = [job_id for job_id in left if not ways[job_id]]
    while ends:
        end = ends.pop()
        left.discard(end)
        for other in backwards.get(end, ()):
            ways[other] -= 1
            if other in left and not ways[other]:
                ends.append(other)
    return left


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
