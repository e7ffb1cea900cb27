"""Reports on runs, made fit to travel: clipped, stamped with the scheduler's time."""

import msgspec

from broker.messages import LOG_TAIL_BYTES, MESSAGE_LIMIT, Finished, NotStarted, Outcome, Trigger

_CUT_MARK = " …"


def end_of(trigger: Trigger, outcome: Outcome, message: str, now_ms: int) -> Finished:
    """Return the end of a run that no process ever worked at."""
    return Finished(
        run_id=trigger.run_id,
        boot_id=trigger.boot_id,
        outcome=outcome,
        message=_clipped(message),
        finished_at_ms=now_ms,
    )


def not_started(trigger: Trigger, reason: str) -> NotStarted:
    """Return that a run never started here and never will."""
    return NotStarted(run_id=trigger.run_id, boot_id=trigger.boot_id, reason=_clipped(reason))


def stamped(finished: Finished, trigger: Trigger, started_at_ms: int, now_ms: int) -> Finished:
    """Return what the slots told of a run's end, in the scheduler's time and within the limits."""
    return msgspec.structs.replace(
        finished,
        boot_id=trigger.boot_id,
        message=_clipped(finished.message),
        started_at_ms=started_at_ms if finished.started_at_ms else 0,
        finished_at_ms=now_ms,
        log_tail=finished.log_tail[-LOG_TAIL_BYTES:],
    )


def _clipped(text: str) -> str:
    if len(text) <= MESSAGE_LIMIT:
        return text
    return text[: MESSAGE_LIMIT - len(_CUT_MARK)] + _CUT_MARK
