"""Builds reports on runs: their ends, cut to their limits, and their progress once a second."""

from collections.abc import Callable

import msgspec

from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.to_scheduler import PROGRESS_LIMIT, Finished, NotStarted, Progressed
from warren.broker.messages.values import LOG_TAIL_BYTES, NODE, Outcome, Progress, cut_message
from warren.broker.reasons.codes import Words
from warren.broker.reasons.stored import to_json
from warren.executor.messaging.signed_sender import Sender


def end_of(trigger: Trigger, outcome: Outcome, why: Words, now_ms: int) -> Finished:
    """Return the end of a run that never had a process."""
    return Finished(
        run_id=trigger.run_id,
        boot_id=trigger.boot_id,
        outcome=outcome,
        message=cut_message(str(why)),
        why=to_json(why),
        finished_at_ms=now_ms,
        identity=trigger.identity,
    )


def not_started(trigger: Trigger, why: Words, *, is_full: bool = False) -> NotStarted:
    """Report that a run never started here and never will; `is_full`: for lack of room."""
    return NotStarted(
        run_id=trigger.run_id,
        boot_id=trigger.boot_id,
        reason=cut_message(str(why)),
        why=to_json(why),
        is_full=is_full,
        identity=trigger.identity,
    )


def _is_alone(trigger: Trigger) -> bool:
    """Whether a run is its whole tick, is no flow's node, and holds no limits."""
    is_whole = trigger.shard_total <= 1 and not trigger.attempt
    return is_whole and trigger.kind != NODE and not trigger.holds_limits


def stamped(finished: Finished, trigger: Trigger, started_at_ms: int, now_ms: int) -> Finished:
    """Return a run's end as the slots reported it, in the scheduler's time and within limits."""
    return msgspec.structs.replace(
        finished,
        boot_id=trigger.boot_id,
        message=cut_message(finished.message),
        started_at_ms=started_at_ms if finished.started_at_ms else 0,
        finished_at_ms=now_ms,
        log_tail=finished.log_tail[-LOG_TAIL_BYTES:],
        alone_of_job=trigger.job_id if _is_alone(trigger) else 0,
        due_at_ms=trigger.due_at_ms,
        identity=trigger.identity,
    )


#: The time between two messages, and from a run's first report to its first message: until then
#: the schedulers may not know that it is running, and would ignore it.
SECONDS, FIRST_SECONDS = 1.0, 1.5
#: How long a message is valid: later ones replace it.
VALID_SECONDS = 10.0


class ProgressReports:
    """The latest progress of this boot's runs. Used from the core's thread."""

    def __init__(self, sender: Sender, monotonic: Callable[[], float]) -> None:
        self._sender = sender
        self._monotonic = monotonic
        self._first_at: dict[int, float] = {}
        self._changed: dict[int, Progress] = {}
        self._sent_at = -SECONDS

    def note(self, run_id: int, progress: Progress) -> None:
        self._first_at.setdefault(run_id, self._monotonic())
        self._changed[run_id] = progress

    def forget(self, run_id: int) -> None:
        """Forget a run that has ended."""
        self._first_at.pop(run_id, None)
        self._changed.pop(run_id, None)

    def send_due(self) -> None:
        """Send what has changed, if it is time."""
        now = self._monotonic()
        if not self._changed or now - self._sent_at < SECONDS:
            return
        old = [run_id for run_id in self._changed if now - self._first_at[run_id] >= FIRST_SECONDS]
        if not old:
            return
        runs = {run_id: self._changed.pop(run_id) for run_id in old[:PROGRESS_LIMIT]}
        self._sent_at = now
        who = self._sender.identity
        message = Progressed(app=who.app, address=who.address, boot_id=who.boot_id, runs=runs)
        self._sender.send(message, valid_seconds=VALID_SECONDS)
