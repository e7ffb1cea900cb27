"""The registry: which executors and schedulers there are, and who holds an address."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import CursorResult, delete, func, select, update
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.orm import Session

from sql.instants import at
from sql.models import Registration

EXECUTOR = "EXECUTOR"
ADMIN = "ADMIN"
#: Keys within ADMIN.
SCHEDULER = "scheduler"
CONSOLE = "console"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A sign of life of an executor or a scheduler."""

    group: str
    key: str
    address: str
    boot_id: str
    beat_at: int
    load: str = ""
    draining: bool = False


def hold(session: Session, beat: Beat) -> str:
    """Register an address for a boot unless another boot holds it; return the holder's boot id."""
    session.execute(_insert_unless_there(session, beat))
    return session.execute(
        select(Registration.boot_id).where(*_is(beat.group, beat.key, beat.address))
    ).scalar_one()


def holder(session: Session, group: str, key: str, address: str) -> str | None:
    """Return the boot id that holds an address, None when nobody does."""
    return session.execute(
        select(Registration.boot_id).where(*_is(group, key, address))
    ).scalar_one_or_none()


def supersede(session: Session, beat: Beat, *, old_boot_id: str) -> bool:
    """Give an address to a new boot; False when another scheduler decided first."""
    return _changed(
        session,
        update(Registration)
        .where(*_is(beat.group, beat.key, beat.address), Registration.boot_id == old_boot_id)
        .values(
            boot_id=beat.boot_id,
            boot_at=beat.beat_at,
            beat_at=beat.beat_at,
            load=beat.load,
            draining=int(beat.draining),
            drain_asked_at=0,
            update_time=at(beat.beat_at),
        ),
    )


def renew(session: Session, beat: Beat) -> bool:
    """Record a sign of life of the boot that holds its address."""
    return _changed(
        session,
        update(Registration)
        .where(
            *_is(beat.group, beat.key, beat.address),
            Registration.boot_id == beat.boot_id,
            Registration.beat_at < beat.beat_at,
        )
        .values(
            beat_at=beat.beat_at,
            load=beat.load,
            draining=int(beat.draining),
            update_time=at(beat.beat_at),
        ),
    )


def leave(session: Session, group: str, key: str, address: str, boot_id: str) -> bool:
    """Remove the registration of a boot that is over."""
    return _changed(
        session,
        delete(Registration).where(*_is(group, key, address), Registration.boot_id == boot_id),
    )


def forget_schedulers(session: Session, *, before_ms: int) -> None:
    """Remove schedulers that were last heard before an instant."""
    session.execute(
        delete(Registration).where(
            Registration.registry_group == ADMIN, Registration.beat_at < before_ms
        ),
        execution_options={"synchronize_session": False},
    )


def listing(session: Session, group: str, key: str | None = None) -> Sequence[Registration]:
    """Return the registrations of a group, or only those of one key, by key and address."""
    statement = select(Registration).where(Registration.registry_group == group)
    if key is not None:
        statement = statement.where(Registration.registry_key == key)
    in_order = statement.order_by(Registration.registry_key, Registration.registry_value)
    return session.execute(in_order).scalars().all()


def last_heard(session: Session) -> dict[str, int]:
    """Return, by app, when any scheduler last heard an executor that takes triggers."""
    rows = session.execute(
        select(Registration.registry_key, func.max(Registration.beat_at).label("beat_at"))
        .where(Registration.registry_group == EXECUTOR, Registration.draining == 0)
        .group_by(Registration.registry_key)
    )
    return {row.registry_key: row.beat_at for row in rows}


def _is(group: str, key: str, address: str) -> tuple[Any, ...]:
    return (
        Registration.registry_group == group,
        Registration.registry_key == key,
        Registration.registry_value == address,
    )


def _insert_unless_there(session: Session, beat: Beat) -> Any:
    row = {
        "registry_group": beat.group,
        "registry_key": beat.key,
        "registry_value": beat.address,
        "boot_id": beat.boot_id,
        "boot_at": beat.beat_at,
        "beat_at": beat.beat_at,
        "load": beat.load,
        "draining": int(beat.draining),
        "update_time": at(beat.beat_at),
    }
    if session.get_bind().dialect.name == "sqlite":
        return sqlite.insert(Registration).values(row).on_conflict_do_nothing()
    return mysql.insert(Registration).values(row).on_duplicate_key_update(id=Registration.id)


def _changed(session: Session, statement: Any) -> bool:
    result = session.execute(statement, execution_options={"synchronize_session": False})
    return cast("CursorResult[Any]", result).rowcount > 0
