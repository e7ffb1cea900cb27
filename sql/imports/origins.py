"""What an import stores: the origins of apps, jobs and users, and the history of the source.

An origin has the fingerprints of both sides at the last import. The history consists of run ids,
day reports and finished runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import Select, Table, and_, delete, func, insert, not_, select, union, update
from sqlalchemy.orm import InstrumentedAttribute, Session, undefer

from warren.sql import unfolded
from warren.sql.batch import chunks, fetch_by_ids, insert_or_ignore
from warren.sql.dialects.supported import of
from warren.sql.instants import midnight
from warren.sql.models import App, DayReport, History, ImportOrigin, Job, Model, Run, ScriptVersion
from warren.sql.models import Sequence as Counter
from warren.sql.models.run_tables import TICK_KEY
from warren.sql.rows import fetch, query
from warren.sql.unfolded import Change, RunEnd

#: Name prefix of a counter row for run ids that were skipped: from the number after the prefix up
#: to `next_id`, excluded.
_JUMPED = "run-jump-"
#: What the board is told of a run, besides its id.
_BOARD_FACTS = ("app_id", "due_at", "status")
#: How many runs a day's report counts.
_RUNS = (
    DayReport.running
    + DayReport.succeeded
    + DayReport.failed
    + DayReport.skipped
    + DayReport.cleared_succeeded
    + DayReport.cleared_failed
    + DayReport.cleared_skipped
)


def raise_run_ids(session: Session, above: int) -> None:
    """Make new runs get ids greater than `above`, and record the range that is skipped."""
    of_runs = Counter.name == "run"
    first = session.execute(select(Counter.next_id).where(of_runs).with_for_update()).scalar_one()
    if first > above:
        return
    session.execute(update(Counter).where(of_runs).values(next_id=above + 1))
    row = {"name": f"{_JUMPED}{first}", "next_id": above + 1}
    insert_or_ignore(session, Counter, [row], key="name")


def jumped_run_ids(session: Session) -> list[range]:
    """Return the ranges of skipped run ids, which no process has reserved."""
    rows = session.execute(
        select(Counter.name, Counter.next_id).where(Counter.name.startswith(_JUMPED))
    )
    return [range(int(name.removeprefix(_JUMPED)), end) for name, end in rows]


def counted_days(session: Session, days: Sequence[date]) -> dict[date, int]:
    """Return the days that have a report, each with its number of runs."""
    if not days:
        return {}
    between = DayReport.day.between(midnight(min(days)), midnight(max(days)))
    rows = session.execute(select(DayReport.day, _RUNS).where(between))
    return {day.date(): runs for day, runs in rows if day is not None}


def add_days(session: Session, days: Mapping[date, tuple[int, int]], *, at: datetime) -> None:
    """Store the reports of days that have none, or one without runs.

    Values are the numbers of successful and failed runs.
    """
    rows = [
        {
            "day": midnight(day),
            "running": 0,
            "succeeded": counts[0],
            "failed": counts[1],
            "skipped": 0,
            "cleared_succeeded": 0,
            "cleared_failed": 0,
            "cleared_skipped": 0,
            "update_time": at,
        }
        for day, counts in sorted(days.items())
    ]
    insert_or_ignore(session, DayReport, rows)
    # A scheduler has reported its days too, even those on which it had nothing to do.
    for chunk in chunks(map(midnight, sorted(days))):
        empty = select(DayReport).where(DayReport.day.in_(chunk), _RUNS == 0).with_for_update()
        for report in session.execute(empty).scalars():
            assert report.day is not None, "it was found by its day"
            report.succeeded, report.failed = days[report.day.date()]
            report.update_time = at


def known_runs(session: Session, run_ids: Sequence[int]) -> dict[int, int]:
    """Return when the runs with these ids, a few hundred at most, were due, by id."""
    wanted = select(Run.id, Run.scheduled_at).where(Run.id.in_(run_ids))
    return {row.id: row.scheduled_at for row in session.execute(wanted)}


def add_runs(session: Session, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert finished runs, except those of which the due time is there; their ids are free."""
    given = {int(row["id"]): row for row in rows}
    insert_or_ignore(session, Run, given.values(), same=TICK_KEY)
    for chunk in chunks(given):
        added = session.execute(select(Run.id).where(Run.id.in_(chunk))).scalars()
        made = {id_: given[id_] for id_ in added}
        runs = [RunEnd(id_, *(row[name] for name in _BOARD_FACTS)) for id_, row in made.items()]
        jobs = {int(row["job_id"]) for row in made.values()}
        unfolded.note(session, Change(jobs=sorted(jobs), counts=unfolded.counted(runs)))


#: The kinds of imported items.
APP, JOB, USER = "app", "job", "user"
#: The kinds that keep their ids from the source, if those are free here.
_MODELS_WITH_GIVEN_IDS: Mapping[str, type[Model]] = {APP: App, JOB: Job}


class Origin(NamedTuple):
    """The source of one item, and the fingerprints of both sides."""

    source_id: int
    target_id: int
    source_fingerprint: str
    target_fingerprint: str


def read(session: Session, source: str, kind: str) -> dict[int, Origin]:
    """Return everything imported of one kind from a source, by its id there."""
    wanted = query(Origin, ImportOrigin).where(
        ImportOrigin.source == source, ImportOrigin.kind == kind
    )
    return {row.source_id: row for row in fetch(session, Origin, wanted)}


