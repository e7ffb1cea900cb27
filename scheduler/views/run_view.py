"""A run as it is shown: everything in its row except what only pages need."""

from typing import Any

from scheduler.views.to_json import to_json
from sql.listings.recent import DetailedRun

#: What JSON leaves out.
OF_PAGES = frozenset(
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
    return to_json(run, without=OF_PAGES)
