"""One console of the cluster: its server, its registration, its housekeeping."""

import contextlib
import secrets
import socket
import time

from admin_web.app import create_app
from admin_web.parts import Parts
from admin_web.server import ConsoleServer
from admin_web.sign_ins import SignIns
from scheduler.loop import Loop
from scheduler.user_commands import UserCommands
from sql import presence
from sql.clock import DatabaseClock

#: How often a console renews its registration, and how often it clears up.
BEAT_SECONDS = 5.0
CLEANING_SECONDS = 600.0
_ROUND_SECONDS = 8.0


class Console:
    """Start any number of them on one database.

    Args:
        parts: what it is made of.
        clock: the one behind `parts.now_ms`; the console keeps it right.
        port: 0 = any that is free.

    Raises:
        OSError: the port is taken.

    """

    def __init__(self, parts: Parts, clock: DatabaseClock, *, port: int) -> None:
        self._parts = parts
        self._clock = clock
        self._boot_id = secrets.token_hex(8)
        self._name = f"{socket.gethostname()[:48]}-{self._boot_id[:6]}"
        self._sign_ins = SignIns(parts.database, parts.now_ms)
        self._cleaned_at = float("-inf")
        self._server = ConsoleServer(create_app(parts), host=parts.host, port=port)
        self._loop = Loop("console registration", self._tick, longest_seconds=BEAT_SECONDS)
        self.port = self._server.port

    def start(self) -> str | None:
        """Begin to answer; return the first administrator's password if one was made just now."""
        password = UserCommands(self._parts.database, who="console", origin="console").add_first()
        self._server.start()
        self._loop.start()
        return password

    def stop(self) -> None:
        """End in order: no more requests, then the registration is taken back."""
        self._server.stop()
        self._loop.stop()
        self._loop.join(_ROUND_SECONDS)
        with contextlib.suppress(Exception):
            self._parts.database.write(
                lambda session: presence.leave(
                    session, presence.ADMIN, presence.CONSOLE, self._name, self._boot_id
                )
            )

    def _tick(self) -> float:
        self._clock.tick()
        self._beat()
        if time.monotonic() - self._cleaned_at > CLEANING_SECONDS:
            self._sign_ins.clean()
            self._cleaned_at = time.monotonic()
        return BEAT_SECONDS

    def _beat(self) -> None:
        beat = presence.Beat(
            group=presence.ADMIN,
            key=presence.CONSOLE,
            address=self._name,
            boot_id=self._boot_id,
            beat_at=self._parts.now_ms(),
        )
        if not self._parts.database.write(lambda session: presence.renew(session, beat)):
            self._parts.database.write(lambda session: presence.hold(session, beat))
