"""Idempotency keys of triggers: a unique row each, inserted in the transaction of the run."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore, modify
from warren.sql.models import IdempotencyKey

#: Old keys deleted at once.
CHUNK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentRequest:
    """A request with an idempotency key: its user, the key, and a hash of its body."""

    user_id: int
    key: str
    body_hash: str


def claim(
    session: Session, once: IdempotentRequest, *, run_id: int, now_ms: int, kept_ms: int
) -> IdempotencyKey:
    """Store a run under a key; return the key's row, with this run or an earlier one.

    Of two concurrent transactions, the second waits for the first at the unique key.
    """
    expired = delete(IdempotencyKey).where(
        IdempotencyKey.user_id == once.user_id,
        IdempotencyKey.key == once.key,
        IdempotencyKey.created_at < now_ms - kept_ms,
    )
    modify(session, expired)
    row = {
        "user_id": once.user_id,
        "key": once.key,
        "body_hash": once.body_hash,
        "run_id": run_id,
        "created_at": now_ms,
    }
    insert_or_ignore(session, IdempotencyKey, [row])
    stored = select(IdempotencyKey).where(
        IdempotencyKey.user_id == once.user_id, IdempotencyKey.key == once.key
    )
    return session.execute(stored).scalar_one()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormKey:
    """One form of the console: the user it was made for, and its unique key."""

    user_id: int
    key: str


def claim_many(
    session: Session, form: FormKey, runs: Mapping[str, int], *, now_ms: int
) -> dict[str, int]:
    """Store a run for each item of a form; return the stored runs, these or earlier ones."""
    if not runs:
        return {}
    names = {f"{form.key}:{item}": item for item in runs}
    rows = [
        {
            "user_id": form.user_id,
            "key": name,
            "body_hash": "",
            "run_id": runs[item],
            "created_at": now_ms,
        }
        for name, item in names.items()
    ]
    insert_or_ignore(session, IdempotencyKey, rows)
    stored = select(IdempotencyKey.key, IdempotencyKey.run_id).where(
        IdempotencyKey.user_id == form.user_id, IdempotencyKey.key.in_(names)
    )
    return {names[key]: run_id for key, run_id in session.execute(stored)}


def items_done(session: Session, form: FormKey, items: Collection[str]) -> set[str]:
    """Return the items for which this form has stored a run."""
    names = {f"{form.key}:{item}": item for item in items}
    stored = select(IdempotencyKey.key).where(
        IdempotencyKey.user_id == form.user_id, IdempotencyKey.key.in_(names)
    )
    return {names[key] for key in session.execute(stored).scalars()} if names else set()


def clean(session: Session, *, before_ms: int) -> int:
    """Delete up to CHUNK old keys; return how many were deleted."""
    expired = select(IdempotencyKey.id).where(IdempotencyKey.created_at < before_ms).limit(CHUNK)
    ids = session.execute(expired).scalars().all()
    statement = delete(IdempotencyKey).where(IdempotencyKey.id.in_(ids))
    modify(session, statement)
    return len(ids)
