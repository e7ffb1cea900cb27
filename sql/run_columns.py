"""Which columns of a run each of its readers needs; every column costs half a microsecond a row."""

from sql.models import Run

#: What sending a run for the first time needs; it has no address, boot or owner yet.
CLAIM_COLUMNS = (
    Run.id,
    Run.job_group,
    Run.job_id,
    Run.executor_handler,
    Run.executor_param,
    Run.executor_fail_retry_count,
    Run.kind,
    Run.scheduled_at,
    Run.due_at,
    Run.origin_id,
    Run.shard_index,
    Run.shard_total,
    Run.attempt,
    Run.wanted_addresses,
    Run.glue_id,
)

#: What following a run that was routed needs, and sending it again.
DISPATCH_COLUMNS = (
    *CLAIM_COLUMNS,
    Run.executor_address,
    Run.redeliveries,
    Run.boot_id,
    Run.routed_by,
    Run.routed_at,
    Run.sent_at,
    Run.status,
    Run.kill_requested_at,
)

#: What a decision about a run's end needs, and the attempt that follows.
DECISION_COLUMNS = (
    Run.id,
    Run.job_group,
    Run.job_id,
    Run.executor_address,
    Run.executor_handler,
    Run.executor_param,
    Run.executor_fail_retry_count,
    Run.status,
    Run.scheduled_at,
    Run.origin_id,
    Run.shard_index,
    Run.shard_total,
    Run.attempt,
    Run.redeliveries,
    Run.wanted_addresses,
    Run.glue_id,
    Run.boot_id,
    Run.routed_at,
    Run.started_at,
    Run.kill_requested_at,
)

#: What judging a whole tick needs.
TICK_COLUMNS = (
    Run.id,
    Run.job_id,
    Run.scheduled_at,
    Run.origin_id,
    Run.shard_index,
    Run.shard_total,
    Run.attempt,
    Run.status,
    Run.finished_at,
)
