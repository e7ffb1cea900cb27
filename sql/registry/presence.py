"""The registry: which executors, schedulers and consoles exist, and which boot holds an address.

A process's state follows from its last heartbeat. Drain requests are stored in the registration of
an executor's boot. Addresses whose last executor said goodbye are remembered for as long as their
run queues are there. Schedulers and consoles are named after their host, with a suffix that is new
at each start.

What executors can run is stored by fingerprint, which their registrations name; their load from
heartbeats in a row for each minute and executor.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Insert, and_, bindparam, delete, func, or_, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore, modify
from warren.sql.dialects.supported import of
from warren.sql.errors import Ambiguous, LookupFailure, NotFound
from warren.sql.instants import AHEAD_MS, at
from warren.sql.models import App, ExecutorLoad, Registration, StoredCatalogue
from warren.sql.rows import fetch, query

#: How much of the host's name and of the boot id is in a process's name, in characters.
_HOST_LENGTH = 48
_SUFFIX_LENGTH = 6


def process_name(host: str, boot_id: str) -> str:
    """Return the name of a scheduler or console: its host and the beginning of its boot id."""
    return f"{host[:_HOST_LENGTH]}-{boot_id[:_SUFFIX_LENGTH]}"


def is_of_host(name: str, host: str) -> bool:
    """Whether a process runs on this host; `web-2-…` does not run on `web`."""
    return name.rpartition("-")[0] == host[:_HOST_LENGTH]


EXECUTOR = "EXECUTOR"
ADMIN = "ADMIN"
#: What registrations of kind ADMIN have in place of an app.
SCHEDULER = "scheduler"
CONSOLE = "console"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat of an executor, a scheduler or a console.

    `account` is the broker's account that sent it; None where that makes no difference. `catalogue`
    is the fingerprint of what an executor can run.
    """

    kind: str
    app: str
    address: str
    boot_id: str
    beat_at: int
    load: str = ""
    draining: bool = False
    account: str | None = None
    catalogue: str = ""


def hold(session: Session, beat: Beat) -> str:
    """Register an address for a boot, unless another boot holds it; return the holder's boot id."""
    session.execute(_insert_or_ignore(session, beat))
    return session.execute(
        select(Registration.boot_id).where(*_is(beat.kind, beat.app, beat.address))
    ).scalar_one()


def holder(session: Session, kind: str, app: str, address: str) -> str | None:
    """Return the id of the boot that holds an address; None if there is none."""
    return session.execute(
        select(Registration.boot_id).where(*_is(kind, app, address))
    ).scalar_one_or_none()


def last_beat(session: Session, kind: str, app: str, address: str) -> tuple[str, int] | None:
    """Return the boot that holds an address, and when it was last seen; None if there is none."""
    row = session.execute(
        select(Registration.boot_id, Registration.beat_at).where(*_is(kind, app, address))
    ).one_or_none()
    return None if row is None else (row.boot_id, row.beat_at)


def claim(session: Session, beat: Beat) -> str | None:
    """Assign the sending account to a boot that has none; return the boot's account.

    None if the boot does not hold its address.
    """
    held = (*_is(beat.kind, beat.app, beat.address), Registration.boot_id == beat.boot_id)
    unclaimed = update(Registration).where(*held, Registration.account.is_(None))
    modify(session, unclaimed.values(account=beat.account))
    return account(session, beat.kind, beat.app, beat.address, beat.boot_id)


def account(session: Session, kind: str, app: str, address: str, boot_id: str) -> str | None:
    """Return the account that speaks for a boot; None if it is not known or holds no address."""
    return session.execute(
        select(Registration.account).where(
            *_is(kind, app, address), Registration.boot_id == boot_id
        )
    ).scalar_one_or_none()


def supersede(session: Session, beat: Beat, *, old_boot_id: str) -> bool:
    """Give an address to a new boot; return False if another scheduler has changed it first."""
    superseded = (
        update(Registration)
        .where(*_is(beat.kind, beat.app, beat.address), Registration.boot_id == old_boot_id)
        .values(
            boot_id=beat.boot_id,
            boot_at=beat.beat_at,
            beat_at=beat.beat_at,
            load=beat.load,
            draining=int(beat.draining),
            drain_asked_at=0,
            account=beat.account,
            catalogue=beat.catalogue,
            update_time=at(beat.beat_at),
        )
    )
    return modify(session, superseded) > 0


