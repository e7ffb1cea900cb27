"""How a boot of an executor is named.

The clock of deadlines between processes: its seconds also pass while the host is suspended.
"""

import time
from typing import NamedTuple


def boot_seconds() -> float:
    """Return seconds since the host's start; they never jump."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Boot(NamedTuple):
    """One start of the executor that has this address in its app."""

    app: str
    address: str
    boot_id: str
