"""What is read of runs: to send them, to follow them, to end them, to judge their tick.

Every column costs half a microsecond a row, so each type has what its readers need.
"""

from typing import NamedTuple


class PlannedRun(NamedTuple):
    """A run to be sent for the first time; it has no address, boot or owner yet."""

    id: int
    app_id: int
    job_id: int
    handler: str | None
    param: str | None
    retries_left: int
    kind: str
    scheduled_at: int
    due_at: int
    origin_id: int
    shard_index: int
    shard_total: int
    attempt: int
    wanted_addresses: str | None
    script_version: int | None
    traceparent: str | None


class RoutedRun(NamedTuple):
    """A run that was routed, to be followed, or sent again; one that was not has no address yet."""

    id: int
    app_id: int
    job_id: int
    handler: str | None
    param: str | None
    kind: str
    scheduled_at: int
    shard_index: int
    shard_total: int
    attempt: int
    script_version: int | None
    traceparent: str | None
    address: str
    boot_id: str
    routed_by: str
    routed_at: int
    status: str


class LockedRun(NamedTuple):
    """A run about whose end is decided, and about the attempt that follows."""

    id: int
    app_id: int
    job_id: int
    address: str | None
    handler: str | None
    param: str | None
    retries_left: int
    status: str
    scheduled_at: int
    origin_id: int
    shard_index: int
    shard_total: int
    attempt: int
    redeliveries: int
    wanted_addresses: str | None
    script_version: int | None
    traceparent: str | None
    boot_id: str | None
    routed_at: int | None
    started_at: int | None
    kill_requested_at: int | None


class FailedRun(NamedTuple):
    """A failed attempt, reported in place of a later one that never ran."""

    job_id: int
    scheduled_at: int
    origin_id: int
    shard_index: int
    attempt: int
    retries_left: int
    status: str
    message: str | None
    log_tail: str | None


class TickRun(NamedTuple):
    """A run of a tick that is judged as a whole."""

    id: int
    job_id: int
    scheduled_at: int
    origin_id: int
    shard_index: int
    shard_total: int
    attempt: int
    status: str
    finished_at: int | None


class EndedRun(NamedTuple):
    """A run that is over, as others are told of it."""

    id: int
    kind: str
    status: str
    address: str | None
    message: str | None


class TracedRun(NamedTuple):
    """A run that is over, as its spans tell it; names are None when job or app are gone."""

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
    attempt: int
    shard_index: int
    address: str | None
    message: str | None
    traceparent: str | None
