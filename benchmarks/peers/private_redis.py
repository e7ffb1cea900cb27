"""A private Redis on 127.0.0.1 with an append-only file, flushed every second."""

import shutil
import socket
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.service import Service

PROGRAM = "redis-server"


class PrivateRedis:
    """One server, until `close`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._port = free_port()
        command = [
            str(shutil.which(PROGRAM)), "--bind", "127.0.0.1", "--port", str(self._port),
            "--dir", str(folder), "--appendonly", "yes",
        ]  # fmt: skip
        self._service = Service(command, env={}, output=folder / "output.log")
        eventually(self._answers, 60.0)
        self.pid = self._service.processes()[0].pid

    @staticmethod
    def is_installed() -> bool:
        """Whether this machine has Redis."""
        return shutil.which(PROGRAM) is not None

    @property
    def version(self) -> str:
        """The server's version."""
        lines = self._ask(b"INFO server").decode().splitlines()
        [version] = (line.partition(":")[2] for line in lines if line.startswith("redis_version:"))
        return version

    def emptied(self) -> str:
        """Delete all data; return the URL."""
        self._ask(b"FLUSHALL")
        return f"redis://127.0.0.1:{self._port}/0"

    def close(self) -> None:
        """Stop it."""
        self._service.end()

    def _answers(self) -> bool:
        assert not self._service.has_ended, self._service.last_words()
        try:
            return self._ask(b"PING").startswith(b"+PONG")
        except OSError:
            return False

    def _ask(self, command: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self._port), timeout=10) as connection:
            connection.sendall(command + b"\r\n")
            return connection.recv(65_536)
