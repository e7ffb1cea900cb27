"""Injects the planned faults into a cluster, and ends them."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import pika
import psycopg
from sqlalchemy.exc import SQLAlchemyError

from benchmarks.gateway.two_gateways import TwoGateways
from benchmarks.soak.cluster import DATABASE, SoakCluster
from benchmarks.soak.plan import OF_NODES, Fault, Kind
from benchmarks.soak.proxy import Proxy
from tests.support.command import Command
from tests.support.postgresql import PrivatePostgreSQL
from tests.support.processes import stop
from tests.support.rabbitmq import ENOUGH_MEMORY, NO_MEMORY, PrivateRabbit
from tests.support.replicated_mariadb import ReplicatedMariaDB
from tests.support.replicated_postgresql import ReplicatedPostgreSQL
from tests.support.server_words import DatabaseServer
from warren.broker.topology import REPLY_EXCHANGE, TRIGGER_EXCHANGE
from warren.sql.errors import DatabaseUnavailable

#: By how much each piece of data is late on a slow network.
SLOW_SECONDS = 0.15
#: How long Warren can reach an old primary that takes writes, and must not use it.
OLD_PRIMARY_SECONDS = 5.0
_LATEST_RUNS = "SELECT id FROM xxl_job_log ORDER BY id DESC LIMIT 500 FOR UPDATE"
_ALL_JOBS = "SELECT id FROM xxl_job_info FOR UPDATE"

Undo = Callable[[], object]
Node = PrivateRabbit | DatabaseServer


def nothing() -> None:
    """Do nothing: the fault needs no end."""


class Faults:
    """Begins faults; each returns the function that ends it."""

    def __init__(self, cluster: SoakCluster) -> None:
        self._cluster = cluster
        self._services = cluster.services
        self._open: list[Fault] = []
        brokers, nodes = self._services.to_brokers, self._services.broker.nodes
        databases = self._services.to_databases
        self._makers: dict[Kind, Callable[[int], Undo]] = {
            Kind.KILL_SCHEDULER: lambda n: self._kill("scheduler", n),
            Kind.STOP_SCHEDULER: lambda n: self._stop("scheduler", n),
            Kind.END_SCHEDULER: lambda n: self._end("scheduler", n),
            Kind.KILL_EXECUTOR: lambda n: self._kill("executor", n),
            Kind.STOP_EXECUTOR: lambda n: self._stop("executor", n),
            Kind.END_EXECUTOR: lambda n: self._end("executor", n),
            Kind.KILL_ZYGOTE: self._kill_zygote,
            Kind.STOP_ZYGOTE: self._stop_zygote,
            Kind.KILL_BOTH: self._kill_both,
            Kind.CUT_BROKER: lambda _: _hurt(brokers, Proxy.cut),
            Kind.SLOW_BROKER: lambda _: _hurt(brokers, partial(Proxy.slow, seconds=SLOW_SECONDS)),
            Kind.RESET_BROKER: lambda _: _hurt(brokers, Proxy.reset),
            Kind.ALARM_BROKER: lambda _: self._alarm_broker(),
            Kind.KILL_BROKER: lambda _: self._kill_broker(),
            Kind.DELETE_EXCHANGE: self._delete_exchange,
            Kind.CUT_DATABASE: lambda _: _hurt(databases, Proxy.cut),
            Kind.SLOW_DATABASE: lambda _: _hurt(
                databases, partial(Proxy.slow, seconds=SLOW_SECONDS / 10)
            ),
            Kind.RESET_DATABASE: lambda _: _hurt(databases, Proxy.reset),
            Kind.KILL_SESSIONS: lambda _: self._kill_sessions(),
            Kind.LOCK_RUNS: lambda _: self._lock(_LATEST_RUNS),
            Kind.LOCK_JOBS: lambda _: self._lock(_ALL_JOBS),
            Kind.KILL_DATABASE: lambda _: self._kill_database(),
            Kind.KILL_BROKER_NODE: lambda n: self._kill_node(nodes[n % len(nodes)]),
            Kind.STOP_BROKER_NODE: lambda n: self._stop_node(nodes[n % len(nodes)]),
            Kind.PART_BROKER_NODE: self._part_node,
            Kind.PART_TWO_BROKER_NODES: self._part_two_nodes,
            Kind.KILL_DATABASE_NODE: lambda n: self._kill_node(self._server(n)),
            Kind.STOP_DATABASE_NODE: lambda n: self._stop_node(self._server(n)),
            Kind.KILL_GATEWAY: self._kill_gateway,
            Kind.STOP_GATEWAY: lambda n: self._stop_command(self._gateways().gateways[n % 2]),
            Kind.FAIL_OVER: lambda _: self._fail_over(),
        }

    def may_begin(self, fault: Fault) -> bool:
        """Whether a fault need not wait: set-ups of several nodes survive the loss of one."""
        return fault.kind not in OF_NODES or (not self._open and self._services.are_whole())

    def begin(self, fault: Fault) -> Undo:
        """Begin a fault; return the function that ends it."""
        undo = self._makers[fault.kind](fault.target)
        if fault.kind not in OF_NODES:
            return undo
        self._open.append(fault)

        def end() -> None:
            undo()
            self._open.remove(fault)

        return end

    # -- processes ----------------------------------------------------------------------------

    def _command(self, kind: str, number: int) -> Command:
        chosen = self._cluster.chosen(kind)
        return chosen[number % len(chosen)]

    def _kill(self, kind: str, number: int) -> Undo:
        self._command(kind, number).send(signal.SIGKILL)
        return nothing

    def _end(self, kind: str, number: int) -> Undo:
        self._command(kind, number).send(signal.SIGTERM)
        return nothing

    def _stop(self, kind: str, number: int) -> Undo:
        return self._stop_command(self._command(kind, number))

    def _stop_command(self, command: Command) -> Undo:
        command.send(signal.SIGSTOP)
        return lambda: command.send(signal.SIGCONT)

    def _zygote(self, number: int) -> int:
        """Return the id of the executor's only child; 0 if it has none now."""
        command = self._command("executor", number)
        mine = [child.pid for child in command.tree() if child.parent == command.pid]
        return mine[0] if mine else 0

    def _kill_zygote(self, number: int) -> Undo:
        _signal(self._zygote(number), signal.SIGKILL)
        return nothing

    def _stop_zygote(self, number: int) -> Undo:
        zygote = self._zygote(number)
        _signal(zygote, signal.SIGSTOP)
        return lambda: _signal(zygote, signal.SIGCONT)

    def _kill_both(self, number: int) -> Undo:
        zygote = self._zygote(number)
        self._command("executor", number).send(signal.SIGKILL)
        _signal(zygote, signal.SIGKILL)
        return nothing

    # -- nodes of several ---------------------------------------------------------------------

    def _kill_node(self, node: Node) -> Undo:
        node.kill()
        return lambda: self._services.bring_back(node.start)

    def _stop_node(self, node: Node) -> Undo:
        if isinstance(node, PrivatePostgreSQL):
            node.freeze()
            return node.thaw
        pid = node.pid
        stop(pid)
        return lambda: _signal(pid, signal.SIGCONT)

    def _gateways(self) -> TwoGateways:
        assert self._cluster.gateways is not None
        return self._cluster.gateways

    def _kill_gateway(self, number: int) -> Undo:
        gateways = self._gateways()
        gateways.kill(number % 2)
        return lambda: gateways.restart(number % 2)

    def _server(self, number: int) -> DatabaseServer:
        """Return the server that Warren is connected to, or another one if there are any."""
        database = self._services.database
        serving = database.serving()
        others = [node for node in database.nodes if node is not serving] or [serving]
        return others[number // 2 % len(others)] if number % 2 else serving

    def _fail_over(self) -> Undo:
        """Lose the primary, and note of which runs the replica does not know what it knew.

        Where commits wait for the other server, what only the old primary knows was told to nobody.
        """
        database = self._services.database
        assert isinstance(database, ReplicatedMariaDB | ReplicatedPostgreSQL)
        old = database.fail_over()
        known = set() if database.is_lossless else known_runs(database.serving())
        self._services.switch()

        def come_back() -> None:
            old.start()
            if not database.is_lossless:
                lost = known_runs(old) - known
                self._services.unshipped |= {run for run, *_ in lost}
                self._services.failovers_with_loss += bool(lost)
            if self._services.topology.lists_databases:
                time.sleep(OLD_PRIMARY_SECONDS)
            database.follow_again()

        return lambda: self._services.bring_back(come_back)

    def _part_node(self, number: int) -> Undo:
        nodes = self._services.broker.nodes
        node = nodes[number % len(nodes)]
        others = [one for one in nodes if one is not node]
        self._services.broker.part(node, others)
        return lambda: self._services.broker.unite(node, others)

    def _part_two_nodes(self, number: int) -> Undo:
        nodes = self._services.broker.nodes
        node, other = nodes[number % len(nodes)], nodes[(number + 1) % len(nodes)]
        self._services.broker.part(node, [other])
        return lambda: self._services.broker.unite(node, [other])

    # -- RabbitMQ -----------------------------------------------------------------------------

    def _alarm_broker(self) -> Undo:
        broker = self._services.broker.nodes[0]
        broker.set_memory_limit(NO_MEMORY)
        return lambda: broker.set_memory_limit(ENOUGH_MEMORY)

    def _kill_broker(self) -> Undo:
        self._services.broker.nodes[0].kill()
        self._services.broker.nodes[0].start()
        return nothing

    def _delete_exchange(self, number: int) -> Undo:
        url = self._services.broker.nodes[0].vhost_url(self._cluster.vhost)
        connection = pika.BlockingConnection(pika.URLParameters(url))
        name = (TRIGGER_EXCHANGE, REPLY_EXCHANGE)[number % 2]
        connection.channel().exchange_delete(name)
        connection.close()
        return nothing

    # -- the database ---------------------------------------------------------------------------

    def _kill_database(self) -> Undo:
        self._services.database.nodes[0].kill()
        self._services.database.nodes[0].start()
        return nothing

    def _kill_sessions(self) -> Undo:
        with suppress(psycopg.OperationalError):  # it stands still, or ends
            self._services.database.nodes[0].end_sessions(DATABASE)
        return nothing

    def _lock(self, statement: str) -> Undo:
        try:
            session = self._cluster.deployment.database.engine.connect()
        except (SQLAlchemyError, DatabaseUnavailable):  # it stands still
            return nothing

        def release() -> None:
            session.invalidate()  # the server may have ended it meanwhile
            session.close()

        try:
            session.exec_driver_sql(statement)
        except SQLAlchemyError:  # Warren holds some of the rows for too long
            release()
            return nothing
        return release


def known_runs(server: DatabaseServer) -> set[tuple[object, ...]]:
    """Return what a server knows of each run: its id, and how far it is."""
    columns = "id, status, starts, routed_at, finished_at"
    return set(server.execute(f"SELECT {columns} FROM xxl_job_log", database=DATABASE))


def _hurt(proxies: Sequence[Proxy], how: Callable[[Proxy], None]) -> Undo:
    for proxy in proxies:
        how(proxy)

    def heal() -> None:
        for proxy in proxies:
            proxy.heal()

    return heal


def _signal(pid: int, number: signal.Signals) -> None:
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
