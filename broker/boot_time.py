"""The clock of deadlines between processes: its seconds also pass while the host is suspended."""

import time


def boot_seconds() -> float:
    """Return seconds since the host's start; they never jump."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
