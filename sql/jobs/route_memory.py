"""What routes remember about jobs, so that a rotation continues across schedulers and restarts."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore
from warren.sql.dialects.supported import of
from warren.sql.models import RouteMemory


def lock(session: Session, job_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return the memory of each job, locked until the transaction ends; empty for a new job.

    A missing row is inserted, so that two schedulers with the first runs of a job wait for each
    other.
    """
    wanted = sorted(set(job_ids))
    memories = _lock(session, wanted)
    missing = [job_id for job_id in wanted if job_id not in memories]
    if missing:
        empty = [{"job_id": job_id, "memory": "{}"} for job_id in missing]
        insert_or_ignore(session, RouteMemory, empty, key="job_id")
        memories |= _lock(session, missing)
    return memories


def store(session: Session, memories: Mapping[int, Mapping[str, Any]]) -> None:
    """Store what routes remember from now on."""
    if not memories:
        return
    rows = [
        {"job_id": job_id, "memory": json.dumps(memory)}
        for job_id, memory in sorted(memories.items())
    ]
    replace = of(session).insert_or_replace(RouteMemory, RouteMemory.job_id, RouteMemory.memory)
    session.execute(replace, rows)


def _lock(session: Session, job_ids: list[int]) -> dict[int, dict[str, Any]]:
    rows = session.execute(
        select(RouteMemory.job_id, RouteMemory.memory)
        .where(RouteMemory.job_id.in_(job_ids))
        .order_by(RouteMemory.job_id)
        .with_for_update()
    )
    return {job_id: json.loads(memory) for job_id, memory in rows}
