"""One console process: its HTTP server, its registration, its housekeeping."""

import contextlib
import secrets
import socket
import time

import structlog

from warren.admin_web.access.sign_ins import SignIns
from warren.admin_web.app import create_app
from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.serving import idempotency_keys
from warren.admin_web.serving.http_server import ConsoleServer
from warren.scheduler.actor import Actor
from warren.scheduler.membership.self_health import ClusterZone
from warren.scheduler.rounds.loop import Loop
from warren.sql.clock import DatabaseClock
from warren.sql.registry import presence
from warren.sql.registry.presence import process_name

#: How often a console renews its registration, and how often it deletes expired sign-ins and keys.
BEAT_SECONDS = 5.0
CLEANING_SECONDS = 600.0
_ROUND_SECONDS = 8.0

log = structlog.get_logger()


class Console:
    """A console process; any number of them can share a database.

    Args:
        services: what the console needs.
        clock: the one behind `services.now_ms`; adjusted here.
        zone: the one behind `services.cluster_zone`; read again here.
        port: 0 = any free one.

    Raises:
        OSError: the port is taken.

    """

    def __init__(
        self, services: ConsoleServices, clock: DatabaseClock, zone: ClusterZone, *, port: int
    ) -> None:
        self._services = services
        self._clock = clock
        self.zone = zone
        self._boot_id = secrets.token_hex(8)
        self._name = process_name(socket.gethostname(), self._boot_id)
        self._sign_ins = SignIns(services.database, services.now_ms)
        self._cleaned_at = float("-inf")
        self._server = ConsoleServer(create_app(services), host=services.host, port=port)
        self._loop = Loop("console registration", self._tick, longest_seconds=BEAT_SECONDS)
        self.port = self._server.port

    def start(self) -> str | None:
        """Start serving; return the first administrator's password if one was just created."""
        console = Actor(who="console", origin="console")
        password = self._services.commands(console).users.add_first()
        self._server.start()
        log.info("console_started", port=self.port)
        self._loop.start()
        return password

    def stop(self) -> None:
        """Stop serving, then remove the registration."""
        self._server.stop()
        log.info("console_stopped")
        self._loop.stop()
        self._loop.join(_ROUND_SECONDS)
        with contextlib.suppress(Exception):
            self._services.database.write(
                lambda session: presence.leave(
                    session, presence.ADMIN, presence.CONSOLE, self._name, self._boot_id
                )
            )

    def _tick(self) -> float:
        self._clock.run_round()
        self.zone.run_round()
        self._beat()
        if time.monotonic() - self._cleaned_at > CLEANING_SECONDS:
            self._sign_ins.clean()
            idempotency_keys.delete_expired(self._services.database, self._services.now_ms())
            self._cleaned_at = time.monotonic()
        return BEAT_SECONDS

    def _beat(self) -> None:
        beat = presence.Beat(
            kind=presence.ADMIN,
            app=presence.CONSOLE,
            address=self._name,
            boot_id=self._boot_id,
            beat_at=self._services.now_ms(),
        )
        if not self._services.database.update_autocommit(presence.RENEWAL, presence.renewal(beat)):
            self._services.database.write(lambda session: presence.hold(session, beat))
