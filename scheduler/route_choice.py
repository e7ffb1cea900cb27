"""What goes into a routing decision and what comes out: frozen values, nothing else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

#: What a strategy remembers of a job between two decisions; JSON. `route` says whose it is.
Memory = Mapping[str, Any]


class Route(StrEnum):
    """XXL-JOB's strategies."""

    FIRST = "FIRST"
    LAST = "LAST"
    ROUND = "ROUND"
    RANDOM = "RANDOM"
    CONSISTENT_HASH = "CONSISTENT_HASH"
    LEAST_FREQUENTLY_USED = "LEAST_FREQUENTLY_USED"
    LEAST_RECENTLY_USED = "LEAST_RECENTLY_USED"
    FAILOVER = "FAILOVER"
    BUSYOVER = "BUSYOVER"
    SHARDING_BROADCAST = "SHARDING_BROADCAST"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What one executor answered, or that it did not; `words` go into the trigger message."""

    ok: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """What a strategy may look at.

    `addresses` are the live executors, sorted. `wanted` are those that a user named for this run,
    in the user's order. `probes` is None until executors were asked; one that is missing there
    counts as not ok. `shard_index` matters to a broadcast only.
    """

    job_id: int
    addresses: tuple[str, ...]
    memory: Memory | None = None
    probes: Mapping[str, ProbeAnswer] | None = None
    wanted: tuple[str, ...] = ()
    shard_index: int = 0

    @property
    def candidates(self) -> tuple[str, ...]:
        """The addresses that may be chosen: the live ones, or those of them that are wanted."""
        if not self.wanted:
            return self.addresses
        return tuple(address for address in self.wanted if address in self.addresses)


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, and how, in plain text; `memory` is to be stored, None = unchanged."""

    address: str | None
    words: str
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class Router:
    """A strategy, and whether it wants executors asked or its memory kept.

    `pick` is only called with at least one candidate.
    """

    pick: Callable[[RouteRequest, Random], Choice]
    needs_probe: bool = False
    needs_memory: bool = False
