"""The console inside `warren up`, on a port that is free."""

import errno

from admin_web.serving.broker_link import ConsoleConnections
from admin_web.serving.console_process import Console
from broker.keys import ClusterKeys
from broker.transport import Transport
from sql.clock import DatabaseClock
from sql.engine import Database
from warren.errors import CommandError
from warren.settings.settings import Settings
from warren.wiring.console import address, make_console, open_console_database

#: Where nobody asked for a port, so many more are tried after the usual one: a second `warren up`
#: on a machine just works.
NEXT_PORTS = 20


class UpConsole:
    """A console beside a scheduler, in the same process.

    Args:
        settings: where it listens.
        database: the scheduler's; the console has connections of its own to the same file.
        transport: by which it asks executors for run logs; closed by it.
        secret: what its cookies and its questions are signed with.

    """

    def __init__(
        self, settings: Settings, database: Database, transport: Transport, secret: str
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._secret = secret
        url = database.url.render_as_string(hide_password=False)
        self._database = open_console_database(url, beside=database)
        self._console: Console | None = None
        self._connections: ConsoleConnections | None = None
        #: The first administrator's, if one was made just now.
        self.password: str | None = None

    @property
    def address(self) -> str:
        """Where people find it."""
        return address(self._settings, self._console.port) if self._console else ""

    def start(self) -> None:
        """Begin to answer.

        Raises:
            CommandError: the port is taken.

        """
        clock = DatabaseClock(self._database)
        self._connections = ConsoleConnections(
            self._transport,
            self._database,
            ClusterKeys(self._secret),
            clock.now_ms,
        )
        self._console = self._make(clock, self._connections)
        self.password = self._console.start()

    def stop(self) -> None:
        """End in order."""
        if self._console is not None:
            self._console.stop()
        if self._connections is not None:
            self._connections.close()
        self._transport.close()
        self._database.close()

    def _make(self, clock: DatabaseClock, connections: ConsoleConnections) -> Console:
        wanted = self._settings.port
        was_asked_for = "port" in self._settings.was_set
        for port in range(wanted, wanted + 1 if was_asked_for else wanted + NEXT_PORTS):
            try:
                return make_console(
                    self._settings, self._database, self._secret, clock, connections, port=port
                )
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise CommandError(
                        f"cannot listen at {self._settings.host}: {error}"
                    ) from error
        raise CommandError(f"port {wanted} is taken; choose another with --port or WARREN_PORT")
