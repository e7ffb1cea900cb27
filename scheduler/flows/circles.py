"""Circles among links, such as those from jobs to their children. Pure."""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence


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
