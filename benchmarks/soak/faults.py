"""Injects the planned faults into a cluster, and ends them."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pika
import pymysql
from sqlalchemy.exc import SQLAlchemyError

from benchmarks.soak.cluster import SoakCluster
from benchmarks.soak.plan import Fault, Kind
from tests.support.command import Command
from tests.support.rabbitmq import ENOUGH_MEMORY, NO_MEMORY
from warren.broker.topology import REPLY_EXCHANGE, TRIGGER_EXCHANGE

#: By how much each piece of data is late on a slow network.
SLOW_SECONDS = 0.15
_LATEST_RUNS = "SELECT id FROM xxl_job_log ORDER BY id DESC LIMIT 500 FOR UPDATE"
_ALL_JOBS = "SELECT id FROM xxl_job_info FOR UPDATE"

Undo = Callable[[], object]


def nothing() -> None:
    """Do nothing: the fault needs no end."""


class Faults:
    """Begins faults; each returns the function that ends it."""

    def __init__(self, cluster: SoakCluster) -> None:
        self._cluster = cluster
        broker, database = cluster.to_broker, cluster.to_database
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
            Kind.CUT_BROKER: lambda _: _hurt(broker.cut, broker.heal),
            Kind.SLOW_BROKER: lambda _: _hurt(partial(broker.slow, SLOW_SECONDS), broker.heal),
            Kind.RESET_BROKER: lambda _: _hurt(broker.reset, nothing),
            Kind.ALARM_BROKER: lambda _: self._alarm_broker(),
            Kind.KILL_BROKER: lambda _: self._kill_broker(),
            Kind.DELETE_EXCHANGE: self._delete_exchange,
            Kind.CUT_DATABASE: lambda _: _hurt(database.cut, database.heal),
            Kind.SLOW_DATABASE: lambda _: _hurt(
                partial(database.slow, SLOW_SECONDS / 10), database.heal
            ),
            Kind.RESET_DATABASE: lambda _: _hurt(database.reset, nothing),
            Kind.KILL_SESSIONS: lambda _: self._kill_sessions(),
            Kind.LOCK_RUNS: lambda _: self._lock(_LATEST_RUNS),
            Kind.LOCK_JOBS: lambda _: self._lock(_ALL_JOBS),
            Kind.KILL_DATABASE: lambda _: self._kill_database(),
        }

    def begin(self, fault: Fault) -> Undo:
        """Begin a fault; return the function that ends it."""
        return self._makers[fault.kind](fault.target)

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
        command = self._command(kind, number)
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

    # -- RabbitMQ -----------------------------------------------------------------------------

    def _alarm_broker(self) -> Undo:
        broker = self._cluster.servers.rabbitmq
        broker.set_memory_limit(NO_MEMORY)
        return lambda: broker.set_memory_limit(ENOUGH_MEMORY)

    def _kill_broker(self) -> Undo:
        self._cluster.servers.rabbitmq.kill()
        self._cluster.servers.rabbitmq.start()
        return nothing

    def _delete_exchange(self, number: int) -> Undo:
        url = self._cluster.servers.rabbitmq.vhost_url(self._cluster.vhost)
        connection = pika.BlockingConnection(pika.URLParameters(url))
        name = (TRIGGER_EXCHANGE, REPLY_EXCHANGE)[number % 2]
        connection.channel().exchange_delete(name)
        connection.close()
        return nothing

    # -- the database ---------------------------------------------------------------------------

    def _kill_database(self) -> Undo:
        self._cluster.servers.mariadb.kill()
        self._cluster.servers.mariadb.start()
        return nothing

    def _kill_sessions(self) -> Undo:
        mariadb = self._cluster.servers.mariadb
        found = mariadb.execute(
            "SELECT id FROM information_schema.processlist WHERE db IS NOT NULL"
        )
        for (number,) in found:
            with suppress(pymysql.MySQLError):  # it has ended
                mariadb.execute(f"KILL {number}")
        return nothing

    def _lock(self, statement: str) -> Undo:
        session = self._cluster.deployment.database.engine.connect()

        def release() -> None:
            session.invalidate()  # the server may have ended it meanwhile
            session.close()

        try:
            session.exec_driver_sql(statement)
        except SQLAlchemyError:  # Warren holds some of the rows for too long
            release()
            return nothing
        return release


def _hurt(do: Callable[[], None], undo: Undo) -> Undo:
    do()
    return undo


def _signal(pid: int, number: signal.Signals) -> None:
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
