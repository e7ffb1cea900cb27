"""Rows as a test needs them, inserted by Warren's own functions."""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from tests.support import schemas
from warren.broker.codec import EncodedCatalogue
from warren.broker.messages import Catalogue, HandlerFacts
from warren.scheduler.backfills.kept_schedule import KeptSchedule, Span, spans_to_json
from warren.scheduler.completion.end import identity_of
from warren.scheduler.membership.presence import MAILS_KEY
from warren.scheduler.membership.self_health import ZONE_KEY
from warren.sql.engine import Database
from warren.sql.ids import RunIds
from warren.sql.instants import DAY_MS
from warren.sql.listings import recent
from warren.sql.models import Backfill, Job, Run, SkippedTicks, StoredLog
from warren.sql.registry import apps, presence
from warren.sql.run_status import Kind, RunStatus
from warren.sql.runs import calls, planned_runs
from warren.sql.runs.calls import NumberedCall
from warren.sql.runs.transitions import ENTERED

#: Where a log is in the log store.
LOG_KEY = "reports/2027-01-15/1.log.gz"


class Rows:
    """A migrated database with shortcuts to fill it."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        schemas.ensure(self.database)
        self._ids = RunIds(self.database)

    def app(self, name: str = "reports") -> int:
        """Create an app; return its id."""
        return self.database.write(lambda session: apps.ensure(session, name)[0])

    def job(self, name: str, app: str = "reports", **columns: Any) -> int:
        """Create a job; return its id."""
        app_id = self.app(app)

        def unit(session: Any) -> int:
            values = {"handler": "report"} | columns
            job = Job(app_id=app_id, name=name, **values)
            session.add(job)
            session.flush()
            return int(job.id)

        return self.database.write(unit)

    def call(self, caller: int, called: int) -> None:
        """Let a run have called another one."""

        def unit(session: Any) -> None:
            row = session.get_one(Run, caller)
            tick = (row.job_id, row.scheduled_at, row.origin_id, row.shard_index)
            calls.keep(session, [NumberedCall(*tick, 1, caller, called)])
            session.execute(update(Run).where(Run.id == called).values(called_by=caller))

        self.database.write(unit)

    def skip(
        self, job_id: int, from_ms: int, to_ms: int | None = None, *, count: int, reason: str
    ) -> None:
        """Record that due times of a job were skipped."""
        last = from_ms if to_ms is None else to_ms
        values = {"job_id": job_id, "from_at": from_ms, "to_at": last, "recorded_at": last}
        row = SkippedTicks(count=count, reason=reason, **values)
        self.database.write(lambda session: session.add(row))

    def backfill(self, job_id: int, last_ms: int, *, days: int = 3, **columns: Any) -> int:
        """Create a backfill of a job, one run a date up to an instant; nothing is planned yet."""
        span = Span(last_ms - days * DAY_MS, last_ms)
        values: dict[str, Any] = {
            "id": 10**9 + job_id,
            "schedule": KeptSchedule.of_dates("UTC").to_json(),
            "spans": spans_to_json([span]),
            "ticks": days,
            "made_at": last_ms,
            "made_by": "admin",
            "moved_at": last_ms,
        }
        row = Backfill(job_id=job_id, **values | columns)
        self.database.write(lambda session: session.add(row))
        return int(values["id"])

    def jobs(self, count: int, app: str = "reports", **columns: Any) -> None:
        """Create very many identical jobs."""
        values = {"app_id": self.app(app), "handler": "report"} | columns
        new = [values | {"name": f"one-{number}"} for number in range(count)]
        self.database.write(lambda session: session.execute(insert(Job), new))

    def run(self, job_id: int, at_ms: int, app: str = "reports", **columns: Any) -> int:
        """Create a run of a job that was due at this time; `status` and other columns as given."""
        app_id = self.app(app)
        new = planned_runs.NewRun(
            app_id=app_id,
            job_id=job_id,
            handler="report",
            param=columns.pop("param", ""),
            kind=columns.pop("kind", Kind.SCHEDULE),
            scheduled_at=columns.pop("scheduled_at", at_ms),
            due_at=at_ms,
            retries_left=0,
            origin_id=columns.pop("origin_id", 0),
            shard_index=columns.pop("shard_index", 0),
            shard_total=columns.pop("shard_total", 1),
            attempt=columns.pop("attempt", 0),
            starts=columns.pop("starts", 0),
        )
        if "status" in columns:
            columns |= ENTERED[RunStatus(columns["status"])]

        def unit(session: Any) -> int:
            [run_id] = planned_runs.plan(session, [new], self._ids)
            if columns:
                session.execute(update(Run).where(Run.id == run_id).values(**columns))
            return run_id

        return self.database.write(unit)

    def runs(self, job_id: int, instants: Iterable[int], app: str = "reports") -> None:
        """Create very many planned runs of a job, one for each time."""
        app_id = self.app(app)
        new = [
            planned_runs.NewRun(
                app_id=app_id,
                job_id=job_id,
                handler="report",
                param="",
                kind=Kind.SCHEDULE,
                scheduled_at=at_ms,
                due_at=at_ms,
                retries_left=0,
            )
            for at_ms in instants
        ]
        self.database.write(lambda session: planned_runs.plan(session, new, self._ids))

    def set_run(self, run_id: int, **columns: Any) -> None:
        """Change a run's row directly."""
        self.database.write(
            lambda session: session.execute(update(Run).where(Run.id == run_id).values(**columns))
        )

    def stored_log(self, run_id: int, **columns: Any) -> None:
        """Note what became of a run's log; by default it is in the log store."""
        run = self.database.read(lambda session: recent.run(session, run_id, None))
        row = {
            "run_id": run_id,
            "identity": identity_of(run),
            "key": LOG_KEY,
            "state": "STORED",
            "size": 1,
            "packed": 1,
            "parts": 0,
            "told_at": 0,
        }
        self.database.write(
            lambda session: session.execute(insert(StoredLog).values(row | columns))
        )

    def watermark(self, job_id: int) -> int:
        """Return the time up to which every tick of a job is decided."""
        found = select(Job.last_tick_at).where(Job.id == job_id)
        return int(self.database.read(lambda session: session.execute(found).scalar_one()))

    def set_watermark(self, job_id: int, at_ms: int) -> None:
        """Declare every tick of a job decided up to this time."""
        self.database.write(
            lambda session: session.execute(
                update(Job).where(Job.id == job_id).values(last_tick_at=at_ms)
            )
        )

    def newest_run(self, job_id: int) -> int:
        """Return the id of a job's newest run."""
        newest = select(func.max(Run.id)).where(Run.job_id == job_id)
        return int(self.database.read(lambda session: session.execute(newest).scalar_one()))

    def end_and_retry(self, run_id: int) -> None:
        """End a run as FAILED and plan its next attempt, in one transaction."""

        def unit(session: Any) -> None:
            run = session.get_one(Run, run_id)
            run.status = RunStatus.FAILED
            retry = planned_runs.NewRun(
                app_id=run.app_id,
                job_id=run.job_id,
                handler="report",
                param="",
                kind=Kind.RETRY,
                scheduled_at=run.scheduled_at,
                due_at=run.due_at,
                retries_left=0,
                origin_id=run.origin_id,
                attempt=run.attempt + 1,
                starts=run.starts + 1,
            )
            planned_runs.plan(session, [retry], self._ids)

        self.database.write(unit)

    def executor(self, address: str, beat_ms: int, load: str, app: str = "reports") -> int:
        """Register an executor last heard at this time; return its id in the registry."""
        self._hold(presence.EXECUTOR, app, address, beat_ms, load)
        found = self.database.read(lambda session: presence.listing(session, "EXECUTOR", app))
        return next(row.id for row in found if row.address == address)

    def scheduler(
        self, node: str, beat_ms: int, *, zone: str = "", mails: bool | None = None
    ) -> None:
        """Register a scheduler last heard at this time, with its time zone; `mails`: it sends."""
        said = ({ZONE_KEY: zone} if zone else {}) | ({} if mails is None else {MAILS_KEY: mails})
        load = json.dumps(said) if said else ""
        self._hold(presence.ADMIN, presence.SCHEDULER, node, beat_ms, load)

    def forget_schedulers(self) -> None:
        """Remove every scheduler's registration, as they do when they end."""
        self.database.write(lambda session: presence.forget_schedulers(session, before_ms=2**53))

    def _hold(self, kind: str, app: str, address: str, beat_ms: int, load: str) -> None:
        told = told_in(load)
        beat = presence.Beat(
            kind=kind,
            app=app,
            address=address,
            boot_id="b00t",
            beat_at=beat_ms,
            load=load,
            catalogue=told.fingerprint if told else "",
        )

        def unit(session: Session) -> None:
            presence.hold(session, beat)
            if told:
                text = told.contents.decode()
                presence.keep_catalogue(session, told.fingerprint, text, beat_ms)

        self.database.write(unit)


def told_in(load: str) -> EncodedCatalogue | None:
    """Return a catalogue of the handlers that a load names, for tests; typed if by schema."""
    try:
        told = json.loads(load)["handlers"]
    except (ValueError, KeyError, TypeError):
        return None
    schemas = told if isinstance(told, dict) else dict.fromkeys(told)
    return EncodedCatalogue(
        Catalogue(
            handlers=tuple(
                HandlerFacts(name=str(name), schema=json.dumps(schema) if schema else "")
                for name, schema in schemas.items()
            )
        )
    )
