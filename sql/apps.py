"""Apps: the named groups that executors register under."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.orm import Session

from sql.errors import NotFound
from sql.models import App

#: `address_type` of an app whose executors register themselves, and of one with a list of its own.
AUTOMATIC, MANUAL = 0, 1


def ids_by_name(session: Session) -> dict[str, int]:
    """Return every app's id by its name."""
    return {app.app_name: app.id for app in session.execute(select(App.app_name, App.id))}


def listed(session: Session) -> dict[int, tuple[str, ...]]:
    """Return, by id, the addresses of each app that has a list of its own, in its order."""
    rows = session.execute(select(App.id, App.address_list).where(App.address_type == MANUAL))
    return {row.id: addresses for row in rows if (addresses := split(row.address_list))}


def split(address_list: str | None) -> tuple[str, ...]:
    """Return the addresses of a list as it is stored."""
    parts = (part.strip() for part in (address_list or "").split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


def find(session: Session, name: str) -> App:
    """Return an app by its name.

    Raises:
        NotFound: there is none.

    """
    app = session.execute(select(App).where(App.app_name == name)).scalar_one_or_none()
    if app is None:
        raise NotFound(f"no app named {name!r}")
    return app


def ensure(session: Session, name: str, title: str | None = None) -> tuple[int, bool]:
    """Return an app's id and whether it was made or its title changed just now."""
    app = session.execute(select(App).where(App.app_name == name)).scalar_one_or_none()
    if app is None:
        session.execute(_insert_unless_there(session, name, title or name))
        return find(session, name).id, True
    if title is None or app.title == title:
        return app.id, False
    app.title = title
    app.update_time = _now()
    session.flush()
    return app.id, True


def list_addresses(session: Session, app_id: int, addresses: Sequence[str]) -> bool:
    """Give an app a list of its own, none = its executors register; False when it is so already."""
    app = session.get_one(App, app_id)
    address_type = MANUAL if addresses else AUTOMATIC
    if (app.address_type, split(app.address_list)) == (address_type, tuple(addresses)):
        return False
    app.address_type, app.address_list = address_type, ",".join(addresses) or None
    app.update_time = _now()
    session.flush()
    return True


def _insert_unless_there(session: Session, name: str, title: str) -> Any:
    row = {"app_name": name, "title": title, "address_type": 0, "update_time": _now()}
    if session.get_bind().dialect.name == "sqlite":
        return sqlite.insert(App).values(row).on_conflict_do_nothing()
    return mysql.insert(App).values(row).on_duplicate_key_update(app_name=App.app_name)


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)
