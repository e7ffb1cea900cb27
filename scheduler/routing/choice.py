"""Inputs and results of routing decisions, as frozen values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Any

from warren.broker.reasons.codes import Words

#: What a route remembers about a job between two decisions, as JSON; `route` is the route's name.
Memory = Mapping[str, Any]


class Probe(StrEnum):
    """What to ask executors before a route chooses: whether they are alive, or idle."""

    BEAT = "BEAT"
    IDLE_BEAT = "IDLE_BEAT"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """An executor's answer; `words` describe it in the trigger message.

    `heard` False = it did not answer in time, which proves nothing. `rank` orders executors that
    are not ok but may be taken if none is, the highest first; None = it may not be taken.
    """

    ok: bool
    words: Words
    heard: bool = True
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """The facts that a route may use.

    `addresses` are the live executors, sorted, or in the order of the app's own list; `away` are
    those of that list that are offline. `wanted` are those that a user named for this run, in the
    user's order. `probes` is None until executors were asked; one that is missing counts as not ok.
    `shard_index` matters to a broadcast only. `run_id` is the run that is to be sent. `nobody` is
    why there are no candidates, if there is more to say than which are offline. `free_slots` is
    what schedulers know of each, for a route that needs it.
    """

    job_id: int
    run_id: int = 0
    addresses: tuple[str, ...]
    memory: Memory | None = None
    probes: Mapping[str, ProbeAnswer] | None = field(default=None, compare=False)
    wanted: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    shard_index: int = 0
    nobody: Words = ""
    free_slots: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def candidates(self) -> tuple[str, ...]:
        """The addresses that may be chosen: the live ones, or those of them that are wanted."""
        if not self.wanted:
            return self.addresses
        return tuple(address for address in self.wanted if address in self.addresses)

    def with_probes(self, probes: Mapping[str, ProbeAnswer]) -> "RouteRequest":
        """Return the request with these answers."""
        return replace(self, probes=probes)


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen address, and how it was chosen; `memory` is to be stored, None = unchanged.

    The words of an added route are plain text.
    """

    address: str | None
    words: Words
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class Router:
    """A route, and whether it needs answers of executors or a stored memory.

    `pick` is only called with at least one candidate. With a `probe` it is called when every
    candidate has answered or is overdue. `takes_first_ok` promises that it takes the first
    candidate whose answer is ok; then it is called as soon as that one is known. `needs_slots`: it
    gets `free_slots`.
    """

    pick: Callable[[RouteRequest, Random], Choice]
    probe: Probe | None = None
    takes_first_ok: bool = False
    needs_memory: bool = False
    needs_slots: bool = False

    def is_decided(self, request: RouteRequest) -> bool:
        """Whether the answers so far are enough to choose."""
        if self.probe is None:
            return True
        probes = request.probes or {}
        for address in request.candidates:
            answer = probes.get(address)
            if answer is None:
                return False
            if answer.ok and self.takes_first_ok:
                return True
        return True