def renew(session: Session, beat: Beat) -> bool:
    """Store a heartbeat; return False if another boot holds the address or it is not newer.

    After the clock was set back, an earlier one counts as newer.
    """
    # Bypasses the ORM, which would take longer than the statement.
    renewed: Any = session.connection().execute(RENEWAL, renewal(beat))
    return bool(renewed.rowcount)


def renewal(beat: Beat) -> dict[str, Any]:
    """Return the parameters of `RENEWAL`."""
    values = asdict(beat) | {"draining": int(beat.draining), "updated": at(beat.beat_at)}
    del values["account"]  # it stays as it is
    return {f"its_{name}": value for name, value in values.items()}


def leave(
    session: Session,
    kind: str,
    app: str,
    address: str,
    boot_id: str,
    *,
    account: str | None = None,
) -> bool:
    """Delete the registration of a boot that has ended; return False if it had none.

    With `account`, only if no other account speaks for the boot.
    """
    held = [*_is(kind, app, address), Registration.boot_id == boot_id]
    if account is not None:
        held.append(or_(Registration.account.is_(None), Registration.account == account))
    return modify(session, delete(Registration).where(*held)) > 0


def schedulers_alive(session: Session) -> int:
    """Return how many schedulers sent a heartbeat shortly before the newest one."""
    beats = select(Registration.beat_at).where(
        Registration.kind == ADMIN, Registration.app == SCHEDULER
    )
    heard = session.execute(beats).scalars().all()
    return sum(beat > max(heard) - SCHEDULER_ALIVE_MS for beat in heard)


def forget_schedulers(session: Session, *, before_ms: int) -> None:
    """Delete schedulers and consoles whose last heartbeat was before an instant."""
    old = (Registration.kind == ADMIN, Registration.beat_at < before_ms)
    modify(session, delete(Registration).where(*old))


def listing(session: Session, kind: str, app: str | None = None) -> Sequence[Registration]:
    """Return the registrations of a kind, or of one app in it, sorted by app and address."""
    statement = select(Registration).where(Registration.kind == kind)
    if app is not None:
        statement = statement.where(Registration.app == app)
    in_order = statement.order_by(Registration.app, Registration.address)
    return session.execute(in_order).scalars().all()


#: Built once, because each trigger of a typed handler executes it.
_CATALOGUES_ONLINE = (
    select(Registration.app, Registration.catalogue)
    .where(
        Registration.kind == EXECUTOR,
        Registration.app.in_(bindparam("its_apps", expanding=True)),
        Registration.beat_at >= bindparam("since"),
    )
    .distinct()
)


def catalogues_online(
    session: Session, apps: Collection[str], *, now_ms: int
) -> Sequence[tuple[str, str | None]]:
    """Return app and catalogue of each executor of these apps that is online, each pair once."""
    wanted = {"its_apps": sorted(apps), "since": now_ms - EXECUTOR_ALIVE_MS}
    rows = session.connection().execute(_CATALOGUES_ONLINE, wanted)
    return [(app, catalogue) for app, catalogue in rows]


def executor_id(
    session: Session,
    address: str,
    app: str | None = None,
    app_ids: Collection[int] | None = None,
) -> int:
    """Return the id of an executor's registration; `app_ids` None = in all apps.

    Raises:
        NotFound: no executor with this address has registered.
        Ambiguous: several apps have an executor with this address.

    """
    statement = select(Registration.id, Registration.app).where(
        Registration.kind == EXECUTOR, Registration.address == address
    )
    if app is not None:
        statement = statement.where(Registration.app == app)
    if app_ids is not None:
        statement = statement.where(
            Registration.app.in_(select(App.name).where(App.id.in_(app_ids)))
        )
    rows = session.execute(statement).all()
    if not rows:
        raise NotFound(LookupFailure.NO_EXECUTOR_AT, address=address)
    if len(rows) > 1:
        names = ", ".join(sorted(f"{row.app}/{address}" for row in rows))
        raise Ambiguous(LookupFailure.SEVERAL_EXECUTORS_AT, address=address, names=names)
    return int(rows[0].id)


