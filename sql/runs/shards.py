"""Inserts the shards 1 to n-1 of a broadcast, already ROUTED, in the transaction of shard 0."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, inspect, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.explanation import Explanation
from warren.sql.models import Run
from warren.sql.run_status import RunStatus
from warren.sql.runs.status_columns import ENTERED
from warren.sql.updates import modify

_COLUMNS = tuple(one.class_attribute for one in inspect(Run).column_attrs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Shard `index` of the broadcast whose shard 0 is the run `zero_id`, and its executor."""

    zero_id: int
    run_id: int
    index: int
    total: int
    address: str
    boot_id: str
    message: Explanation
    code_version: str | None = None


def number(session: Session, run_id: int, total: int) -> None:
    """Make a claimed run shard 0 of `total`; it must not have been expanded before."""
    numbered = update(Run).where(Run.id == run_id)
    modify(session, numbered.values(shard_total=total, sharding=f"0/{total}"))


def add(session: Session, shards: Sequence[Shard], *, node: str, now_ms: int) -> None:
    """Insert shards as copies of their shard 0, ROUTED by `node`.

    Raises:
        IntegrityError: a shard already exists, which never happens after a claim.

    """
    zeros = _rows(session, {shard.zero_id for shard in shards})
    rows = [_row(zeros[shard.zero_id], shard, node, now_ms) for shard in shards]
    if rows:
        session.execute(insert(Run), rows)


def _rows(session: Session, run_ids: set[int]) -> dict[int, dict[str, Any]]:
    return {
        row.id: dict(row._mapping)  # noqa: SLF001 - public; the underscore avoids clashes with column names
        for chunk in chunks(sorted(run_ids))
        for row in session.execute(select(*_COLUMNS).where(Run.id.in_(chunk)))
    }


def _row(zero: dict[str, Any], shard: Shard, node: str, now_ms: int) -> dict[str, Any]:
    return zero | {
        "id": shard.run_id,
        **ENTERED[RunStatus.ROUTED],
        "shard_index": shard.index,
        "shard_total": shard.total,
        "sharding": f"{shard.index}/{shard.total}",
        "address": shard.address,
        "boot_id": shard.boot_id,
        "code_version": shard.code_version,
        "routed_by": node,
        "routed_at": now_ms,
        "trigger_message": shard.message.text,
        "trigger_why": shard.message.why,
    }
