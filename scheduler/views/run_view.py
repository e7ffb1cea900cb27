"""A run in JSON: its row without the columns that only pages need."""

from typing import Any

from warren.scheduler.views.to_json import to_json
from warren.sql.listings.recent import DetailedRun

#: Columns that JSON leaves out.
PAGES_ONLY = frozenset(
    {
        "message_why",
        "trigger_why",
        "log_tail",
        "boot_id",
        "retries_left",
        "wanted_addresses",
        "timezone",
        "route",
    }
)


def run_json(run: DetailedRun) -> dict[str, Any]:
    """Return a run as a JSON object; a deleted job's run has no `job`."""
    return to_json(run, without=PAGES_ONLY)