def read_some(
    session: Session, source: str, kind: str, source_ids: Iterable[int]
) -> dict[int, Origin]:
    """Return which of the items were imported, by their ids at the source."""
    of_kind = query(Origin, ImportOrigin).where(
        ImportOrigin.source == source, ImportOrigin.kind == kind
    )
    rows = fetch_by_ids(session, Origin, of_kind, ImportOrigin.source_id, source_ids)
    return {row.source_id: row for row in rows}


def write(
    session: Session, source: str, kind: str, origins: Sequence[Origin], *, now_ms: int
) -> None:
    """Store the origins of imported items, which have been stored, replacing earlier ones."""
    for chunk in chunks(origins):
        ids = [origin.source_id for origin in chunk]
        session.execute(
            delete(ImportOrigin).where(
                ImportOrigin.source == source,
                ImportOrigin.kind == kind,
                ImportOrigin.source_id.in_(ids),
            )
        )
        session.execute(
            insert(ImportOrigin),
            [
                origin._asdict() | {"source": source, "kind": kind, "imported_at": now_ms}
                for origin in chunk
            ],
        )
    if kind in _MODELS_WITH_GIVEN_IDS:
        table = _MODELS_WITH_GIVEN_IDS[kind].__table__
        of(session).skip_given_ids(session.connection(), cast("Table", table))


def jobs(session: Session, job_ids: Iterable[int]) -> dict[int, Job]:
    """Return the jobs that exist among these, with the sources of their scripts."""
    return {
        job.id: job
        for chunk in chunks(job_ids)
        for job in session.execute(
            select(Job).options(undefer(Job.script_source)).where(Job.id.in_(chunk))
        ).scalars()
    }


def app_ids(session: Session, job_ids: Iterable[int]) -> dict[int, int]:
    """Return the app ids of these jobs; jobs that do not exist are left out."""
    return {
        job_id: app_id
        for chunk in chunks(job_ids)
        for job_id, app_id in session.execute(select(Job.id, Job.app_id).where(Job.id.in_(chunk)))
    }


def apps(session: Session) -> dict[int, App]:
    return {app.id: app for app in session.execute(select(App)).scalars()}


def names_in(session: Session, app_id: int) -> dict[str, int]:
    """Return the ids of an app's jobs by name."""
    return dict(session.execute(select(Job.name, Job.id).where(Job.app_id == app_id)).all())


def taken_job_ids(session: Session, job_ids: Iterable[int]) -> set[int]:
    """Return which of the ids belong to a job, or did.

    A deleted job's id remains in its history, its runs and its import origin.
    """
    taken: set[int] = set()
    for chunk in chunks(job_ids):
        taken |= set(session.execute(select(Job.id).where(Job.id.in_(chunk))).scalars())
        for column in (History.job_id, Run.job_id):
            used = select(column).where(column.in_(chunk)).distinct()
            taken |= set(session.execute(used).scalars())
        taken |= set(session.execute(_given(JOB, chunk)).scalars())
    return taken


def taken_app_ids(
    session: Session, app_ids: Sequence[int], *, origin: Origin | None, source: str
) -> set[int]:
    """Return which of the ids an app has, a job names, or another import gave.

    `origin` is that of the app that is to get one of them, if this source has it from before.
    """
    taken = set(session.execute(select(App.id).where(App.id.in_(app_ids))).scalars())
    named = select(Job.app_id).where(Job.app_id.in_(app_ids)).distinct()
    given = _given(APP, app_ids)
    if origin is not None:
        own = and_(ImportOrigin.source == source, ImportOrigin.source_id == origin.source_id)
        given = given.where(not_(own))
    return taken | set(session.execute(union(named, given)).scalars())


def highest_ids(session: Session) -> tuple[int, int]:
    """Return the highest known ids of an app and of a job, including deleted ones."""
    return (
        max(_highest(session, App.id), _highest(session, ImportOrigin.target_id, APP)),
        max(
            *(_highest(session, column) for column in (Job.id, History.job_id, Run.job_id)),
            _highest(session, ImportOrigin.target_id, JOB),
        ),
    )


def _highest(session: Session, column: InstrumentedAttribute[int], kind: str = "") -> int:
    highest = select(func.max(column))
    if kind:
        highest = highest.where(ImportOrigin.kind == kind)
    return session.execute(highest).scalar_one() or 0


def _given(kind: str, ids: Sequence[int]) -> Select[int]:
    """Return the SELECT of those of the ids that imports gave to items of a kind."""
    return select(ImportOrigin.target_id).where(
        ImportOrigin.kind == kind, ImportOrigin.target_id.in_(ids)
    )


def started(session: Session, job_ids: Iterable[int]) -> set[int]:
    """Return which of the jobs were ever started here."""
    return {
        job_id
        for chunk in chunks(job_ids)
        for job_id in session.execute(
            select(History.job_id).where(History.job_id.in_(chunk)).distinct()
        ).scalars()
    }


def add_versions(session: Session, versions: Sequence[ScriptVersion]) -> None:
    """Insert the first versions of a job's script, in order."""
    for number, version in enumerate(versions, start=1):  # one by one, so that ids keep the order
        version.number = number
        session.add(version)
        session.flush()
