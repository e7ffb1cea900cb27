"""Skipped due times on a terminal and as JSON."""

from collections.abc import Iterable
from typing import Any
from zoneinfo import ZoneInfo

from warren.scheduler.views.to_json import to_json
from warren.sql.jobs.skips import SkipLine
from warren.views.instants import local
from warren.views.terminal import print_table

HEADERS = ("job", "app", "first due", "last due", "skipped", "reason")


def print_skips(skips: Iterable[SkipLine], zone: ZoneInfo, *, nothing: str) -> None:
    """Print a table of skips."""
    print_table(HEADERS, [_line(skip, zone) for skip in skips], nothing=nothing)


def skip_json(skip: SkipLine) -> dict[str, Any]:
    """Return a skip as a JSON object; a deleted job's has no `job`."""
    found = to_json(skip, without=("timezone", "why", "number", "reason"))
    return found | {"count": skip.number, "reason": skip.reason}


def _line(skip: SkipLine, zone: ZoneInfo) -> tuple[str, ...]:
    return (
        skip.job or f"(deleted job {skip.job_id})",
        skip.app or "",
        local(skip.from_at, zone),
        local(skip.to_at, zone),
        str(skip.number),
        skip.reason,
    )
