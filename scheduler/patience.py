"""How long a scheduler waits before it judges; one value, so that tests can be quick."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds, with the design's figures as defaults.

    `dead_after`: silence of an executor, three missed heartbeats, before it is called dead.
    `lapse`: a gap between two checks of a scheduler's own health that ends that health.
    `no_executor`: absence of every executor of an app before what is due for it is given up.
    `silence`: age of a run of which nothing was heard before its executor is asked about it.
    `answer`: how long an executor may take to answer, also one whose address is claimed by another.
    `probe`: how long an executor may take to answer whether it lives, or is idle, before a route
    passes it over.
    `owner_silent`: silence of a scheduler before others send what it routed.
    `take_over`: age of an unconfirmed trigger before anybody sends it again, whoever owns it.
    `fresh`: age up to which an unconfirmed trigger to a dead executor may still reach its queue.
    `settle`: how long a dead executor's queue must have been found empty before its runs are LOST;
    another scheduler may just hold what was in it.
    """

    dead_after: float = 15.0
    lapse: float = 2.0
    no_executor: float = 10.0
    silence: float = 10.0
    answer: float = 2.0
    probe: float = 1.0
    owner_silent: float = 1.5
    take_over: float = 10.0
    fresh: float = 4.0
    settle: float = 1.0