def lock_executor(session: Session, registration_id: int) -> Registration | None:
    """Lock and return the registration of an executor; None if there is none."""
    return session.execute(
        select(Registration)
        .where(Registration.id == registration_id, Registration.kind == EXECUTOR)
        .with_for_update()
    ).scalar_one_or_none()


def last_heard(session: Session) -> dict[str, int]:
    """Return the last heartbeat of an executor that is not draining, by app."""
    rows = session.execute(
        select(Registration.app, func.max(Registration.beat_at))
        .where(Registration.kind == EXECUTOR, Registration.draining == 0)
        .group_by(Registration.app)
    )
    return dict(rows.all())


def _is(kind: Any, app: Any, address: Any) -> tuple[Any, ...]:
    return (
        Registration.kind == kind,
        Registration.app == app,
        Registration.address == address,
    )


def _insert_or_ignore(session: Session, beat: Beat) -> Insert:
    row = {
        "kind": beat.kind,
        "app": beat.app,
        "address": beat.address,
        "boot_id": beat.boot_id,
        "boot_at": beat.beat_at,
        "beat_at": beat.beat_at,
        "load": beat.load,
        "draining": int(beat.draining),
        "account": beat.account,
        "catalogue": beat.catalogue,
        "update_time": at(beat.beat_at),
    }
    return of(session).insert_or_ignore(Registration, Registration.id).values(row)


#: The statement of `renew`. Built once, because schedulers execute it twice a second.
RENEWAL = (
    update(Registration)
    .where(
        *_is(bindparam("its_kind"), bindparam("its_app"), bindparam("its_address")),
        Registration.boot_id == bindparam("its_boot_id"),
        or_(
            Registration.beat_at < bindparam("its_beat_at"),
            Registration.beat_at - AHEAD_MS > bindparam("its_beat_at"),
        ),
    )
    .values(
        beat_at=bindparam("its_beat_at"),
        load=bindparam("its_load"),
        draining=bindparam("its_draining"),
        catalogue=bindparam("its_catalogue"),
        update_time=bindparam("its_updated"),
    )
)


DEPARTED = "DEPARTED"


def note(session: Session, app: str, address: str, now_ms: int) -> None:
    """Record that the executor at an address has said goodbye."""
    beat = Beat(kind=DEPARTED, app=app, address=address, boot_id="", beat_at=now_ms)
    hold(session, beat)
    renew(session, beat)


def read(session: Session) -> dict[tuple[str, str], int]:
    """Return when the executor at each (app, address) said goodbye, in epoch milliseconds."""
    return {(row.app, row.address): row.beat_at for row in listing(session, DEPARTED)}


def is_known(session: Session, app: str, address: str) -> bool:
    return holder(session, DEPARTED, app, address) is not None


def count_addresses(session: Session, app: str) -> int:
    """Return how many addresses of an app have a run queue, departed ones included.

    Those that somebody has forgotten do not count: their queues are about to be deleted.
    """
    has_departed = and_(Registration.kind == DEPARTED, Registration.beat_at > 0)
    of_app = (or_(Registration.kind == EXECUTOR, has_departed), Registration.app == app)
    return session.execute(
        select(func.count(Registration.address.distinct())).where(*of_app)
    ).scalar_one()


def forget(session: Session, app: str, address: str) -> None:
    """Forget that an executor has said goodbye: its queue is gone, or is another executor's."""
    leave(session, DEPARTED, app, address, "")


#: The conditions on registrations with a drain request.
IS_REQUESTED = (Registration.kind == EXECUTOR, Registration.drain_asked_at > 0)


class DrainingBoot(NamedTuple):
    """A boot with a drain request."""

    app: str
    address: str
    boot_id: str


def request(session: Session, row: Registration, now_ms: int) -> bool:
    """Store a drain request in a locked registration; return False if there is one already."""
    if row.drain_asked_at:
        return False
    row.drain_asked_at = now_ms
    session.flush()
    return True


def requested(session: Session) -> list[DrainingBoot]:
    """Return the boots with a drain request."""
    wanted = query(DrainingBoot, Registration).where(*IS_REQUESTED)
    return fetch(session, DrainingBoot, wanted)


#: How long a process counts as alive after its last heartbeat: three intervals of an executor, four
#: of a scheduler, three of a console.
EXECUTOR_ALIVE_MS = 15_000
SCHEDULER_ALIVE_MS = 2_000
CONSOLE_ALIVE_MS = 15_000


