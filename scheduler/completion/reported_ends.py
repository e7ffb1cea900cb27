"""What an executor's final report on a run means for its row. Pure."""

from dataclasses import replace

from warren.broker.messages.to_scheduler import Finished, NotStarted
from warren.broker.messages.values import Outcome
from warren.broker.reasons.stored import from_json
from warren.scheduler.completion.end import End, never_started
from warren.sql.instants import DAY_MS, HOUR_MS
from warren.sql.run_status import RunStatus
from warren.sql.runs.successes import SentTo

_STATUS: dict[Outcome, RunStatus] = {outcome: RunStatus(outcome.value) for outcome in Outcome}
#: Seconds before a run for which an executor had no room is sent again.
FULL_SECONDS = 1.0


#: How far before its routing, and after now, the reported start or end of a run may lie; in
#: milliseconds.
EARLY_MS, AHEAD_MS = DAY_MS, HOUR_MS


def plausible_instant(instant_ms: int, *, routed_at: int | None, now_ms: int) -> int:
    """Return an instant that an executor reported, or now if it is implausible."""
    earliest_ms = (now_ms if routed_at is None else routed_at) - EARLY_MS
    return instant_ms if earliest_ms <= instant_ms <= now_ms + AHEAD_MS else now_ms


def with_plausible_instants(end: End, *, routed_at: int | None, now_ms: int) -> End:
    """Return an end with its instants as they are recorded: plausible, and not after now."""
    if end.sent_to is not None:
        began = end.started_at
        end = replace(
            end,
            finished_at=plausible_instant(end.finished_at, routed_at=routed_at, now_ms=now_ms),
            started_at=began and plausible_instant(began, routed_at=routed_at, now_ms=now_ms),
        )
    if not (ahead_ms := ms_ahead(end, now_ms)):
        return end
    began = end.started_at
    return replace(end, finished_at=now_ms, started_at=began and began - ahead_ms)


def ms_ahead(end: End, now_ms: int) -> int:
    """Return how far an end lies after now; it is recorded so much earlier, and so is its start.

    An executor's clock may be ahead, and the database's may have been set back. What follows an
    end, like a fixed delay's next tick, goes by what is recorded, and so does the audit.
    """
    return max(0, end.finished_at - now_ms)


def end_of(report: Finished | NotStarted, sent_to: SentTo, now_ms: int) -> End:
    """Return the end of a run that was sent to the boot that reports it."""
    if isinstance(report, NotStarted):
        return _never_started(report, sent_to, now_ms)
    return _finished(report, sent_to)


def _never_started(report: NotStarted, sent_to: SentTo, now_ms: int) -> End:
    return never_started(
        report.run_id,
        from_json(report.why) or report.reason,
        now_ms,
        sent_to=sent_to,
        least_wait_seconds=FULL_SECONDS if report.is_full else 0.0,
    )


def _finished(report: Finished, sent_to: SentTo) -> End:
    return End(
        run_id=report.run_id,
        status=_STATUS[report.outcome],
        message=from_json(report.why) or report.message,
        finished_at=report.finished_at_ms,
        started_at=report.started_at_ms or None,
        log_tail=report.log_tail,
        alone_of_job=report.alone_of_job or None,
        due_at=report.due_at_ms or None,
        sent_to=sent_to,
    )
