"""One RabbitMQ, MariaDB and PostgreSQL for all processes of a test run.

Whichever process needs one first starts it, under a file lock, and writes down how to reach it for
the others. It belongs to the process that runs the tests, not to the worker that started
it, and ends with it, even by SIGKILL.
"""

import fcntl
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.postgresql import PrivatePostgreSQL
from tests.support.processes import alive
from tests.support.rabbitmq import PrivateRabbit

Server = TypeVar("Server", PrivateRabbit, PrivateMariaDB, PrivatePostgreSQL)


class SharedServices:
    """The services of a run, kept in a folder that all its processes know.

    `owner` is the id of the process that runs the tests.
    """

    def __init__(self, folder: Path, owner: int) -> None:
        self._folder = folder
        self._owner = owner

    def rabbitmq(self) -> PrivateRabbit:
        """Return the broker, started if nobody has needed it yet."""
        return self._attach("rabbitmq", PrivateRabbit)

    def mariadb(self) -> PrivateMariaDB:
        """Return the database server, started if nobody has needed it yet."""
        return self._attach("mariadb", PrivateMariaDB)

    def postgresql(self) -> PrivatePostgreSQL:
        """Return the server, started if nobody has needed it yet."""
        return self._attach("postgresql", PrivatePostgreSQL)

    def end(self) -> None:
        """End what was started; called by the owner once nobody needs it any more."""
        for path in self._folder.glob("*.json"):
            keeper = json.loads(path.read_text())["keeper"]
            with suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGTERM)
            eventually(lambda pid=keeper: not alive(pid))
            path.unlink()

    def _attach(self, name: str, kind: Callable[..., Server]) -> Server:
        with self._locked():
            path, folder = self._folder / f"{name}.json", self._folder / name
            if not path.exists():
                server = kind(folder, owner=self._owner)
                server.start()
                path.write_text(json.dumps(server.facts()))
            facts: dict[str, Any] = json.loads(path.read_text())
            return kind(folder, facts=facts)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
