"""Which pending work wakes which role. Pure."""

from warren.scheduler.rounds.pending_work import WakeCondition
from warren.sql.pending import Pending

#: A role is woken this long before its work is due, and waits for the exact time itself.
NEAR_MS = 1_000


def planner(begin_ms: int) -> WakeCondition:
    """Return whether a tick is about to be planned, which happens `begin_ms` before it."""

    def is_tick_near(work: Pending, now_ms: int) -> bool:
        return work.next_tick is not None and work.next_tick <= now_ms + begin_ms + NEAR_MS

    return is_tick_near


def dispatcher(work: Pending, now_ms: int) -> bool:
    """Whether a run is due soon, or a pause or its end has to be noted."""
    is_due = work.next_due is not None and work.next_due <= now_ms + NEAR_MS
    return is_due or work.has_pauses


def rescuer(work: Pending, _now_ms: int) -> bool:
    """Whether any run is ROUTED."""
    return work.has_routed


def settlers(work: Pending, _now_ms: int) -> bool:
    """Whether any run is with an executor, for reaper and reconciler."""
    return work.has_in_flight


def killer(work: Pending, _now_ms: int) -> bool:
    """Whether somebody asked to kill a run."""
    return work.has_kills


def drainer(work: Pending, _now_ms: int) -> bool:
    """Whether somebody asked to drain an executor."""
    return work.has_drains


def alarm_rate_limiter(work: Pending, _now_ms: int) -> bool:
    """Whether there are alarms to decide about."""
    return work.has_new_alarms


def mailer(work: Pending, _now_ms: int) -> bool:
    """Whether an e-mail waits to be sent."""
    return work.has_mails


def webhooks(work: Pending, _now_ms: int) -> bool:
    """Whether a webhook waits to be called."""
    return work.has_webhooks


def run_webhooks(work: Pending, _now_ms: int) -> bool:
    """Whether a webhook waits to hear of the end of a run."""
    return work.has_run_ends
