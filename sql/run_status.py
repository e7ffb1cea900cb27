"""The life of a run: its states, the transitions between them, and XXL-JOB's codes for them.

    PLANNED ── route ──> ROUTED ── confirm ──> SENT ── Started ──> RUNNING
       │                    │                    │                    │
       └ CANCELLED          └──── UNDELIVERED ───┘                    │
         UNDELIVERED         └──── SUCCEEDED SKIPPED FAILED TIMED_OUT KILLED REFUSED LOST

A row only moves forward; a retry is a new row. The first final state wins.
"""

from collections.abc import Mapping
from enum import StrEnum


class RunStatus(StrEnum):
    """The state of a run."""

    PLANNED = "PLANNED"
    ROUTED = "ROUTED"
    SENT = "SENT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    KILLED = "KILLED"
    REFUSED = "REFUSED"
    LOST = "LOST"
    UNDELIVERED = "UNDELIVERED"
    CANCELLED = "CANCELLED"


class Kind(StrEnum):
    """What caused a run."""

    #: A schedule of any kind; XXL-JOB calls them all cron.
    SCHEDULE = "CRON"
    MISFIRE = "MISFIRE"
    MANUAL = "MANUAL"
    API = "API"
    RETRY = "RETRY"
    PARENT = "PARENT"
    #: Repeats a run for the same due time, on request.
    RERUN = "RERUN"
    #: A node of a flow, started by the outcomes of the nodes before it.
    NODE = "NODE"
    #: Belongs to a backfill.
    BACKFILL = "BACKFILL"


#: What sentences call them.
KIND_WORDS: Mapping[str, str] = {
    Kind.SCHEDULE: "schedule",
    Kind.MISFIRE: "misfire",
    Kind.MANUAL: "manual",
    Kind.API: "API",
    Kind.RETRY: "retry",
    Kind.PARENT: "parent job",
    Kind.RERUN: "re-run",
    Kind.NODE: "flow node",
    Kind.BACKFILL: "backfill",
}

#: The late status of a LOST run whose executor says later that it never started; else a result.
NEVER_STARTED = "NEVER_STARTED"

#: The kinds of runs of a schedule's own ticks.
BY_SCHEDULE = (Kind.SCHEDULE, Kind.MISFIRE)

#: How late a tick must be to count as misfired, in milliseconds; XXL-JOB's limit.
LATE_MS = 5_000

#: States of a run that an executor has, or may have.
IN_FLIGHT = frozenset({RunStatus.ROUTED, RunStatus.SENT, RunStatus.RUNNING})
#: States that are not final.
OPEN = IN_FLIGHT | {RunStatus.PLANNED}
#: States that are final.
FINAL = frozenset(RunStatus) - OPEN
#: Final states that are failures. A killed, refused or cancelled run alone is not a failure.
FAILURES = frozenset({RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.LOST, RunStatus.UNDELIVERED})
#: Final states of a shard that let its tick succeed.
FINE = frozenset({RunStatus.SUCCEEDED, RunStatus.SKIPPED})
#: Final states of a later attempt after which an earlier failure still stands.
LEAVES_FAILED = frozenset({RunStatus.KILLED, RunStatus.REFUSED, RunStatus.CANCELLED})

#: For each status, the statuses it may be entered from. A result may overtake the broker's
#: confirm and `Started`, so every state in flight leads to every result.
ENTERED_FROM: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.PLANNED: frozenset(),
    RunStatus.ROUTED: frozenset({RunStatus.PLANNED}),
    RunStatus.SENT: frozenset({RunStatus.ROUTED}),
    # The run of a flow needs no executor: it runs as soon as it is opened.
    RunStatus.RUNNING: frozenset({RunStatus.PLANNED, RunStatus.ROUTED, RunStatus.SENT}),
    RunStatus.SUCCEEDED: IN_FLIGHT,
    RunStatus.SKIPPED: IN_FLIGHT,
    # A planned run fails if the template of its param has no value for it.
    RunStatus.FAILED: IN_FLIGHT | {RunStatus.PLANNED},
    RunStatus.TIMED_OUT: IN_FLIGHT,
    RunStatus.KILLED: IN_FLIGHT,
    # A planned one if other runs of its job, or of its flow, block it.
    RunStatus.REFUSED: IN_FLIGHT | {RunStatus.PLANNED},
    RunStatus.LOST: IN_FLIGHT,
    RunStatus.UNDELIVERED: frozenset({RunStatus.PLANNED, RunStatus.ROUTED, RunStatus.SENT}),
    RunStatus.CANCELLED: frozenset({RunStatus.PLANNED}),
}

#: `(trigger_code, handle_code)` of each status, as programs that read XXL-JOB's tables expect.
CODES: dict[RunStatus, tuple[int, int]] = {
    RunStatus.PLANNED: (0, 0),
    RunStatus.ROUTED: (0, 0),
    RunStatus.SENT: (200, 0),
    RunStatus.RUNNING: (200, 0),
    RunStatus.SUCCEEDED: (200, 200),
    RunStatus.SKIPPED: (200, 200),
    RunStatus.FAILED: (200, 500),
    RunStatus.TIMED_OUT: (200, 502),
    RunStatus.KILLED: (200, 500),
    RunStatus.LOST: (200, 500),
    RunStatus.UNDELIVERED: (500, 0),
    RunStatus.REFUSED: (500, 0),
    RunStatus.CANCELLED: (500, 0),
}

#: What a row gets when it enters a status: the status itself, and these codes.
ENTERED: Mapping[RunStatus, Mapping[str, str | int]] = {
    status: {"status": status.value, "trigger_code": trigger_code, "handle_code": handle_code}
    for status, (trigger_code, handle_code) in CODES.items()
}
