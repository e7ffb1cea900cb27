"""Apps: the named groups under which executors register."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Insert, exists, or_, select
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ColumnElement

from warren.sql.dialects.supported import of
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.models import App, Job
from warren.sql.models.job_tables import Priority
from warren.sql.rows import fetch, query

#: Two ranges of an index; `<>` might read all of it.
_IS_NOT_NORMAL = or_(Job.priority < Priority.NORMAL, Job.priority > Priority.NORMAL)


class PriorityOfJob(NamedTuple):
    """A job with its app and its priority."""

    id: int
    app_id: int
    priority: str


def has_unusual_priority() -> ColumnElement[bool]:
    """Return the condition that an app has such a job."""
    return exists().where(Job.app_id == App.id, _IS_NOT_NORMAL)


def not_normal(session: Session) -> list[PriorityOfJob]:
    """Return all such jobs."""
    return fetch(session, PriorityOfJob, query(PriorityOfJob, Job).where(_IS_NOT_NORMAL))


#: `address_type` of an app whose executors register themselves, and of one with an address list.
AUTOMATIC, MANUAL = 0, 1


def ids_by_name(session: Session, app_ids: Collection[int] | None = None) -> dict[str, int]:
    """Return the ids of apps by name, sorted; `app_ids` None = all."""
    statement = select(App.name, App.id).order_by(App.name)
    if app_ids is not None:
        statement = statement.where(App.id.in_(app_ids))
    return dict(session.execute(statement).all())


class RoutingSettings(NamedTuple):
    """The settings of an app that routing uses; no addresses = its executors register themselves.

    `route` is that of jobs that name none; empty = the default. `has_priorities` says whether some
    jobs go before others.
    """

    addresses: tuple[str, ...]
    route: str
    has_priorities: bool = False


def routing_settings(session: Session) -> dict[int, RoutingSettings]:
    rows = session.execute(
        select(App.id, App.address_type, App.address_list, App.route, has_unusual_priority())
    )
    return {
        app_id: RoutingSettings(split(text) if kind == MANUAL else (), route or "", bool(ranked))
        for app_id, kind, text, route, ranked in rows
    }


def listed(session: Session) -> dict[int, tuple[str, ...]]:
    """Return the address lists of apps that have one, by app id."""
    rows = session.execute(select(App.id, App.address_list).where(App.address_type == MANUAL))
    return {app_id: addresses for app_id, text in rows if (addresses := split(text))}


def listed_by_name(
    session: Session, app_ids: Collection[int] | None = None
) -> dict[str, tuple[str, ...]]:
    """Return the address lists of apps by name; `app_ids` None = all."""
    lists = listed(session)
    return {
        name: lists[app_id]
        for name, app_id in ids_by_name(session, app_ids).items()
        if app_id in lists
    }


def split(address_list: str | None) -> tuple[str, ...]:
    """Return the addresses of a stored list."""
    parts = (part.strip() for part in (address_list or "").split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


def find(session: Session, name: str, app_ids: Collection[int] | None = None) -> App:
    """Return an app by name, among these ids; None = among all apps.

    Raises:
        NotFound: there is no such app.

    """
    app = session.execute(select(App).where(App.name == name)).scalar_one_or_none()
    if app is None or not (app_ids is None or app.id in app_ids):
        raise NotFound(LookupFailure.NO_APP_NAMED, name=name)
    return app


def id_named(session: Session, name: str) -> int:
    """Return an app's id; 0 if there is no such app."""
    return session.execute(select(App.id).where(App.name == name)).scalar_one_or_none() or 0


def lock(session: Session, name: str) -> App | None:
    """Lock and return an app by name; None if there is none."""
    statement = select(App).where(App.name == name).with_for_update()
    return session.execute(statement).scalar_one_or_none()


def ensure(session: Session, name: str, title: str | None = None) -> tuple[int, bool]:
    """Add an app or change its title; return its id, and whether anything changed.

    `title` None = leave the title unchanged; a new app's title is its name.
    """
    app = session.execute(select(App).where(App.name == name)).scalar_one_or_none()
    if app is None:
        session.execute(_insert_or_ignore(session, name, title or name))
        return find(session, name).id, True
    if title is None or app.title == title:
        return app.id, False
    app.title = title
    app.update_time = _now()
    session.flush()
    return app.id, True


def list_addresses(session: Session, app_id: int, addresses: Sequence[str]) -> bool:
    """Set an app's address list; empty = its executors register. Return False if unchanged."""
    app = session.get_one(App, app_id)
    address_type = MANUAL if addresses else AUTOMATIC
    if (app.address_type, split(app.address_list)) == (address_type, tuple(addresses)):
        return False
    app.address_type, app.address_list = address_type, ",".join(addresses) or None
    app.update_time = _now()
    session.flush()
    return True


def set_route(session: Session, app_id: int, route: str) -> None:
    """Set the route of an app's jobs that name none; empty = the default."""
    app = session.get_one(App, app_id)
    if (app.route or "") != route:
        app.route, app.update_time = route or None, _now()
        session.flush()


def _insert_or_ignore(session: Session, name: str, title: str) -> Insert:
    row = {"name": name, "title": title, "address_type": AUTOMATIC, "update_time": _now()}
    return of(session).insert_or_ignore(App, App.name).values(row)


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


def names(session: Session, app_ids: Iterable[int]) -> dict[int, str]:
    """Return the names of apps by id; those that do not exist are left out."""
    wanted = select(App.id, App.name).where(App.id.in_(sorted(set(app_ids))))
    return dict(session.execute(wanted).all())
