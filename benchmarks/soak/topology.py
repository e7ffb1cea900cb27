"""The set-ups that a soak runs on: their services and faults, and what Warren is told of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.soak.plan import OF_NODES, Kind

_OF_PROCESSES = (
    Kind.KILL_SCHEDULER,
    Kind.STOP_SCHEDULER,
    Kind.KILL_EXECUTOR,
    Kind.STOP_EXECUTOR,
)
_OF_BROKER_NODES = (Kind.KILL_BROKER_NODE, Kind.STOP_BROKER_NODE, Kind.PART_BROKER_NODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One set-up.

    `kinds` are its faults; one that is there twice happens twice as often. `settings` are Warren's.
    `rate`: runs a second.
    """

    kinds: Sequence[Kind]
    brokers: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    rate: float = 10.0


TOPOLOGIES = {
    "single": Topology(kinds=[kind for kind in Kind if kind not in OF_NODES], rate=40.0),
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
}
