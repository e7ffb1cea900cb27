"""Alarms as people see them: lists, and what people do about undelivered ones."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, exists, func, not_, or_, select, update
from sqlalchemy.orm import Session

from warren.sql.alarms.alarms import TEST, AlarmStatus, RunAlarm
from warren.sql.batch import chunks, modify
from warren.sql.models import Alarm, App, Job, Run
from warren.sql.rows import fetch, query

#: An alarm that waits this long to be sent counts as undelivered: no process can send it.
LATE_MS = 60_000
#: Undelivered alarms are counted up to this number.
MAX_COUNTED = 1_000


class AlarmState(StrEnum):
    """The states that users filter by; each covers several statuses."""

    UNDELIVERED = "undelivered"
    WAITING = "waiting"
    HELD = "held"
    DELIVERED = "delivered"
    DISMISSED = "dismissed"


_STATUSES = {
    AlarmState.UNDELIVERED: (AlarmStatus.GIVEN_UP, AlarmStatus.READY),
    AlarmState.WAITING: (AlarmStatus.NEW, AlarmStatus.READY),
    AlarmState.HELD: (AlarmStatus.HELD, AlarmStatus.TOLD),
    AlarmState.DELIVERED: (AlarmStatus.SENT,),
    AlarmState.DISMISSED: (AlarmStatus.DISMISSED,),
}
#: READY is undelivered once it is late.
_STATES = {status: state for state, several in _STATUSES.items() for status in several}


class ListedAlarm(NamedTuple):
    """An alarm as shown to users; `app` and `job` are None if deleted."""

    id: int
    app: str | None
    job: str | None
    job_id: int
    run_id: int
    channel: str
    target: str
    status: str
    content: str
    created_at: int
    next_try_at: int
    tries: int
    sent_at: int | None
    answer: str | None
    error: str | None

    def state(self, now_ms: int) -> AlarmState:
        """Return the state that users see."""
        is_late = self.error is not None or self.created_at < now_ms - LATE_MS
        if self.status == AlarmStatus.READY and is_late:
            return AlarmState.UNDELIVERED
        return _STATES[AlarmStatus(self.status)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmFilter:
    """Which alarms to list.

    Both `statuses` and `state` limit the list; empty and None = all. `app_ids` and `job_ids` are
    what the viewer may see, None = all; `app_id`, `job_id`, `job_name` and `alarm_id` are what they
    ask for. `before_id` continues a listing after its last alarm.
    """

    limit: int
    statuses: Sequence[AlarmStatus] = ()
    state: AlarmState | None = None
    app_ids: Collection[int] | None = None
    job_ids: Collection[int] | None = None
    app_id: int | None = None
    job_id: int | None = None
    job_name: str | None = None
    alarm_id: int | None = None
    before_id: int | None = None


def listing(session: Session, wanted: AlarmFilter, *, now_ms: int) -> list[ListedAlarm]:
    """Return alarms with the names of job and app, newest first."""
    listed = (
        query(ListedAlarm, Alarm, app=App.name, job=Job.name)
        .join(App, App.id == Alarm.app_id, isouter=True)
        .join(Job, Job.id == Alarm.job_id, isouter=True)
        .where(*_conditions(wanted, now_ms))
        .order_by(Alarm.id.desc())
        .limit(wanted.limit)
    )
    return fetch(session, ListedAlarm, listed)


def by_ids(session: Session, ids: Sequence[int]) -> list[ListedAlarm]:
    """Return these alarms in the order of their ids."""
    listed = (
        query(ListedAlarm, Alarm, app=App.name, job=Job.name)
        .join(App, App.id == Alarm.app_id, isouter=True)
        .join(Job, Job.id == Alarm.job_id, isouter=True)
        .where(Alarm.id.in_(ids))
        .order_by(Alarm.id)
    )
    return fetch(session, ListedAlarm, listed)


def ids_of_subject(session: Session, subject_key: str) -> list[int]:
    """Return the alarms about a subject, one for each target, in order."""
    about = select(Alarm.id).where(Alarm.subject_key == subject_key).order_by(Alarm.id)
    return list(session.execute(about).scalars())


def count_undelivered(session: Session, app_ids: Collection[int] | None, now_ms: int) -> int:
    """Count these apps' undelivered alarms, up to MAX_COUNTED.

    Webhook calls at the end of runs count too, tests do not.
    """
    wanted = AlarmFilter(limit=MAX_COUNTED, state=AlarmState.UNDELIVERED, app_ids=app_ids)
    undelivered = (
        select(Alarm.id)
        .where(*_conditions(wanted, now_ms), Alarm.subject_key.not_like(f"{TEST}%"))
        .limit(MAX_COUNTED)
        .subquery()
    )
    return session.execute(select(func.count()).select_from(undelivered)).scalar_one()


def count_tests(session: Session, *, since_ms: int) -> int:
    """Return how many tests were sent since an instant."""
    recent = select(func.count()).where(
        Alarm.subject_key.like(f"{TEST}%"), Alarm.created_at >= since_ms
    )
    return session.execute(recent).scalar_one()


def lock_undelivered(session: Session, wanted: AlarmFilter, *, now_ms: int) -> Sequence[Alarm]:
    """Lock undelivered alarms, oldest first, so that no one else sends or gives them up."""
    chosen = (
        select(Alarm)
        .where(*_conditions(wanted, now_ms), is_undelivered(now_ms))
        .order_by(Alarm.id)
        .limit(wanted.limit)
        .with_for_update()
    )
    return session.execute(chosen).scalars().all()


def send_again(session: Session, alarms: Iterable[Alarm], *, now_ms: int) -> None:
    """Have undelivered alarms sent now; one that has been tried for a day gets one more try."""
    for chunk in chunks(sorted(alarm.id for alarm in alarms)):
        again = update(Alarm).where(Alarm.id.in_(chunk))
        modify(session, again.values(status=AlarmStatus.READY, next_try_at=now_ms))


def dismiss(session: Session, alarms: Iterable[Alarm], *, now_ms: int) -> None:
    """Stop sending these alarms, and stop counting them as undelivered."""
    for chunk in chunks(sorted(alarm.id for alarm in alarms)):
        statement = update(Alarm).where(Alarm.id.in_(chunk))
        modify(session, statement.values(status=AlarmStatus.DISMISSED, next_try_at=now_ms))


def reopen_runs(session: Session, run_ids: Iterable[int]) -> None:
    """Unmark runs whose alarm was given up, unless another alarm of the run still is."""
    has_given_up = exists().where(
        Alarm.job_id == Run.job_id,
        Alarm.run_id == Run.id,
        Alarm.status == AlarmStatus.GIVEN_UP,
    )
    for chunk in chunks(sorted(set(run_ids))):
        given_up = update(Run).where(
            Run.id.in_(chunk), Run.alarm_status == RunAlarm.GIVEN_UP, not_(has_given_up)
        )
        modify(session, given_up.values(alarm_status=RunAlarm.NONE))


def is_undelivered(now_ms: int) -> ColumnElement[bool]:
    """Return the condition on alarms that were given up, failed, or that no process sends."""
    is_late = or_(Alarm.error.is_not(None), Alarm.created_at < now_ms - LATE_MS)
    return or_(
        Alarm.status == AlarmStatus.GIVEN_UP, and_(Alarm.status == AlarmStatus.READY, is_late)
    )


def _conditions(wanted: AlarmFilter, now_ms: int) -> list[ColumnElement[bool]]:
    limits: tuple[tuple[Any, Any], ...] = (
        (Alarm.status.in_, wanted.statuses or None),
        (Alarm.status.in_, wanted.state and _STATUSES[wanted.state]),
        (Alarm.app_id.in_, wanted.app_ids),
        (Alarm.job_id.in_, wanted.job_ids),
        (Alarm.app_id.__eq__, wanted.app_id),
        (Alarm.job_id.__eq__, wanted.job_id),
        (Alarm.id.__eq__, wanted.alarm_id),
        (Alarm.id.__lt__, wanted.before_id),
    )
    conditions = [condition(value) for condition, value in limits if value is not None]
    if wanted.job_name is not None:
        named = select(Job.id).where(Job.name == wanted.job_name)
        conditions.append(Alarm.job_id.in_(named))
    if wanted.state is AlarmState.UNDELIVERED:
        conditions.append(is_undelivered(now_ms))
    elif wanted.state is AlarmState.WAITING:
        conditions.append(not_(is_undelivered(now_ms)))
    return conditions
