"""How a run ended: what every role that ends runs says to completion."""

from dataclasses import dataclass

from broker.reasons.reason import Words
from sql.run_status import RunStatus
from sql.runs.successes import SentTo


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a run ended: its final status, and whether it provably never reached a process.

    `sent_to`, if given, is the boot that the run must have been sent to: the one that reported the
    end, or in whose queue its trigger was found.
    `only_from` and `routed_at`, if given, are the row's values when this was decided; the run ends
    only if they still hold, as it may have been sent meanwhile.
    `alone_of_job` is the run's job if its executor reports it as the only run of its tick.
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
    least_wait_seconds: float = 0.0
