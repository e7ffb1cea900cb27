"""RabbitMQ and MariaDB for measurements: real and private, started and stopped here.

With TEST_DATABASE=postgresql it is PostgreSQL in the place of MariaDB.
"""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import cpu
from tests.support.mariadb import PrivateMariaDB
from tests.support.postgresql import PrivatePostgreSQL
from tests.support.rabbitmq import PrivateRabbit
from tests.support.server_words import ON_POSTGRESQL


@dataclass
class Servers:
    """The private services, shared by everything that is measured."""

    rabbitmq: PrivateRabbit
    mariadb: PrivateMariaDB | PrivatePostgreSQL
    folder: Path

    def facts(self) -> str:
        """Return the machine and the versions."""
        cores = len(os.sched_getaffinity(0))
        mariadb = str(self.mariadb.execute("SELECT VERSION()")[0][0]).removeprefix("PostgreSQL ")
        rabbitmq = self.rabbitmq.ctl("version").strip()
        return (
            f"{cores} cores for everything, Python {platform.python_version()}, "
            f"{self._database} {mariadb}, RabbitMQ {rabbitmq}"
        )

    def clocks(self) -> dict[str, cpu.Clock]:
        """Return the processor clocks of both services."""
        pid = self.mariadb.pid
        return {
            # A process of PostgreSQL's for each connection.
            "mariadbd": lambda: cpu.own(pid) + (cpu.below(pid) if ON_POSTGRESQL else 0),
            "RabbitMQ": lambda: cpu.own(self.rabbitmq.pid),
        }

    @property
    def _database(self) -> str:
        return "PostgreSQL" if ON_POSTGRESQL else "MariaDB"

    def rows_read(self) -> int:
        """Return how many rows the database has read so far, for all clients."""
        if ON_POSTGRESQL:
            [(rows,)] = self.mariadb.execute("SELECT sum(tup_returned) FROM pg_stat_database")
            return int(str(rows))
        statement = "SHOW GLOBAL STATUS LIKE 'Handler_read%'"
        return sum(int(str(count)) for _, count in self.mariadb.execute(statement))


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """Yield running services; they stop with the block."""
    rabbitmq = PrivateRabbit(folder / "rabbitmq")
    mariadb = (PrivatePostgreSQL if ON_POSTGRESQL else PrivateMariaDB)(folder / "database")
    try:
        mariadb.start()
        rabbitmq.start()
        yield Servers(rabbitmq, mariadb, folder)
    finally:
        rabbitmq.close()
        mariadb.close()
