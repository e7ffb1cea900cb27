"""What the database of a soak may be: one server, or several of which one serves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.support.mariadb import PrivateMariaDB


class ServedDatabase(Protocol):
    """One or more servers; a proxy leads to the one that serves."""

    def start(self) -> None:
        """Start all servers."""

    def is_whole(self) -> bool:
        """Whether each server is there, and follows the others."""

    def serving(self) -> PrivateMariaDB:
        """Return the server that a proxy would choose now."""

    @property
    def nodes(self) -> Sequence[PrivateMariaDB]:
        """The servers."""

    def close(self) -> None:
        """End everything at once and for good."""


class SingleMariaDB:
    """One server."""

    def __init__(self, folder: Path) -> None:
        self.nodes = [PrivateMariaDB(folder)]

    def start(self) -> None:
        """Start it."""
        self.nodes[0].start()

    def is_whole(self) -> bool:
        """Return true: it has no others."""
        return True

    def serving(self) -> PrivateMariaDB:
        """Return it."""
        return self.nodes[0]

    def close(self) -> None:
        """End it."""
        self.nodes[0].close()
