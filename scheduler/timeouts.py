"""The timeouts and claim limits of a scheduler, as values that tests can lower."""

from dataclasses import dataclass

from warren.sql.registry.presence import EXECUTOR_ALIVE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLimits:
    """Limits of one transaction that routes runs.

    Attributes:
        runs: most runs claimed.
        shards: once a claim has this many triggers, further broadcasts wait for the next claim.
        script_characters: once a claim has this many characters of scripts, further scripts wait
            for the next claim.

    """

    runs: int = 500
    shards: int = 2_000
    script_characters: int = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts in seconds.

    Attributes:
        dead_after: silence after which an executor counts as dead; three missed heartbeats.
        lapse: gap between two self checks after which a scheduler no longer judges others.
        no_executor: how long a due run waits while its app, its requested executors or its handler
            are nowhere online, before it ends UNDELIVERED.
        silence: time without a report about a run before its executor is asked about it.
        answer: how long an executor may take to answer, also if another one claims its address.
        probe: how long an executor may take to answer a probe before a route skips it.
        owner_silent: silence of a scheduler after which others send the runs that it routed.
        take_over: age at which any scheduler sends an unconfirmed trigger again.
        fresh: age up to which an unconfirmed trigger may still reach a dead executor's queue.
        settle: how long a dead executor's queue must stay empty before its runs are LOST; another
            scheduler may hold a message from it.
        stale: how long after its decision a trigger may still be published. A scheduler that was
            frozen in between publishes nothing: others have taken over its runs and may have sent
            them elsewhere.
        kill_again: time between two orders to kill the same run.

    """

    dead_after: float = EXECUTOR_ALIVE_MS / 1_000
    lapse: float = 2.0
    no_executor: float = 60.0
    silence: float = 10.0
    answer: float = 2.0
    probe: float = 1.0
    owner_silent: float = 1.5
    take_over: float = 10.0
    fresh: float = 4.0
    settle: float = 1.0
    stale: float = 0.75
    kill_again: float = 2.0
