"""Starts many jobs at once that are due at the same time."""

from datetime import UTC, datetime

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from warren.sql.engine import Database
from warren.sql.models import History, Job


def start_all(database: Database, *, now_ms: int, in_seconds: int) -> int:
    """Start all jobs, due at the same full second; return it in epoch milliseconds."""
    at_ms = (now_ms // 1_000 + in_seconds) * 1_000
    schedule = {
        "schedule_kind": "AT",
        "schedule_value": datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(),
    }
    known = {"timezone": "UTC", "misfire": "DO_NOTHING", "changed_by": "test"}
    change = known | schedule | {"changed_at": now_ms, "watermark": now_ms, "anchor": at_ms}
    started = {"is_enabled": 1, "last_tick_at": now_ms, "next_tick_at": at_ms}

    def unit(session: Session) -> None:
        job_ids = session.execute(select(Job.id)).scalars()
        rows = [change | {"job_id": job_id, "enabled": 1} for job_id in job_ids]
        session.execute(insert(History), rows)
        session.execute(update(Job).values(**schedule, **started))

    database.write(unit)
    return at_ms
