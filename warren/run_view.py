"""Runs as they are shown: as a JSON object, as a line of a table, as facts."""

from typing import Any
from zoneinfo import ZoneInfo

from sql.rows import AnyRow
from warren.instants import iso, local
from warren.terminal import duration, relative

HEADERS = (
    "id",
    "job",
    "app",
    "kind",
    "status",
    "due",
    "took",
    "address",
    "shard",
    "try",
    "message",
)


def run_json(run: AnyRow) -> dict[str, Any]:
    """Return a run as a JSON object; a deleted job's run has no `job`."""
    return {
        "id": run.id,
        "job": run.job,
        "job_id": run.job_id,
        "app": run.app,
        "kind": run.kind,
        "status": run.status,
        "scheduled_at": iso(run.scheduled_at),
        "due_at": iso(run.due_at),
        "address": run.executor_address,
        "handler": run.executor_handler,
        "script_version": run.glue_id,
        "param": run.executor_param or "",
        "origin_id": run.origin_id,
        "shard_index": run.shard_index,
        "shard_total": run.shard_total,
        "attempt": run.attempt,
        "trigger_code": run.trigger_code,
        "handle_code": run.handle_code,
        "routed_at": iso(run.routed_at),
        "sent_at": iso(run.sent_at),
        "started_at": iso(run.started_at),
        "finished_at": iso(run.finished_at),
        "kill_requested_at": iso(run.kill_requested_at),
        "late_status": run.late_status,
        "message": run.handle_msg or "",
        "trigger_message": run.trigger_msg or "",
    }


def run_line(run: AnyRow, *, now_ms: int) -> tuple[str, ...]:
    """Return a run as a line of a table with `HEADERS`."""
    return (
        str(run.id),
        job_name(run),
        run.app or "",
        run.kind,
        run.status,
        relative(run.due_at, now_ms),
        took(run, now_ms),
        run.executor_address or "",
        "" if run.shard_total <= 1 else f"{run.shard_index}/{run.shard_total}",
        str(run.attempt + 1),
        (run.handle_msg or "").strip().partition("\n")[0],
    )


def run_facts(run: AnyRow, *, now_ms: int, zone: ZoneInfo) -> dict[str, str]:
    """Return everything about a run but its texts of several lines, in words."""
    times = {
        "tick": run.scheduled_at,
        "due": run.due_at,
        "routed": run.routed_at,
        "sent": run.sent_at,
        "started": run.started_at,
        "finished": run.finished_at,
        "kill asked for": run.kill_requested_at,
    }
    return {
        "run": str(run.id),
        "job": f"{run.app}/{job_name(run)}",
        "kind": run.kind,
        "status": run.status,
        "reported later": run.late_status or "",
        "shard": f"{run.shard_index} of {run.shard_total}" if run.shard_total else "not made yet",
        "attempt": str(run.attempt + 1),
        "address": run.executor_address or "",
        "handler": run.executor_handler or "",
        "script": f"version {run.glue_id}" if run.glue_id else "",
        "param": run.executor_param or "",
        "took": took(run, now_ms),
    } | {
        name: f"{local(at, zone)}  ({relative(at, now_ms)})" if at else ""
        for name, at in times.items()
    }


def job_name(run: AnyRow) -> str:
    """Return the name of a run's job, which may be gone."""
    return run.job or f"(deleted job {run.job_id})"


def took(run: AnyRow, now_ms: int) -> str:
    """Return how long a run's process worked, until now when it still does."""
    if not run.started_at or (run.finished_at and run.finished_at < run.started_at):
        return ""
    if not run.finished_at and run.status != "RUNNING":
        return ""
    seconds = ((run.finished_at or now_ms) - run.started_at) / 1000
    return f"{max(seconds, 0):.2f} s" if seconds < 10 else duration(seconds)  # noqa: PLR2004 - finer below ten
