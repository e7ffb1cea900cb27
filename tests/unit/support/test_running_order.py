"""Which tests begin, and which end, on each of several workers."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.running_order import running_order


@dataclass(frozen=True, eq=False)
class Item:
    """As much of a test as its place depends on."""

    name: str
    path: Path
    fixturenames: tuple[str, ...] = ()


def of(folder: str, count: int, *fixtures: str, each: int = 1) -> list[Item]:
    """Return tests in files of `each`."""
    return [
        Item(f"{folder}{number}", Path("tests") / folder / f"test_{number // each}.py", fixtures)
        for number in range(count)
    ]


ITEMS = [
    *of("integration", 10),
    *of("integration/chromium", 3, "page", "chromium"),
    *of("acceptance", 4),
    *of("faults/fleet", 3, "_fleet"),
]


def names(items: list[Item], workers: int) -> list[str]:
    return [item.name for item in running_order(items, workers)]  # type: ignore[arg-type]


def test_each_share_begins_with_tests_that_share_a_process_and_ends_with_short_ones() -> None:
    order = names(ITEMS, 2)

    shares = [order[:10], order[10:]]
    assert [name.rstrip("0123456789") for name in shares[0]] == [
        *["faults/fleet"] * 3,
        *["acceptance"] * 2,
        *["integration"] * 5,
    ]
    assert [name.rstrip("0123456789") for name in shares[1]] == [
        *["integration/chromium"] * 3,
        *["acceptance"] * 2,
        *["integration"] * 5,
    ]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8, 40])
def test_every_test_runs_once_however_many_workers_there_are(workers: int) -> None:
    assert sorted(names(ITEMS, workers)) == sorted(item.name for item in ITEMS)


def test_a_file_of_long_tests_stays_whole() -> None:
    items = [*of("acceptance", 9, each=3), *of("integration", 11)]

    order = names(items, 2)

    assert [
        len([name for name in share if "acc" in name]) for share in (order[:10], order[10:])
    ] == [
        6,
        3,
    ]
