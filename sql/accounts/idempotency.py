"""Keys that programs send with a trigger: a unique row each, in the transaction of the run."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from sql.batch import insert_unless_there
from sql.models import IdempotencyKey


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentRequest:
    """A request with an idempotency key: its user, the key, and a hash of its body."""

    user_id: int
    key: str
    body_hash: str


def claim(
    session: Session, once: IdempotentRequest, *, run_id: int, now_ms: int, kept_ms: int
) -> IdempotencyKey:
    """Note a run under a key and return what is noted there: this run, or an earlier one.

    Of two transactions at once the second waits for the first at the unique key.
    """
    old = delete(IdempotencyKey).where(
        IdempotencyKey.user_id == once.user_id,
        IdempotencyKey.key == once.key,
        IdempotencyKey.created_at < now_ms - kept_ms,
    )
    session.execute(old, execution_options={"synchronize_session": False})
    row = {
        "user_id": once.user_id,
        "key": once.key,
        "body_hash": once.body_hash,
        "run_id": run_id,
        "created_at": now_ms,
    }
    insert_unless_there(session, IdempotencyKey, [row])
    noted = select(IdempotencyKey).where(
        IdempotencyKey.user_id == once.user_id, IdempotencyKey.key == once.key
    )
    return session.execute(noted).scalar_one()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormKey:
    """A form of the console: who was given it, and what tells it from every other one."""

    user_id: int
    key: str


def claim_many(
    session: Session, form: FormKey, runs: Mapping[str, int], *, now_ms: int
) -> dict[str, int]:
    """Note a run for each thing that a form is about; return what is noted: these or earlier."""
    if not runs:
        return {}
    names = {f"{form.key}:{thing}": thing for thing in runs}
    rows = [
        {
            "user_id": form.user_id,
            "key": name,
            "body_hash": "",
            "run_id": runs[thing],
            "created_at": now_ms,
        }
        for name, thing in names.items()
    ]
    insert_unless_there(session, IdempotencyKey, rows)
    noted = select(IdempotencyKey.key, IdempotencyKey.run_id).where(
        IdempotencyKey.user_id == form.user_id, IdempotencyKey.key.in_(names)
    )
    return {names[key]: run_id for key, run_id in session.execute(noted)}


def clean(session: Session, *, before_ms: int, limit: int = 1_000) -> int:
    """Delete a limited number of old keys; return how many were deleted."""
    old = select(IdempotencyKey.id).where(IdempotencyKey.created_at < before_ms).limit(limit)
    ids = session.execute(old).scalars().all()
    statement = delete(IdempotencyKey).where(IdempotencyKey.id.in_(ids))
    session.execute(statement, execution_options={"synchronize_session": False})
    return len(ids)
