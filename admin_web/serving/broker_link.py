"""The console's link to executors: requests for run logs, and their answers."""

import re
import secrets
import socket
from collections.abc import Callable

from warren.broker import topology
from warren.broker.rpc import Requester
from warren.broker.signing import ClusterKeys, Sealer
from warren.broker.transport import Transport
from warren.sql.engine import Database
from warren.sql.registry import cluster

#: Answers in memory at a time; each has up to 1 MB.
ANSWER_PREFETCH = 20


class ConsoleConnections:
    """A publisher for requests and this console's own answer queue, opened at once.

    Without a broker they keep trying to connect.

    Args:
        transport: makes the connections; the caller closes it.
        database: identifies the cluster.
        keys: derived from the master secret; they sign requests and verify answers.
        now_ms: the database's clock.

    Raises:
        SecretMismatch: the cluster's other processes have another secret.

    """

    def __init__(
        self, transport: Transport, database: Database, keys: ClusterKeys, now_ms: Callable[[], int]
    ) -> None:
        host = re.sub(r"[^A-Za-z0-9]", "-", socket.gethostname())[:40]
        node = f"console-{host}-{secrets.token_hex(4)}"
        cluster_id = database.read(cluster.cluster_id)
        database.write(lambda session: cluster.join(session, keys.fingerprints(cluster_id)))
        sealer = Sealer(keys, cluster_id, now_ms)
        self._publisher = transport.publisher("console", only_asks=True)
        answers = transport.consumer(
            "console", [topology.answer_queue(node)], prefetch=ANSWER_PREFETCH
        )
        self.requester = Requester(self._publisher, answers, sealer, node)

    def is_ready(self) -> bool:
        """Return whether messages can be sent now."""
        return self._publisher.is_ready

    def close(self) -> None:
        """Close both connections."""
        self.requester.close()
        self._publisher.close()
