"""The console inside `warren up`, on a free port."""

from warren.admin_web.serving.console_process import Console
from warren.broker.transport import Transport
from warren.settings.settings import Settings
from warren.sql.engine import Database
from warren.wiring.all_in_one_web import WebResources, on_free_port
from warren.wiring.console import address, make_console, open_console_database


class UpConsole:
    """A console in the same process as a scheduler.

    Args:
        settings: where it listens.
        database: the scheduler's; the console has its own connections to the same file.
        transport: for its link to executors; closed here.
        secret: signs its cookies and its requests to executors.

    """

    def __init__(
        self, settings: Settings, database: Database, transport: Transport, secret: str
    ) -> None:
        self._settings = settings
        self._secret = secret
        self._resources = WebResources(open_console_database, database, transport, secret)
        self._console: Console | None = None
        #: The first administrator's password, if that user was just created.
        self.password: str | None = None

    @property
    def address(self) -> str:
        """The console's URL; empty until it is started."""
        return address(self._settings, self._console.port) if self._console else ""

    def start(self) -> None:
        """Start serving.

        Raises:
            CommandError: the port is taken.

        """
        settings, database = self._settings, self._resources.database
        clock, connections = self._resources.connect()
        self._console = on_free_port(
            lambda port: make_console(
                settings, database, self._secret, clock, connections, port=port
            ),
            host=settings.host,
            port=settings.port,
            is_fixed="port" in settings.was_set,
            how_to_set="--port or WARREN_PORT",
        )
        self.password = self._console.start()

    def stop(self) -> None:
        """Stop serving and close all connections."""
        if self._console is not None:
            self._console.stop()
        self._resources.close()
