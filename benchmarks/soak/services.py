"""The services of a soak, and the proxies between them and Warren."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

from benchmarks.servers import Servers
from benchmarks.soak.databases import ServedDatabase
from benchmarks.soak.proxy import Proxy
from benchmarks.soak.topology import Topology
from tests.support.rabbitmq_cluster import RabbitCluster

_USER, _PASSWORD = "soak", "a-password-of-the-soak"


class Services:
    """The nodes of the broker and the servers of the database, behind proxies.

    Each node of the broker has its own. So has each server if Warren is told all of them, else
    they share one that leads to the one that serves. The judge reaches the database by another
    proxy, to which nothing happens.
    """

    def __init__(self, folder: Path, topology: Topology) -> None:
        self.folder = folder
        self.topology = topology
        self.broker = RabbitCluster(folder / "rabbitmq", topology.brokers)
        self.database: ServedDatabase = topology.database(folder / "database")
        serving = self.database.serving()
        listed = self.database.nodes if topology.lists_databases else [serving]
        self.to_brokers = [Proxy(node.port) for node in self.broker.nodes]
        self.to_databases = [Proxy(node.port) for node in listed]
        self.to_judge = Proxy(serving.port)
        #: Runs of which a failover has lost what the old primary had committed.
        self.unshipped: set[int] = set()
        self.failovers_with_loss = 0
        self._returning = ThreadPoolExecutor(1)
        self._returns: list[Future[Any]] = []

    @property
    def proxies(self) -> list[Proxy]:
        """All proxies."""
        return [*self.to_brokers, *self.to_databases, self.to_judge]

    def facts(self) -> str:
        """Return the machine and the versions."""
        return Servers(self.broker.nodes[0], self.database.serving(), self.folder).facts()

    def broker_url(self, vhost: str) -> str:
        """Return what Warren is told: each node's URL, through its proxy."""
        pairs = zip(self.broker.nodes, self.to_brokers, strict=True)
        return ",".join(
            node.vhost_url(vhost).replace(f":{node.port}/", f":{proxy.port}/")
            for node, proxy in pairs
        )

    def create_database(self, name: str) -> None:
        """Create an empty database, and Warren's account, which no replica takes writes from."""
        serving = self.database.serving()
        serving.create_database(name)
        serving.add_account(_USER, _PASSWORD, name)

    def database_urls(self, name: str) -> str:
        """Return what Warren is told of the database."""
        return ",".join(self._url(proxy, name) for proxy in self.to_databases)

    def judges_url(self, name: str) -> str:
        """Return the URL of the judge."""
        return self._url(self.to_judge, name)

    def _url(self, proxy: Proxy, database: str) -> str:
        url = make_url(self.database.serving().url(database))
        through = url.set(username=_USER, password=_PASSWORD, port=proxy.port)
        return through.render_as_string(hide_password=False)

    def switch(self) -> None:
        """Let the database's proxies lead to the server that serves, as their health checks do."""
        serving = self.database.serving()
        self.to_judge.turn(serving.port)
        if not self.topology.lists_databases:
            self.to_databases[0].turn(serving.port)

    def bring_back(self, how: Callable[[], object]) -> None:
        """Let a node return, and do not wait for it."""
        self._returns.append(self._returning.submit(how))

    def are_whole(self) -> bool:
        """Whether every node is back, and sees the others."""
        if not all(one.done() for one in self._returns):
            return False
        for one in self._returns:
            one.result()
        return self.broker.is_whole() and self.database.is_whole()

    def start(self) -> None:
        """Start all of them."""
        self.database.start()
        self.broker.start()

    def close(self) -> None:
        """End everything."""
        self._returning.shutdown()
        for proxy in self.proxies:
            proxy.close()
        self.broker.close()
        self.database.close()


@contextmanager
def services(folder: Path, topology: Topology) -> Iterator[Services]:
    """Yield running services; they stop with the block."""
    own = Services(folder, topology)
    try:
        own.start()
        yield own
    finally:
        own.close()
