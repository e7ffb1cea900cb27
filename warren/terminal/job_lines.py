"""Jobs on a terminal: as rows of a table, and in detail."""

from zoneinfo import ZoneInfo

from warren.resources.jobs import JobOverview, ShownJob
from warren.scheduler.jobs.places import words_of
from warren.terminal.output import shown_ago, shown_time

HEADERS = ("name", "app", "schedule", "next", "state", "last run", "last due")


def job_line(job: JobOverview, *, now_ms: int) -> tuple[str, ...]:
    """Return a job as a row of a table with `HEADERS`."""
    return (
        job.name,
        job.app,
        job.schedule,
        shown_ago(job.next_fire_at, now_ms),
        job.state,
        job.last_status or "",
        shown_ago(job.last_due_at, now_ms),
    )


def job_facts(job: ShownJob, *, now_ms: int, zone: ZoneInfo) -> dict[str, str]:
    """Return everything about a job."""
    fire = job.next_fire_at
    return {
        "job": f"{job.app}/{job.name}",
        "id": str(job.id),
        "state": job.state,
        "stopped because": job.stop_reason,
        "schedule": f"{job.schedule}  ({job.timezone})",
        "rule": job.rule,
        "next fire": (
            f"{shown_time(fire, zone)}  ({shown_ago(fire, now_ms)})" if fire else job.waits_for
        ),
        "handler": job.fields["handler"],
        "script": _script(job),
        **job.words,
        "children": ", ".join(job.children),
        "declared in": words_of(job.declared_in),
        "no new runs": "; ".join(reason.message for reason in job.blocked_by),
    }


def _script(job: JobOverview) -> str:
    if job.script_number is None or job.fields["flow"] is not None:
        return ""
    remark = f": {job.fields['script_remark']}" if job.fields["script_remark"] else ""
    return f"{job.fields['script_language']}, version {job.script_number}{remark}"
