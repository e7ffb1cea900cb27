"""What a process tells systemd that started it: that it is ready, and that it still works."""

import os
import socket
from contextlib import suppress
from typing import Self

_READY, _ALIVE = b"READY=1", b"WATCHDOG=1"


class ServiceManager:
    """The socket of sd_notify(3); without an address nobody is told. Any thread may use it.

    `address` is a path, or `@` and an abstract name.
    """

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address

    @classmethod
    def found(cls) -> Self:
        """Return the one that the environment names, as systemd does for its services."""
        return cls(os.environ.get("NOTIFY_SOCKET", ""))

    def ready(self) -> None:
        """Say that the process has started."""
        self._tell(_READY)

    def beat(self) -> None:
        """Say that it works; call it at least twice in the unit's `WatchdogSec`."""
        self._tell(_ALIVE)

    def _tell(self, words: bytes) -> None:
        if not self._address:
            return
        # A full or missing socket is no reason to end: if it stays so, the watchdog decides.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto(words, self._address)
