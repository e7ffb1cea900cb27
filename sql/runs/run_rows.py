"""The columns of runs that different readers need.

Each column costs half a microsecond per row, so what is read for each run that is claimed, sent or
ended has only what it needs; the rest share `RunFacts`.
"""

from datetime import date
from typing import NamedTuple


class RunFacts(NamedTuple):
    """A run without its texts."""

    id: int
    app_id: int
    job_id: int
    kind: str
    status: str
    address: str | None
    boot_id: str | None
    scheduled_at: int
    due_at: int
    run_date: date | None
    origin_id: int
    shard_index: int
    attempt: int
    starts: int
    retries_left: int
    script_version: int | None
    rerun_of: int | None
    backfill_id: int | None
    flow_run_id: int | None
    traceparent: str | None
    started_at: int | None
    finished_at: int | None
    kill_requested_at: int | None


class PlannedRun(NamedTuple):
    """A run that is not routed yet, so it has no address, boot or owner."""

    id: int
    app_id: int
    job_id: int
    handler: str | None
    param: str | None
    retries_left: int
    kind: str
    scheduled_at: int
    due_at: int
    run_date: date | None
    origin_id: int
    shard_index: int
    shard_total: int
    attempt: int
    starts: int
    wanted_addresses: str | None
    script_version: int | None
    backfill_id: int | None
    traceparent: str | None
    released_at: int | None


class RoutedRun(NamedTuple):
    """A routed run, to be watched or sent again; address, boot and owner are set."""

    id: int
    app_id: int
    job_id: int
    handler: str | None
    param: str | None
    kind: str
    scheduled_at: int
    due_at: int
    run_date: date | None
    shard_index: int
    shard_total: int
    starts: int
    script_version: int | None
    backfill_id: int | None
    traceparent: str | None
    address: str
    boot_id: str
    routed_by: str
    routed_at: int
    status: str


class LockedRun(NamedTuple):
    """A locked run, with what is needed to end it and to plan the next attempt."""

    id: int
    app_id: int
    job_id: int
    address: str | None
    handler: str | None
    param: str | None
    retries_left: int
    status: str
    scheduled_at: int
    due_at: int
    run_date: date | None
    origin_id: int
    shard_index: int
    shard_total: int
    attempt: int
    starts: int
    redeliveries: int
    wanted_addresses: str | None
    script_version: int | None
    rerun_of: int | None
    called_by: int | None
    backfill_id: int | None
    flow_run_id: int | None
    holds: int | None
    without_children: int | None
    traceparent: str | None
    boot_id: str | None
    routed_at: int | None
    started_at: int | None
    kill_requested_at: int | None


class FailedRun(NamedTuple):
    """An earlier failed attempt, reported if the later one never ran."""

    job_id: int
    scheduled_at: int
    origin_id: int
    shard_index: int
    attempt: int
    starts: int
    retries_left: int
    status: str
    message: str | None
    log_tail: str | None


class TickRun(NamedTuple):
    """A run, with what is needed to decide how its tick ended."""

    id: int
    job_id: int
    scheduled_at: int
    run_date: date | None
    origin_id: int
    shard_index: int
    shard_total: int
    attempt: int
    rerun_of: int | None
    without_children: int | None
    status: str
    finished_at: int | None


class EndedRun(NamedTuple):
    """A final run, with what run webhooks report and nodes keep."""

    id: int
    kind: str
    address: str | None
    message: str | None
    message_why: str | None
    result: str | None


class TracedRun(NamedTuple):
    """A final run, with what its spans contain; `app` and `job` are None if deleted."""

    id: int
    job_id: int
    app: str | None
    job: str | None
    kind: str
    status: str
    scheduled_at: int
    due_at: int
    routed_at: int | None
    sent_at: int | None
    started_at: int | None
    finished_at: int | None
    starts: int
    shard_index: int
    address: str | None
    message: str | None
    traceparent: str | None


class DetailedRun(NamedTuple):
    """Everything about a run; lines of lists lack its param, result and end of log.

    `job`, `app`, `timezone`, `route`, `limits` and `scope` are None if the job was deleted.
    `script_version` is the id of the script's version, `script_number` its number, None if it was
    deleted. `code_version` is that of its executor's handlers.
    `flow_run_id` is the flow's run to whose node it belongs.
    """

    id: int
    job: str | None
    job_id: int
    app: str | None
    kind: str
    status: str
    scheduled_at: int
    due_at: int
    run_date: date | None
    address: str | None
    handler: str | None
    script_version: int | None
    script_number: int | None
    code_version: str | None
    param: str
    origin_id: int
    rerun_of: int | None
    called_by: int | None
    backfill_id: int | None
    flow_run_id: int | None
    shard_index: int
    shard_total: int
    attempt: int
    starts: int
    trigger_code: int
    handle_code: int
    routed_at: int | None
    sent_at: int | None
    started_at: int | None
    finished_at: int | None
    kill_requested_at: int | None
    late_status: str | None
    message: str
    trigger_message: str
    message_why: str | None
    trigger_why: str | None
    log_tail: str | None
    progress: str | None
    result: str | None
    boot_id: str | None
    retries_left: int
    wanted_addresses: str | None
    timezone: str | None
    route: str | None
    limits: str | None
    scope: str | None

    @property
    def lasted_ms(self) -> int | None:
        """How long its process ran; None if unknown."""
        if not self.started_at or not self.finished_at:
            return None
        return self.finished_at - self.started_at
