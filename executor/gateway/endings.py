"""Decides how a remote run ended, and words its message. Pure: no I/O, no clock."""

from warren.broker.messages.values import Outcome
from warren.broker.reasons.codes import Why
from warren.broker.reasons.reason import Words
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
