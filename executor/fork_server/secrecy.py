"""Keeps this process's settings secret from job processes and everything they start.

The zygote is a new program: it inherits no memory and no descriptor but its control socket. That
leaves the environment, which it would inherit, and /proc, where processes of one user can read each
other's environment and memory.
"""

import os

from warren.executor.fork_server import linux

#: The settings. Job processes get WARREN_RUN_ID and the like later.
_PREFIX = "WARREN_"
#: Where systemd puts our credential files, and where it is told that we live.
_OF_SYSTEMD = frozenset({"CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})


def keep_settings_secret() -> None:
    """Hide this process from its user's other processes; remove the settings from the environment.

    Read settings from the environment before this. It affects the whole process, so several
    executors of one process may all call it.
    """
    linux.hide_from_others()
    linux.wipe_variables([n for n in os.environ if n.startswith(_PREFIX) or n in _OF_SYSTEMD])
