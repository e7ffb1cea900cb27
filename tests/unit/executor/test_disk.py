"""How much of a disk is to stay free."""

from pathlib import Path

import pytest

from warren.executor import disk
from warren.executor.disk import DEFAULT_RESERVE, DiskWatch, Reserve, Space

GB = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        (DEFAULT_RESERVE, 100 * GB, 64_000_000),
        (DEFAULT_RESERVE, 6_000_000, 300_000),
        ("1GB", 100 * GB, GB),
        ("500 kB", 100 * GB, 500_000),
        ("2.5%", 100 * GB, 2_500_000_000),
        ("0MB", 100 * GB, 0),
        ("10% or 1GB", 100 * GB, GB),
        ("10% or 1GB", GB, 100_000_000),
    ],
)
def test_reserve_is_the_least_of_what_is_named(text: str, size: int, expected: int) -> None:
    assert Reserve.parse(text).of(Space(size, 0)) == expected


@pytest.mark.parametrize("text", ["", "64", "64 MiB", "5", "100 %", "-1MB", "5% or", "5%, 1GB"])
def test_what_names_no_reserve_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is neither a size nor a percentage"):
        Reserve.parse(text)


def test_what_is_lacking_is_what_is_not_free_of_the_reserve() -> None:
    reserve = Reserve.parse("1MB")

    shortfall = [reserve.shortfall(Space(GB, free)) for free in (0, 400_000, 1_000_000, GB)]

    assert shortfall == [1_000_000, 600_000, 0, 0]


def test_disk_is_short_until_a_quarter_more_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = DiskWatch([tmp_path], Reserve.parse("1MB"))
    found = []

    for free in (1_000_000, 999_999, 1_000_000, 1_249_999, 1_250_000, 1_000_000):
        monkeypatch.setattr(disk, "space_of", lambda _place, free=free: Space(GB, free))
        found.append(watch.is_short())

    assert found == [False, True, True, True, False, False]


def test_disk_that_can_hold_few_more_files_is_short_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = DiskWatch([tmp_path], Reserve.parse("1MB"))
    found = []

    for files in (None, 1_000, 999, 1_249, 1_250, None):
        monkeypatch.setattr(
            disk, "space_of", lambda _place, files=files: Space(GB, GB, free_files=files)
        )
        found.append(watch.is_short())

    assert found == [False, False, True, True, False, False]


def test_folder_that_is_not_there_is_not_short(tmp_path: Path) -> None:
    assert not DiskWatch([tmp_path / "none"], Reserve.parse("99%")).is_short()
