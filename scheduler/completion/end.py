"""How a run ended: what every role that ends runs says to completion.

The functions make the ends that several roles decide.
"""

from dataclasses import dataclass

from warren.broker.reasons.reason import Words
from warren.sql.run_status import RunStatus
from warren.sql.runs.successes import SentTo


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a run ended: its final status, and whether it provably never reached a process.

    `sent_to`, if given, is the boot that the run must have been sent to: the one that reported the
    end, or in whose queue its trigger was found.
    `only_from` and `routed_at`, if given, are the row's values when this was decided; the run ends
    only if they still hold, as it may have been sent meanwhile.
    `alone_of_job` is the run's job if its executor reports it as the only run of its tick, and
    `due_at` when it was due, if the executor tells.
    `least_wait_seconds` is the shortest wait before another attempt, whatever the job says.
    """

    run_id: int
    status: RunStatus
    message: Words
    finished_at: int
    started_at: int | None = None
    log_tail: str | None = None
    never_started: bool = False
    sent_to: SentTo | None = None
    only_from: RunStatus | None = None
    routed_at: int | None = None
    alone_of_job: int | None = None
    due_at: int | None = None
    least_wait_seconds: float = 0.0


def never_started(
    run_id: int,
    why: Words,
    now_ms: int,
    *,
    sent_to: SentTo | None = None,
    routed_at: int | None = None,
    least_wait_seconds: float = 0.0,
) -> End:
    """Return the end of a run that was sent and provably never reached a process."""
    return End(
        run_id=run_id,
        status=RunStatus.UNDELIVERED,
        message=why,
        finished_at=now_ms,
        never_started=True,
        sent_to=sent_to,
        routed_at=routed_at,
        least_wait_seconds=least_wait_seconds,
    )


def lost(run_id: int, why: Words, now_ms: int, *, only_from: RunStatus | None = None) -> End:
    """Return the end of a run that may have started, and of which nothing is known."""
    return End(
        run_id=run_id,
        status=RunStatus.LOST,
        message=why,
        finished_at=now_ms,
        only_from=only_from,
    )


def cancelled(run_id: int, why: Words, now_ms: int) -> End:
    """Return the end of a planned run that will not be sent."""
    return End(
        run_id=run_id,
        status=RunStatus.CANCELLED,
        message=why,
        finished_at=now_ms,
        never_started=True,
    )
