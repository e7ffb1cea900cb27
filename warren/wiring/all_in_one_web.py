"""What the console and the API of `warren up` have in common: their resources, and a free port."""

import errno
from collections.abc import Callable
from typing import TypeVar

from warren.admin_web.serving.broker_link import ConsoleConnections
from warren.broker.boot_time import boot_seconds
from warren.broker.keys import ClusterKeys
from warren.broker.transport import Transport
from warren.errors import CommandError
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database

Process = TypeVar("Process")
#: How many ports to try from the default one on, so that several `warren up` on one machine work.
NEXT_PORTS = 20


class WebResources:
    """The database, clock and link to executors of a console or API beside a scheduler.

    Args:
        open_database: opens a database by its URL beside another one.
        beside: the scheduler's database; the new one has its own connections to the same file.
        transport: for the link to executors; closed here.
        secret: signs requests to executors.

    """

    def __init__(
        self,
        open_database: Callable[[str, Database], Database],
        beside: Database,
        transport: Transport,
        secret: str,
    ) -> None:
        self._transport = transport
        self._secret = secret
        self._connections: ConsoleConnections | None = None
        self.database = open_database(beside.url.render_as_string(hide_password=False), beside)

    def connect(self) -> tuple[DatabaseClock, ConsoleConnections]:
        """Open the link to executors; return it after the database's clock."""
        clock = DatabaseClock(self.database, monotonic=boot_seconds)
        self._connections = ConsoleConnections(
            self._transport, self.database, ClusterKeys(self._secret), clock.now_ms
        )
        return clock, self._connections

    def close(self) -> None:
        """Close everything."""
        if self._connections is not None:
            self._connections.close()
        self._transport.close()
        self.database.close()


def on_free_port(
    make: Callable[[int], Process], *, host: str, port: int, is_fixed: bool, how_to_set: str
) -> Process:
    """Return a process on this port, or on the first free one after it unless it `is_fixed`.

    `make` returns the process for a port, or raises OSError. Messages name the option
    `how_to_set`.

    Raises:
        CommandError: the ports are taken, or the host is not an address of this machine.

    """
    for one in range(port, port + 1 if is_fixed else port + NEXT_PORTS):
        try:
            return make(one)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise CommandError(f"cannot listen at {host}: {error}") from error
    raise CommandError(f"port {port} is taken; choose another with {how_to_set}")
