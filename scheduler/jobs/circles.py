"""Circles among jobs and their children, which would run for ever."""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence


def circling(children: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    """Return the links that may be part of a circle: none for jobs that form no circle.

    Linear in the number of links, so that long chains of jobs are cheap to check.
    """
    parents: dict[int, list[int]] = defaultdict(list)
    for parent, ids in children.items():
        for child in ids:
            parents[child].append(parent)
    # First all that leads to no circle, then all that no circle leads to.
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
    """Return the jobs without those from which every way ends."""
    left = set(job_ids)
    ways = Counter({one: sum(other in left for other in onwards.get(one, ())) for one in left})
    ends = [one for one in left if not ways[one]]
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
