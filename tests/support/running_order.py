"""The order in which tests run: what takes longest begins, on each worker something else."""

from collections.abc import Sequence

import pytest

#: Fixtures of processes that several tests share; they use the machine for as long as they live.
SHARED = ("_fleet", "chromium", "_survivors", "_served")
#: Those of servers for tests that harm them: dear to start, and cheap to keep.
_HARMED = ("_broken_rabbitmq", "_broken_mariadb")
#: What the tests in a row have in common; each row begins the share of another worker.
_ROWS = (*((name,) for name in SHARED), _HARMED)
#: Folders of tests that start programs and wait for them.
_LONG = ("acceptance", "faults", "interop")


def running_order(items: Sequence[pytest.Function], workers: int) -> list[pytest.Function]:
    """Return the tests in the order in which they are to be handed out.

    pytest-xdist hands each worker an equal share, in this order, and gives those that are ready
    early the end of another's. So a share begins with a row of tests that want the same processes,
    goes on with a part of the other long ones, and ends with short ones, which are easily moved.
    """
    rows: list[list[pytest.Function]] = [[] for _ in _ROWS]
    long: list[pytest.Function] = []
    short: list[pytest.Function] = []
    for item in items:
        row = _row_of(item)
        if row is not None:
            rows[row].append(item)
        elif set(_LONG) & set(item.path.parts):
            long.append(item)
        else:
            short.append(item)
    shares: list[list[pytest.Function]] = [[] for _ in range(workers)]
    for number, row in enumerate(rows):
        shares[number % workers] += row
    for number, share in enumerate(shares):
        share.extend(_part(long, number, workers))
    left = len(items)
    for number, share in enumerate(shares):
        size = left // (workers - number)
        left -= size
        wanted = max(0, size - len(share))
        share.extend(short[:wanted])
        del short[:wanted]
    return [item for share in shares for item in share] + short


def _row_of(item: pytest.Function) -> int | None:
    names = set(item.fixturenames)
    return next((number for number, row in enumerate(_ROWS) if names & set(row)), None)


def _part(items: Sequence[pytest.Function], number: int, parts: int) -> Sequence[pytest.Function]:
    """Return one of equal parts that leave each file whole."""
    return items[_cut(items, number, parts) : _cut(items, number + 1, parts)]


def _cut(items: Sequence[pytest.Function], number: int, parts: int) -> int:
    cut = len(items) * number // parts
    while 0 < cut < len(items) and items[cut].path == items[cut - 1].path:
        cut += 1
    return cut
