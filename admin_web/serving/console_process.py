"""A console process; unlike an API, it registers itself."""

import contextlib
import secrets
import socket

import structlog

from warren.admin_web import template_globals
from warren.admin_web.app import create_app
from warren.admin_web.services import ConsoleServices
from warren.admin_web.serving.http_server import ConsoleServer
from warren.admin_web.serving.web_process import WebProcess
from warren.scheduler.actor import Actor
from warren.scheduler.membership.self_health import ClusterZone
from warren.sql.clock import DatabaseClock
from warren.sql.registry import presence
from warren.sql.registry.presence import process_name

log = structlog.get_logger()


class Console(WebProcess):
    """A console process; its registration shows that it is there.

    Raises:
        OSError: the port is taken; 0 = any free one.

    """

    def __init__(
        self, services: ConsoleServices, clock: DatabaseClock, zone: ClusterZone, *, port: int
    ) -> None:
        server = ConsoleServer(create_app(services), host=services.host, port=port)
        super().__init__(services, clock, zone, server)
        self._boot_id = secrets.token_hex(8)
        self._name = process_name(socket.gethostname(), self._boot_id)
        #: The first administrator's password, if `start` has just created that user.
        self.password: str | None = None

    def start(self) -> None:
        """Create the first administrator if there is no user, then start serving."""
        console = Actor(who="console", origin="console")
        self.password = self._services.commands(console).users.add_first()
        super().start()
        log.info("console_started", port=self.port)
        if not template_globals.scripts_are_built():
            log.warning("console_scripts_missed", hint="make console")

    def stop(self) -> None:
        """Stop serving, then remove the registration."""
        super().stop()
        with contextlib.suppress(Exception):
            self._services.database.write(
                lambda session: presence.leave(
                    session, presence.ADMIN, presence.CONSOLE, self._name, self._boot_id
                )
            )
        log.info("console_stopped")

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
