"""What routes remember of jobs, so that a rotation holds across schedulers and restarts."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.orm import Session

from sql.models import RouteMemory


def lock(session: Session, job_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return the memory of each job that has one, locked until the transaction ends."""
    rows = session.execute(
        select(RouteMemory.job_id, RouteMemory.memory)
        .where(RouteMemory.job_id.in_(list(job_ids)))
        .order_by(RouteMemory.job_id)
        .with_for_update()
    )
    return {row.job_id: json.loads(row.memory) for row in rows}


def store(session: Session, memories: Mapping[int, Mapping[str, Any]]) -> None:
    """Keep what routes remember from now on."""
    if not memories:
        return
    rows = [
        {"job_id": job_id, "memory": json.dumps(memory)}
        for job_id, memory in sorted(memories.items())
    ]
    if session.get_bind().dialect.name == "sqlite":
        replace = sqlite.insert(RouteMemory)
        session.execute(
            replace.on_conflict_do_update(
                index_elements=["job_id"], set_={"memory": replace.excluded.memory}
            ),
            rows,
        )
        return
    insert = mysql.insert(RouteMemory)
    session.execute(insert.on_duplicate_key_update(memory=insert.inserted.memory), rows)