class ProcessState(StrEnum):
    """The state of a registered process."""

    ALIVE = "alive"
    #: Alive, but it takes no new runs, and exits when its runs have ended.
    DRAINING = "draining"
    SILENT = "silent"
    #: It has never registered.
    ABSENT = "absent"

    @property
    def is_online(self) -> bool:
        """Whether the process is running."""
        return self in {ProcessState.ALIVE, ProcessState.DRAINING}


def state(row: Registration, now_ms: int) -> ProcessState:
    """Return the state of a process, as its last heartbeat shows it."""
    if not row.beat_at:
        return ProcessState.ABSENT
    if now_ms - row.beat_at > _limit_ms(row):
        return ProcessState.SILENT
    is_draining = row.draining or row.drain_asked_at
    return ProcessState.DRAINING if is_draining else ProcessState.ALIVE


def health_issues(load: Mapping[str, Any]) -> list[str]:
    """Return the problems in an executor's last reported load, in lower case."""
    names = load.get("ailments", [])
    return [str(name).lower() for name in names] if isinstance(names, list) else []


def _limit_ms(row: Registration) -> int:
    if row.kind == EXECUTOR:
        return EXECUTOR_ALIVE_MS
    return CONSOLE_ALIVE_MS if row.app == CONSOLE else SCHEDULER_ALIVE_MS


def keep_catalogue(session: Session, fingerprint: str, contents: str, now_ms: int) -> None:
    """Store a catalogue, unless it is stored already."""
    row = {"fingerprint": fingerprint, "contents": contents, "told_at": now_ms}
    insert = of(session).insert_or_ignore(StoredCatalogue, StoredCatalogue.fingerprint)
    session.execute(insert.values(row))


def read_catalogues(session: Session, fingerprints: Collection[str]) -> dict[str, str]:
    """Return the stored ones among these catalogues, by fingerprint."""
    if not fingerprints:
        return {}
    rows = session.execute(
        select(StoredCatalogue.fingerprint, StoredCatalogue.contents).where(
            StoredCatalogue.fingerprint.in_(sorted(fingerprints))
        )
    )
    return dict(rows.all())


def forget_unused_catalogues(session: Session, *, before_ms: int) -> int:
    """Delete catalogues stored before an instant that no executor has now; return how many."""
    named = select(Registration.catalogue).where(Registration.catalogue.is_not(None))
    unused = delete(StoredCatalogue).where(
        StoredCatalogue.told_at < before_ms, StoredCatalogue.fingerprint.not_in(named)
    )
    return modify(session, unused)


#: Rows deleted by one statement.
CHUNK = 5_000


class LoadPoint(NamedTuple):
    """The last load reported within a minute; `executor_id` is the id of a registration."""

    executor_id: int
    minute_at: int
    slots: int
    running: int
    waiting: int
    cpu_percent: int
    memory_percent: int


def keep_loads(session: Session, points: Iterable[LoadPoint]) -> None:
    """Store points, except those whose minute another scheduler has already stored."""
    rows = [point._asdict() for point in points]
    if rows:
        insert_or_ignore(session, ExecutorLoad, rows, key="executor_id")


def loads_since(session: Session, executor_ids: Collection[int], since_ms: int) -> list[LoadPoint]:
    """Return the points of executors since an instant, sorted by executor and time."""
    if not executor_ids:
        return []
    wanted = (
        query(LoadPoint, ExecutorLoad)
        .where(ExecutorLoad.executor_id.in_(list(executor_ids)), ExecutorLoad.minute_at >= since_ms)
        .order_by(ExecutorLoad.executor_id, ExecutorLoad.minute_at)
    )
    return fetch(session, LoadPoint, wanted)


def forget_loads(session: Session, *, before_ms: int) -> bool:
    """Delete a chunk of the points before an instant; return False if there was none."""
    oldest = (
        select(ExecutorLoad.minute_at)
        .where(ExecutorLoad.minute_at < before_ms)
        .order_by(ExecutorLoad.minute_at)
    )
    # Find the last minute of the chunk first, because MySQL allows no LIMIT inside IN.
    minutes = session.execute(oldest.limit(CHUNK)).scalars().all()
    if not minutes:
        return False
    chunk = delete(ExecutorLoad).where(ExecutorLoad.minute_at <= minutes[-1])
    return modify(session, chunk) > 0
