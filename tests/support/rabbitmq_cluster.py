"""A private RabbitMQ of several nodes on 127.0.0.1, with an epmd of its own."""

import shutil
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.rabbitmq import Membership, PrivateRabbit
from tests.support.service import Service

#: As docs/deploy.md asks for: a node that is cut off from most others stops until they are back.
_SETTINGS = "cluster_partition_handling = pause_minority\n"
#: A node takes another's connections only with the cookie that it expects of that one.
_PART = "erlang:set_cookie('{other}', 'parted from {other}'), erlang:disconnect_node('{other}')."
_UNITE = "erlang:set_cookie('{other}', erlang:get_cookie()), net_kernel:connect_node('{other}')."
# Since RabbitMQ 4 its cluster is not Mnesia's any more.
_JOIN = """
rabbit:stop(),
ok = try rabbit_db_cluster:join('{first}', disc)
catch error:undef -> rabbit_mnesia:join_cluster('{first}', disc) end,
rabbit:start().
"""
_RUNNING = "length([Node || Node <- {nodes}, rabbit_nodes:is_running(Node, rabbit)])."


class RabbitCluster:
    """Nodes of one cluster; each can be killed, frozen and started again like a single broker."""

    def __init__(self, folder: Path, size: int) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._membership = Membership(free_port(), uuid.uuid4().hex, _SETTINGS)
        self.nodes = [
            PrivateRabbit(folder / f"node-{number}", membership=self._membership)
            for number in range(size)
        ]
        self._epmd: Service | None = None

    def start(self) -> None:
        """Start all nodes beside each other, and let the others join the first: 15 s."""
        port = str(self._membership.epmd_port)
        command = [str(shutil.which("epmd")), "-port", port, "-address", "127.0.0.1"]
        # Not the one that a node would start: it would end with that node.
        self._epmd = Service(command, env={}, output=self._folder / "epmd.log")
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(PrivateRabbit.start, self.nodes))
        first, *others = self.nodes
        for node in others:
            node.evaluate(_JOIN.format(first=first.node))
        eventually(self.is_whole, every=0.1)

    def is_whole(self) -> bool:
        """Whether each node runs and sees every other."""
        names = "[" + ", ".join(f"'{node.node}'" for node in self.nodes) + "]"
        try:
            seen = [node.evaluate(_RUNNING.format(nodes=names)) for node in self.nodes]
        except (AssertionError, OSError):
            return False
        return seen == [str(len(self.nodes))] * len(self.nodes)

    def part(self, node: PrivateRabbit, others: Sequence[PrivateRabbit]) -> None:
        """Cut the links between a node and others."""
        for other in others:
            node.evaluate(_PART.format(other=other.node))

    def unite(self, node: PrivateRabbit, others: Sequence[PrivateRabbit]) -> None:
        """Mend these links."""
        for other in others:
            node.evaluate(_UNITE.format(other=other.node))

    def close(self) -> None:
        """End everything at once and for good."""
        for node in self.nodes:
            node.close()
        if self._epmd is not None:
            self._epmd.end()
