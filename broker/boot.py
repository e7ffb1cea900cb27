"""What identifies a boot of an executor, and the host's clock by which boots are timed.

It is small and imports nothing, because everything that names or times an executor imports it.
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
