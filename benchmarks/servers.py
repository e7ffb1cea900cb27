"""RabbitMQ and MariaDB for measurements: real and private, started and stopped here."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import cpu
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import PrivateRabbit


@dataclass
class Servers:
    """The private services, shared by everything that is measured."""

    rabbitmq: PrivateRabbit
    mariadb: PrivateMariaDB
    folder: Path

    def facts(self) -> str:
        """Return the machine and the versions."""
        cores = len(os.sched_getaffinity(0))
        mariadb = self.mariadb.execute("SELECT VERSION()")[0][0]
        rabbitmq = self.rabbitmq.ctl("version").strip()
        return (
            f"{cores} cores for everything, Python {platform.python_version()}, "
            f"MariaDB {mariadb}, RabbitMQ {rabbitmq}"
        )

    def clocks(self) -> dict[str, cpu.Clock]:
        """Return the processor clocks of both services."""
        return {
            "mariadbd": lambda: cpu.own(self.mariadb.pid),
            "RabbitMQ": lambda: cpu.own(self.rabbitmq.pid),
        }

    def rows_read(self) -> int:
        """Return how many rows MariaDB has read so far, for all clients."""
        statement = "SHOW GLOBAL STATUS LIKE 'Handler_read%'"
        return sum(int(str(count)) for _, count in self.mariadb.execute(statement))


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """Yield running services; they stop with the block."""
    rabbitmq, mariadb = PrivateRabbit(folder / "rabbitmq"), PrivateMariaDB(folder / "mariadb")
    try:
        mariadb.start()
        rabbitmq.start()
        yield Servers(rabbitmq, mariadb, folder)
    finally:
        rabbitmq.close()
        mariadb.close()
