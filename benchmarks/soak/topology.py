"""The set-ups that a soak runs on: their services and faults, and what Warren is told of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.soak.databases import ServedDatabase, single_mariadb, single_postgresql
from benchmarks.soak.plan import OF_NODES, Kind
from tests.support.galera import GaleraCluster
from tests.support.replicated_mariadb import ReplicatedMariaDB
from tests.support.replicated_postgresql import ReplicatedPostgreSQL

_OF_PROCESSES = (
    Kind.KILL_SCHEDULER,
    Kind.STOP_SCHEDULER,
    Kind.KILL_EXECUTOR,
    Kind.STOP_EXECUTOR,
)
_OF_BROKER_NODES = (Kind.KILL_BROKER_NODE, Kind.STOP_BROKER_NODE, Kind.PART_BROKER_NODE)
_OF_REPLICAS = (*(Kind.FAIL_OVER, Kind.STOP_DATABASE_NODE) * 3, *_OF_PROCESSES, Kind.RESET_DATABASE)
_OF_GALERA = (
    *(Kind.KILL_DATABASE_NODE, Kind.STOP_DATABASE_NODE) * 3,
    *_OF_PROCESSES,
    Kind.RESET_DATABASE,
)
#: What may happen to one server of each kind.
_OF_SINGLE = tuple(kind for kind in Kind if kind not in OF_NODES)
#: How far a replica is behind that is to lose commits.
LAG_SECONDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One set-up.

    `kinds` are its faults; one that is there twice happens twice as often. `settings` are Warren's.
    `lists_databases`: Warren is told each server of the database, not one proxy. `rate`: runs a
    second. `has_gateways`: two, with executors of XXL-JOB's protocol.
    """

    kinds: Sequence[Kind]
    brokers: int = 1
    database: Callable[[Path], ServedDatabase] = single_mariadb
    lists_databases: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    rate: float = 10.0
    has_gateways: bool = False


TOPOLOGIES = {
    "single": Topology(kinds=_OF_SINGLE, rate=40.0),
    "quorum": Topology(
        kinds=(
            *(*_OF_BROKER_NODES, Kind.PART_TWO_BROKER_NODES) * 2,
            *_OF_PROCESSES,
            Kind.RESET_BROKER,
        ),
        brokers=3,
    ),
    # Two nodes that lose each other only are left out: RabbitMQ 3.10 may then forget where their
    # classic queues are until they are started again.
    "classic-cluster": Topology(
        kinds=(*_OF_BROKER_NODES * 2, *_OF_PROCESSES, Kind.RESET_BROKER),
        brokers=3,
        settings={"WARREN_QUORUM": "false"},
    ),
    "galera": Topology(kinds=_OF_GALERA, database=GaleraCluster),
    "galera-list": Topology(kinds=_OF_GALERA, database=GaleraCluster, lists_databases=True),
    "replica": Topology(kinds=_OF_REPLICAS, database=ReplicatedMariaDB),
    "replica-list": Topology(kinds=_OF_REPLICAS, database=ReplicatedMariaDB, lists_databases=True),
    "lagging-replica": Topology(
        kinds=_OF_REPLICAS, database=partial(ReplicatedMariaDB, delay_seconds=LAG_SECONDS)
    ),
    "postgresql": Topology(
        kinds=(*_OF_SINGLE, Kind.STOP_DATABASE_NODE), database=single_postgresql, rate=40.0
    ),
    "standby": Topology(kinds=_OF_REPLICAS, database=ReplicatedPostgreSQL),
    "standby-list": Topology(
        kinds=_OF_REPLICAS, database=ReplicatedPostgreSQL, lists_databases=True
    ),
    "gateways": Topology(
        kinds=(
            *(Kind.KILL_GATEWAY, Kind.STOP_GATEWAY) * 3,
            *_OF_PROCESSES,
            Kind.RESET_BROKER,
        ),
        has_gateways=True,
    ),
}
