"""The parts of a Warren in one process, on one SQLite file and a broker in memory.

The executors have to end first: the broker's queues live in this process, and their last reports
must still be received.
"""

from contextlib import AbstractContextManager

from warren.broker.memory import MemoryBroker
from warren.broker.signing import AppKeys, ClusterKeys
from warren.database_access import registrations
from warren.executor.agent import Executor
from warren.executor.processes.interface import SlotsFactory
from warren.scheduler.node import SchedulerNode
from warren.settings.settings import Settings
from warren.sql.engine import Database
from warren.sql.registry import presence
from warren.wiring.executor import make_executor
from warren.wiring.scheduler import make_scheduler
from warren.wiring.web import WebParts, web_parts


class OneProcess:
    """Makes the parts, and knows the executors.

    Args:
        settings: of all parts.
        database: the scheduler's; console and API have connections of their own to the same file.
        secret: the cluster's.

    """

    def __init__(self, settings: Settings, database: Database, secret: str) -> None:
        self.settings = settings
        self.database = database
        self.executors: list[Executor] = []
        self._secret = secret
        self._keys = ClusterKeys(secret)
        self._broker = MemoryBroker()

    def start_executor(
        self, app: str, number: int, slots: SlotsFactory, settings: Settings | None = None
    ) -> None:
        """Start an executor of an app, with settings of its own if need be."""
        executor = make_executor(
            settings or self.settings,
            app=app,
            address=f"{app}-{number}",
            transport=self._broker.transport(),
            keys=AppKeys.derived(app, self._secret),
            slots=slots,
        )
        executor.start()
        self.executors.append(executor)

    def make_scheduler(self) -> SchedulerNode:
        """Return a scheduler that is not started yet."""
        return make_scheduler(self.settings, self.database, self._broker.transport(), self._keys)

    def web_parts(self, pool_size: int) -> AbstractContextManager[WebParts]:
        """Return the parts of a console or an API with this many pooled connections."""
        return web_parts(
            self.settings,
            url=self.database.url.render_as_string(hide_password=False),
            pool_size=pool_size,
            transport=self._broker.transport(),
            keys=self._keys,
            secret=self._secret,
            beside=self.database,
        )

    def are_welcome(self) -> bool:
        """Whether every executor is registered."""
        boots = {executor.identity.boot_id for executor in self.executors}
        rows, _ = registrations(self.database, presence.EXECUTOR)
        return boots <= {row.boot_id for row in rows}

    @property
    def failure(self) -> str:
        """Why an executor ended by itself; empty if none has."""
        for executor in self.executors:
            if executor.join(0) and not executor.was_drained:
                return executor.failure or f"executor {executor.identity.address} has stopped"
        return ""
