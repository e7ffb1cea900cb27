"""RabbitMQ and a database for measurements: real and private, started and stopped here."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import cpu, databases
from benchmarks.databases import MeasuredDatabase
from tests.support.rabbitmq import PrivateRabbit
from tests.support.server_words import DatabaseServer


@dataclass
class Servers:
    """The private services, shared by everything that is measured."""

    rabbitmq: PrivateRabbit
    database: DatabaseServer
    folder: Path

    @property
    def measured(self) -> MeasuredDatabase:
        """The database, and what is asked of it."""
        return databases.measured(self.database)

    def facts(self) -> str:
        """Return the machine and the versions."""
        cores = len(os.sched_getaffinity(0))
        rabbitmq = self.rabbitmq.ctl("version").strip()
        return (
            f"{cores} cores for everything, Python {platform.python_version()}, "
            f"{self.measured.words()}, RabbitMQ {rabbitmq}"
        )

    def clocks(self) -> dict[str, cpu.Clock]:
        """Return the processor clocks of both services."""
        return {
            self.measured.process: self.measured.processor_seconds,
            "RabbitMQ": lambda: cpu.own(self.rabbitmq.pid),
        }

    def rows_read(self) -> int:
        """Return how many rows the database has read so far, for all clients."""
        return self.measured.rows_read()


@contextmanager
def servers(folder: Path, kind: str = "mariadb") -> Iterator[Servers]:
    """Yield running services; they stop with the block."""
    rabbitmq, database = PrivateRabbit(folder / "rabbitmq"), databases.server(kind, folder)
    try:
        database.start()
        rabbitmq.start()
        yield Servers(rabbitmq, database, folder)
    finally:
        rabbitmq.close()
        database.close()
