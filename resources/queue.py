"""The queue: due runs that are not sent yet."""

from datetime import date, datetime
from typing import Any

import msgspec

from warren.resources.operation import DEFAULT_LIMIT, PageQuery, Scope, Word, operation


class QueuedRun(msgspec.Struct, kw_only=True, frozen=True):
    """A run that is due and not sent yet; `waits_for` are the full limits that it waits for."""

    id: int
    job: str | None
    job_id: int
    app: str | None
    kind: str
    status: str
    scheduled_at: datetime
    due_at: datetime
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
    routed_at: datetime | None
    sent_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    kill_requested_at: datetime | None
    late_status: str | None
    message: str
    trigger_message: str
    result: Any
    progress: Any
    waits_for: list[str]


class QueueQuery(PageQuery, kw_only=True):
    """Whose runs to list."""

    app: Word | None = None


@operation("GET", "/queue", Scope.READ, query=QueueQuery)
def list_queue(*, app: str | None = None, limit: int | None = DEFAULT_LIMIT) -> list[QueuedRun]:
    """List due runs that are not sent yet, the longest waiting first, and what they wait for."""
