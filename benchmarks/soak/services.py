"""The services of a soak, and the proxies between them and Warren."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.servers import Servers
from benchmarks.soak.proxy import Proxy
from benchmarks.soak.topology import Topology
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import PrivateRabbit
from tests.support.rabbitmq_cluster import RabbitCluster


class Services:
    """The broker's nodes, each behind a proxy of its own, and the database behind one."""

    def __init__(self, folder: Path, topology: Topology) -> None:
        self.folder = folder
        self.topology = topology
        self.broker = RabbitCluster(folder / "rabbitmq", topology.brokers)
        self.mariadb = PrivateMariaDB(folder / "mariadb")
        self.to_brokers = [Proxy(node.port) for node in self.broker.nodes]
        self.to_database = Proxy(self.mariadb.port)
        self._starting = ThreadPoolExecutor(1)
        self._starts: list[Future[Any]] = []

    @property
    def proxies(self) -> list[Proxy]:
        """All proxies."""
        return [*self.to_brokers, self.to_database]

    def facts(self) -> str:
        """Return the machine and the versions."""
        return Servers(self.broker.nodes[0], self.mariadb, self.folder).facts()

    def broker_url(self, vhost: str) -> str:
        """Return what Warren is told: each node's URL, through its proxy."""
        pairs = zip(self.broker.nodes, self.to_brokers, strict=True)
        return ",".join(
            through(node.vhost_url(vhost), node.port, proxy.port) for node, proxy in pairs
        )

    def start_again(self, node: PrivateMariaDB | PrivateRabbit) -> None:
        """Start a node that was killed, and do not wait for it."""
        self._starts.append(self._starting.submit(node.start))

    def are_whole(self) -> bool:
        """Whether every node is back, and sees the others."""
        if not all(one.done() for one in self._starts):
            return False
        for one in self._starts:
            one.result()
        return self.broker.is_whole()

    def start(self) -> None:
        """Start all of them."""
        self.mariadb.start()
        self.broker.start()

    def close(self) -> None:
        """End everything."""
        self._starting.shutdown()
        for proxy in self.proxies:
            proxy.close()
        self.broker.close()
        self.mariadb.close()


def through(url: str, port: int, proxied: int) -> str:
    """Return a URL that leads through another port."""
    return url.replace(f":{port}/", f":{proxied}/")


@contextmanager
def services(folder: Path, topology: Topology) -> Iterator[Services]:
    """Yield running services; they stop with the block."""
    own = Services(folder, topology)
    try:
        own.start()
        yield own
    finally:
        own.close()
