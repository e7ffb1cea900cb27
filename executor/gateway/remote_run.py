"""One run at a remote executor: its state, its order to stop, its limits, and how it ended."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.values import Outcome
from warren.broker.reasons.codes import Why, Words
from warren.executor.gateway import protocol
from warren.executor.gateway.protocol import RemoteResult
from warren.executor.processes.endings import Stop, timed_out

#: After this long without proof that it is still running, a run is LOST.
PROOF_SECONDS = 120.0

#: What pyxxl reports for a run that exceeded its timeout.
_TIMEOUT_WORDS = "TimeoutError"


def conclude(
    result: RemoteResult, stop: Stop | None, *, timeout_seconds: float, seconds: float
) -> tuple[Outcome, Words]:
    """Return outcome and message of a run that its executor called back after `seconds`."""
    if result.code == protocol.OK:
        return Outcome.SUCCEEDED, result.text
    if stop is not None:
        return stop.outcome, stop.words
    if result.code == protocol.TIMED_OUT:
        return Outcome.TIMED_OUT, result.text or timed_out(timeout_seconds).words
    if result.text == _TIMEOUT_WORDS and 0 < timeout_seconds <= seconds:
        return Outcome.TIMED_OUT, timed_out(timeout_seconds).words
    return Outcome.FAILED, result.text or Why.REMOTE_CODE(code=result.code)


def unanswered(stop: Stop, obstacle: str) -> tuple[Outcome, Words]:
    """Return outcome and message of a run that was stopped and has not called back."""
    if obstacle:
        return stop.outcome, Why.REMOTE_UNSTOPPED(stop=stop.words, fault=obstacle)
    return stop.outcome, Why.REMOTE_STOPPED(stop=stop.words)


def lost(url: str) -> tuple[Outcome, Words]:
    """Return outcome and message of a run without proof that it is still running."""
    return Outcome.LOST, Why.REMOTE_LOST(url=url, seconds=f"{PROOF_SECONDS:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLimits:
    """The limits of a remote executor: `count` runs at a time, one of each job.

    Scripts in `script_languages` are sent, others are FAILED. A run that was asked to stop may call
    back until `stop_margin_seconds` after the grace time. The gateway stops a run itself
    `timeout_margin_seconds` after its timeout and grace time.
    """

    count: int
    grace_seconds: float
    script_languages: Collection[str]
    timeout_margin_seconds: float = 30.0
    stop_margin_seconds: float = 5.0
    #: How long an executor that signed off may take to come back, as after a restart.
    return_seconds: float = 15.0
    #: How long an executor may take to write the rest of a log after the end of its run.
    log_end_seconds: float = 1.0


@dataclass(slots=True, eq=False)
class RemoteRun:
    """A run, from before the call that starts it until its end.

    `started_at`, and `proven_at`, the last proof that it was running, are by the loop's clock.
    """

    trigger: Trigger
    started_at_ms: int
    started_at: float
    proven_at: float
    is_resumed: bool = False
    stop: Stop | None = None
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None

    def order_stop(self, stop: Stop) -> None:
        """Order it to stop; the first order counts."""
        self.stop = self.stop or stop
        self.stopped.set()

    async def until_stopped(self, seconds: float | None) -> bool:
        """Wait for an order to stop; return False if none came in time."""
        try:
            await asyncio.wait_for(self.stopped.wait(), seconds)
        except TimeoutError:
            return False
        return True
