"""Pauses of dispatch, of the whole cluster or of one app.

A pause may end by itself; the database's clock decides whether it is in force. When it has ended
and all runs that it held back are decided, it is settled; the last settled ones are kept for the
audit.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    and_,
    delete,
    exists,
    literal_column,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session

from warren.sql.batch import modify
from warren.sql.models import App, Pause
from warren.sql.registry import cluster
from warren.sql.registry.uptimes import Downtime
from warren.sql.rows import fetch, fetch_one, query

#: The app id of a pause of the whole cluster.
EVERY_APP = 0
#: The most settled pauses that are kept for the audit.
MAX_SETTLED = 1_000
#: The condition on pauses that are in force, or whose runs may still be undecided.
IS_UNSETTLED = Pause.is_settled == 0


class PauseRow(NamedTuple):
    """A pause; `until_at` None = no end."""

    id: int
    app_id: int
    since_at: int
    until_at: int | None
    paused_by: str
    reason: str

    def is_in_force(self, now_ms: int) -> bool:
        """Whether it has not ended."""
        return self.until_at is None or self.until_at > now_ms


class ShownPause(NamedTuple):
    """A pause as shown to users; `app` None = the whole cluster."""

    app_id: int
    app: str | None
    since_at: int
    until_at: int | None
    paused_by: str
    reason: str


def known(session: Session) -> list[PauseRow]:
    """Return the pauses in force, and past ones that may have held back runs still undecided."""
    return fetch(session, PauseRow, query(PauseRow, Pause).where(IS_UNSETTLED).order_by(Pause.id))


def recent(session: Session, now_ms: int) -> list[PauseRow]:
    """Return the stored pauses that have begun, past ones too."""
    begun = query(PauseRow, Pause).where(Pause.since_at <= now_ms).order_by(Pause.id)
    return fetch(session, PauseRow, begun)


def ended(session: Session, now_ms: int) -> list[Downtime]:
    """Return when apps were paused, for all stored pauses that have ended."""
    over = query(PauseRow, Pause).where(Pause.until_at <= now_ms).order_by(Pause.id)
    return held_by_apps(fetch(session, PauseRow, over))


def held_by_apps(pauses: Iterable[PauseRow]) -> list[Downtime]:
    """Return the times of past pauses of apps; the cluster's pauses are in `uptimes`."""
    return [
        Downtime(pause.id, pause.since_at, pause.until_at, pause.app_id)
        for pause in pauses
        if pause.app_id != EVERY_APP and pause.until_at is not None
    ]


def in_force(
    session: Session, now_ms: int, app_ids: Collection[int] | None = None
) -> list[ShownPause]:
    """Return the pauses in force of the cluster and of apps, the cluster's first.

    `app_ids` None = all apps.
    """
    shown = query(ShownPause, Pause, app=App.name).outerjoin(App, App.id == Pause.app_id)
    shown = shown.where(_is_in_force(now_ms)).order_by(Pause.app_id != EVERY_APP, App.name)
    if app_ids is not None:
        shown = shown.where(Pause.app_id.in_({EVERY_APP, *app_ids}))
    return fetch(session, ShownPause, shown)


def of(session: Session, app_id: int, now_ms: int) -> PauseRow | None:
    """Return the pause in force of an app, or of the cluster; None if there is none."""
    pauses = query(PauseRow, Pause).where(Pause.app_id == app_id, _is_in_force(now_ms))
    return fetch_one(session, PauseRow, pauses.order_by(Pause.id.desc()).limit(1))


def lock(session: Session) -> None:
    """Lock out other pauses and resumes, so that nothing is paused twice."""
    cluster.lock(session)


def begin(
    session: Session, app_id: int, *, now_ms: int, until_ms: int | None, by: str, reason: str
) -> None:
    """Pause an app, or the cluster; it must not be paused already."""
    pause = Pause(app_id=app_id, since_at=now_ms, until_at=until_ms, paused_by=by, reason=reason)
    session.add(pause)
    session.flush()


def change(session: Session, pause_id: int, *, until_ms: int | None, reason: str) -> None:
    """Change the end and reason of a pause."""
    changed = update(Pause).where(Pause.id == pause_id)
    modify(session, changed.values(until_at=until_ms, reason=reason))


def end(session: Session, app_id: int, *, now_ms: int) -> bool:
    """End the pause of an app, or of the cluster; return False if none is in force."""
    ended = update(Pause).where(Pause.app_id == app_id, _is_in_force(now_ms))
    return modify(session, ended.values(until_at=now_ms)) > 0


def settle(session: Session, pause_ids: Collection[int], *, kept: int = MAX_SETTLED) -> None:
    """Record that all runs these pauses held back are decided; keep only the last settled ones."""
    settled = update(Pause).where(Pause.id.in_(pause_ids)).values(is_settled=1)
    modify(session, settled)
    newest = select(Pause.id).where(Pause.is_settled == 1).order_by(Pause.id.desc())
    surplus_id = session.execute(newest.offset(kept).limit(1)).scalar_one_or_none()
    if surplus_id is not None:
        modify(session, delete(Pause).where(Pause.is_settled == 1, Pause.id <= surplus_id))


def forget_app(session: Session, app_id: int) -> None:
    """Delete the pauses of an app that is being deleted."""
    modify(session, delete(Pause).where(Pause.app_id == app_id))


def is_not_paused(app_id: int, now_ms: int) -> str:
    """Return the SQL condition that neither the cluster nor the app is paused."""
    return _IS_NOT_PAUSED.format(app_id=app_id, now_ms=now_ms)


def _is_in_force(now_ms: int | ColumnElement[int]) -> ColumnElement[bool]:
    return and_(IS_UNSETTLED, or_(Pause.until_at.is_(None), Pause.until_at > now_ms))


def _is_not_paused() -> str:
    app_id: ColumnElement[int] = literal_column("{app_id:d}")
    now_ms: ColumnElement[int] = literal_column("{now_ms:d}")
    is_paused = exists().where(Pause.app_id.in_([EVERY_APP, app_id]), _is_in_force(now_ms))
    return str(not_(is_paused).compile(compile_kwargs={"literal_binds": True}))


#: The form of `is_not_paused`. Built once, because each claim of due runs uses it.
_IS_NOT_PAUSED = _is_not_paused()
