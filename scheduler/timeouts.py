"""How long a scheduler waits before it judges; one value, so that tests can be quick."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds, with the design's figures as defaults.

    `dead_after`: silence of an executor, three missed heartbeats, after which it is called dead.
    `lapse`: a gap between two checks of a scheduler's own health that ends that health.
    `no_executor`: absence of every executor of an app after which its due runs are given up.
    `silence`: time without news of a run after which its executor is asked about it.
    `answer`: how long an executor may take to answer, also one whose address is claimed by another.
    `probe`: how long an executor may take to say that it lives, or is idle, before a route skips
    it.
    `owner_silent`: silence of a scheduler after which others send what it routed.
    `take_over`: age at which any scheduler sends an unconfirmed trigger again.
    `fresh`: age up to which an unconfirmed trigger to a dead executor may still reach its queue.
    `settle`: how long a dead executor's queue must stay empty before its runs are LOST; another
    scheduler may just hold what was in it.
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
