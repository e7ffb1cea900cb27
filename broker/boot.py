"""What identifies a boot of an executor, and the host's clock that boots are timed by.

Small on purpose: everything that names or times an executor imports it, and it imports nothing.
"""

import time
from typing import NamedTuple


def boot_seconds() -> float:
    """Return the seconds since the host booted; they never jump, and also pass while it sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Boot(NamedTuple):
    """One start of the executor that has this address in its app."""

    app: str
    address: str
    boot_id: str
