"""Instants as users write and read them."""

from zoneinfo import ZoneInfo

import click
import pytest

from warren.sql.instants import iso
from warren.views.instants import local, read_instant

NOW = 1_796_083_200_000  # 2026-12-01T00:00:00Z
SHANGHAI = ZoneInfo("Asia/Shanghai")


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("30s", NOW - 30_000),
        ("10m", NOW - 600_000),
        (" 2h ", NOW - 7_200_000),
        ("1d", NOW - 86_400_000),
        ("1w", NOW - 604_800_000),
        ("0s", NOW),
        ("999999999w", 0),
        ("2026-12-01T08:00:00+08:00", NOW),
        ("2026-12-01T00:00:00Z", NOW),
        ("2026-12-01T08:00:00", NOW),
        ("2026-12-01 08:00", NOW),
        ("2026-12-01", NOW - 28_800_000),
        ("0001-01-01T00:00:00Z", 0),
    ],
)
def test_instant_is_read(text: str, instant: int) -> None:
    assert read_instant(text, now_ms=NOW, zone=SHANGHAI) == instant


@pytest.mark.parametrize("text", ["", "x", "10", "10y", "-5m", "1.5h", "yesterday", "2026-13-01"])
def test_what_is_no_instant_is_named(text: str) -> None:
    with pytest.raises(click.UsageError, match="expected a time like") as refused:
        read_instant(text, now_ms=NOW, zone=SHANGHAI)

    assert repr(text) in str(refused.value)


def test_instant_is_written_with_its_offset() -> None:
    assert iso(NOW + 7) == "2026-12-01T00:00:00.007+00:00"
    assert iso(None) is iso(0) is None


def test_instant_is_read_back_as_it_was_written() -> None:
    written = iso(NOW + 7)

    assert written is not None
    assert read_instant(written, now_ms=0, zone=SHANGHAI) == NOW + 7


def test_people_read_their_own_zone() -> None:
    assert local(NOW, SHANGHAI) == "2026-12-01 08:00:00 CST"
    assert local(None, SHANGHAI) == ""
