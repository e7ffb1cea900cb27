"""Builds reports on runs: cut to their limits, in the scheduler's time."""

import msgspec

from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.to_scheduler import Finished, NotStarted
from warren.broker.messages.values import LOG_TAIL_BYTES, NODE, Outcome, cut_message
from warren.broker.reasons.codes import Words
from warren.broker.reasons.stored import to_json


def end_of(trigger: Trigger, outcome: Outcome, why: Words, now_ms: int) -> Finished:
    """Return the end of a run that never had a process."""
    return Finished(
        run_id=trigger.run_id,
        boot_id=trigger.boot_id,
        outcome=outcome,
        message=cut_message(str(why)),
        why=to_json(why),
        finished_at_ms=now_ms,
    )


def not_started(trigger: Trigger, why: Words, *, is_full: bool = False) -> NotStarted:
    """Report that a run never started here and never will; `is_full`: for lack of room."""
    return NotStarted(
        run_id=trigger.run_id,
        boot_id=trigger.boot_id,
        reason=cut_message(str(why)),
        why=to_json(why),
        is_full=is_full,
    )


def _is_alone(trigger: Trigger) -> bool:
    """Whether a run is its whole tick, and no more than its row: no node, no holder of limits."""
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
    )
