"""What the database of a soak may be: one server, or several of which one serves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.support.mariadb import PrivateMariaDB
from tests.support.postgresql import PrivatePostgreSQL
from tests.support.server_words import DatabaseServer


class ServedDatabase(Protocol):
    """One or more servers; a proxy leads to the one that serves."""

    def start(self) -> None:
        """Start all servers."""

    def is_whole(self) -> bool:
        """Whether each server is there, and follows the others."""

    def serving(self) -> DatabaseServer:
        """Return the server that a proxy would choose now."""

    @property
    def nodes(self) -> Sequence[DatabaseServer]:
        """The servers."""

    def close(self) -> None:
        """End everything at once and for good."""


class _Single:
    """One server."""

    def __init__(self, server: DatabaseServer) -> None:
        self.nodes = [server]

    def start(self) -> None:
        """Start it."""
        self.nodes[0].start()

    def is_whole(self) -> bool:
        """Return true: it has no others."""
        return True

    def serving(self) -> DatabaseServer:
        """Return it."""
        return self.nodes[0]

    def close(self) -> None:
        """End it."""
        self.nodes[0].close()


def single_mariadb(folder: Path) -> ServedDatabase:
    """Return one MariaDB."""
    return _Single(PrivateMariaDB(folder))


def single_postgresql(folder: Path) -> ServedDatabase:
    """Return one PostgreSQL."""
    return _Single(PrivatePostgreSQL(folder))
