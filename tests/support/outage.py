"""An installation of 120 jobs on a bad afternoon, for tests and pictures of the console.

Everything happens relative to `now_ms`:

- From 153 to 113 minutes ago a database refused connections: 300 runs of 31 jobs failed. 23 of the
  jobs have recovered; the other 8 fail on with another error.
- Last night at 02:00 no scheduler was running for 9 minutes, and 8 nightly jobs were skipped.
- An executor left 20 minutes ago with a run; a limit has been full for 38 minutes; an app is
  paused; four jobs fail on their own; one became slower all week; a job and a broadcast to three
  executors run beyond their usual time.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.scheduler.problems import explanation
from warren.sql.engine import Database
from warren.sql.ids import RunIds
from warren.sql.instants import DAY_MS, HOUR_MS, MINUTE_MS
from warren.sql.jobs import history
from warren.sql.models import Hold, Job, Limit, Pause, Registration, Run, Uptime
from warren.sql.registry import apps
from warren.sql.run_status import Kind, RunStatus
from warren.sql.runs.transitions import ENTERED

REFUSED = (
    'ConnectionError: connection to server at "pg-main.internal" (10.2.0.14), port 5432 failed: '
    "Connection refused"
)
WRONG_PASSWORD = (
    'ConnectionError: connection to server at "pg-main.internal" (10.2.0.14), port 5432 failed: '
    'FATAL: password authentication failed for user "svc_sync"'
)
SECOND_MS = 1_000
#: When the refusals began and ended, the executor left, and the limit filled up: before now.
REFUSED_FROM_MS, REFUSED_UNTIL_MS = 153 * MINUTE_MS, 113 * MINUTE_MS
GONE_MS, FULL_MS = 20 * MINUTE_MS, 38 * MINUTE_MS
PAUSED_MS = 7 * HOUR_MS + 12 * MINUTE_MS
#: The most due times of a job that have rows.
MOST_RUNS = 160
NIGHTS = 9
#: Due times of a week ago, of jobs that are due more often than daily.
LAST_WEEK = 8

EXECUTORS = {
    "billing": ("billing-1", "billing-2"),
    "warehouse": ("warehouse-1", "warehouse-2"),
    "search": ("search-1", "search-2", "search-3"),
    "ops": ("ops-1",),
    "mail": ("mail-1",),
}
GONE = "warehouse-1"
SLOTS = 4
#: How many of the jobs that were hit fail on, by minutes between their due times.
_FAIL_ON = {2: 4, 5: 2, 10: 2}
#: The jobs that were hit by those minutes, the ones that fail on first: 300 failures in 40 minutes.
_NAMES = {
    2: "stripe-settlements adyen-settlements paypal-settlements index-shard-1 "
    "stripe-rates sepa-rates klarna-rates index-shard-2",
    5: "stripe-chargebacks tax-sync "
    "sepa-settlements klarna-settlements sepa-chargebacks klarna-chargebacks paypal-chargebacks "
    "vat-check dunning-steps credit-limits price-sync stock-levels",
    10: "snapshot-orders snapshot-stock "
    "snapshot-returns snapshot-carts snapshot-parcels copy-suppliers copy-prices copy-carriers "
    "index-terms index-synonyms index-facets",
}
_NIGHTLY = (
    "load-items load-returns load-suppliers load-carriers close-day archive-logs "
    "rotate-keys backup-configs"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A job, and what its due times became: the first error whose span has the due time."""

    name: str
    app: str
    every_ms: int
    usual_ms: int = 3 * SECOND_MS
    #: Failures, as (from, until, message), in milliseconds before now.
    failed: Sequence[tuple[int, int, str]] = ()
    cron: str = ""
    shards: int = 1
    columns: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outage:
    """What was made: ids of jobs by name, and the names that matter to tests."""

    now_ms: int
    jobs: dict[str, int]
    #: Jobs that fail now, with the one whose run was lost; the 8 with one error; the 23 recovered.
    failing: frozenset[str]
    one_error: frozenset[str]
    recovered: frozenset[str]
    skipped: frozenset[str]
    #: The run that was lost, the one that runs beyond its usual time, and the shards that do.
    lost_run: int
    long_run: int
    long_shards: Sequence[int]


_SUBJECTS = ("orders", "ledger", "stock", "invoices", "reports", "terms", "mails")


def _hit_jobs() -> list[_Job]:
    """Return the 31 jobs that the refused connections hit."""
    refused = (REFUSED_FROM_MS, REFUSED_UNTIL_MS, REFUSED)
    app_of = {"index": "search", "snapshot": "warehouse", "copy": "warehouse", "stock": "warehouse"}
    jobs = []
    for minutes, names in _NAMES.items():
        for number, name in enumerate(names.split()):
            later = [(REFUSED_UNTIL_MS, 0, WRONG_PASSWORD)] if number < _FAIL_ON[minutes] else []
            app = app_of.get(name.split("-")[0], "billing")
            every_ms = minutes * MINUTE_MS
            jobs.append(_Job(name=name, app=app, every_ms=every_ms, failed=(refused, *later)))
    return jobs


def _insert(session: Session, *, rows: Sequence[dict[str, Any]]) -> None:
    session.execute(insert(Run), rows)


def _limited() -> dict[str, Any]:
    return {"limits": "warehouse"}


def _log_of(message: str) -> str:
    """Return the end of a failed run's log."""
    said = message.partition(": ")[0]
    lines = ["connecting", "Traceback (most recent call last):", f"{said}: see below", message]
    return "\n".join(f"2026-01-01 00:00:0{number} {line}" for number, line in enumerate(lines))


def fill(database: Database, now_ms: int, seed: int = 7) -> Outage:
    """Fill a migrated, empty database, in about three seconds; `seed` varies the durations."""
    return _Filling(database, now_ms, random.Random(seed)).fill()


def _purge() -> _Job:
    """Return a broadcast to the executors of an app."""
    return _Job(
        name="purge-caches",
        app="search",
        every_ms=HOUR_MS,
        usual_ms=4 * SECOND_MS,
        shards=len(EXECUTORS["search"]),
        columns={"route": "SHARDING_BROADCAST"},
    )


class _Filling:
    def __init__(self, database: Database, now_ms: int, chance: random.Random) -> None:
        self._database = database
        self._now_ms = now_ms
        self._chance = chance
        self._apps: dict[str, int] = {}
        self._ids: dict[str, int] = {}
        self._run_ids = RunIds(database)
        self._rows: list[dict[str, Any]] = []
        #: The ids of the rows, once they are stored.
        self._id_at: dict[int, int] = {}

    def fill(self) -> Outage:
        hit = _hit_jobs()
        alone = self._jobs_of_their_own()
        nightly = [self._nightly(name) for name in _NIGHTLY.split()]
        known = [*hit, *alone, *nightly]
        fine = [self._fine(number) for number in range(120 - len(known))]
        self._apps = {name: self._app(name) for name in EXECUTORS}
        for job in (*known, *fine):
            self._add_job(job)
        skipped = self._skip(nightly)
        for job in (*known, *fine):
            self._add_history(job, skipped.get(job.name))
        lost, long, shards = self._add_lost(), self._add_long_runs(), self._add_long_broadcast()
        waiting = self._add_waiting()
        self._store()
        self._database.write(lambda session: self._surroundings(session, [long, *waiting]))
        fail_on = frozenset(job.name for job in hit if len(job.failed) > 1)
        still = frozenset(job.name for job in alone if job.failed)
        return Outage(
            now_ms=self._now_ms,
            jobs=self._ids,
            failing=fail_on | still | {"copy-customers"},
            one_error=fail_on,
            recovered=frozenset(job.name for job in hit) - fail_on,
            skipped=frozenset(job.name for job in nightly),
            lost_run=self._id_at[lost],
            long_run=self._id_at[long],
            long_shards=[self._id_at[shard] for shard in shards],
        )

    def _app(self, name: str) -> int:
        return self._database.write(lambda session: apps.ensure(session, name)[0])

    def _jobs_of_their_own(self) -> list[_Job]:
        partner = "TimeoutError: GET https://partner.example/v2/orders: no answer within 30 s"
        full = "OSError: [Errno 28] No space left on device"
        evening = self._now_ms - 9 * HOUR_MS
        earlier = (self._now_ms - evening, self._now_ms - evening - 22 * MINUTE_MS)
        slow = {"timeout": 900}
        return [
            _Job(
                name="fx-rates",
                app="billing",
                every_ms=4 * MINUTE_MS,
                failed=((*earlier, partner), (10 * MINUTE_MS, 0, partner)),
            ),
            _Job(
                name="index-build",
                app="search",
                every_ms=4 * MINUTE_MS,
                failed=((72 * MINUTE_MS, 0, "RuntimeError: index build stopped at page 31"),),
            ),
            _Job(
                name="invoice-archive",
                app="billing",
                every_ms=DAY_MS,
                cron="0 0 1 * * ?",
                failed=((8 * DAY_MS, 0, f"{full}: '/data/export/part-0007'"),),
            ),
            _Job(
                name="dwh-load",
                app="warehouse",
                every_ms=HOUR_MS,
                usual_ms=2 * MINUTE_MS,
                failed=((90 * MINUTE_MS, 0, f"{full}: '/data/stage/orders.parquet'"),),
            ),
            _Job(name="copy-customers", app="warehouse", every_ms=10 * MINUTE_MS),
            _Job(name="copy-items", app="warehouse", every_ms=10 * MINUTE_MS, columns=_limited()),
            _Job(
                name="snapshot-clicks",
                app="warehouse",
                every_ms=10 * MINUTE_MS,
                usual_ms=100 * SECOND_MS,
                columns=slow,
            ),
            _Job(
                name="load-orders",
                app="warehouse",
                every_ms=DAY_MS,
                cron="0 0 2 * * ?",
                usual_ms=17 * MINUTE_MS,
                columns=_limited(),
            ),
            _purge(),
        ]

    def _nightly(self, name: str) -> _Job:
        app = "warehouse" if name.startswith("load") else "ops"
        usual_ms = self._chance.randint(60, 600) * SECOND_MS
        return _Job(name=name, app=app, every_ms=DAY_MS, cron="0 0 2 * * ?", usual_ms=usual_ms)

    def _fine(self, number: int) -> _Job:
        app = ("billing", "search", "ops", "mail", "warehouse")[number % 5]
        minutes = (10, 15, 30, 60)[number % 4]
        usual_ms = self._chance.randint(400, 40_000)
        return _Job(
            name=f"{app}-{_SUBJECTS[number // 5 % len(_SUBJECTS)]}-{number // 5:02}",
            app=app,
            every_ms=minutes * MINUTE_MS,
            usual_ms=usual_ms,
        )

    def _add_job(self, job: _Job) -> None:
        seconds = job.every_ms // SECOND_MS
        schedule = (
            {"schedule_kind": "CRON", "schedule_value": job.cron}
            if job.cron
            else {"schedule_kind": "FIX_RATE", "schedule_value": str(seconds)}
        )
        # Long before the next due time of the real schedule, nobody plans these jobs.
        next_at = self._last_due(job) + job.every_ms
        values = {
            "app_id": self._apps[job.app],
            "name": job.name,
            "handler": job.name.replace("-", "_"),
            "timezone": "UTC",
            "is_enabled": 1,
            "last_tick_at": self._last_due(job),
            "next_tick_at": next_at,
            "author": self._chance.choice(("ann", "bo", "chen")),
        }

        def unit(session: Session) -> int:
            row = Job(**values | schedule | job.columns)
            session.add(row)
            session.flush()
            return int(row.id)

        self._ids[job.name] = self._database.write(unit)

    def _last_due(self, job: _Job) -> int:
        """Return the last due time that is over: at night, or a whole multiple of the period."""
        if not job.cron:
            return (self._now_ms - 30 * SECOND_MS) // job.every_ms * job.every_ms
        hour = int(job.cron.split()[2])
        now = datetime.fromtimestamp(self._now_ms / 1000, UTC)
        at_ms = int(now.replace(hour=hour, minute=0, second=0, microsecond=0).timestamp() * 1000)
        return at_ms if at_ms < self._now_ms else at_ms - DAY_MS

    def _add_history(self, job: _Job, skipped: int | None) -> None:
        last = self._last_due(job)
        count = NIGHTS if job.cron else min(MOST_RUNS, 2 * DAY_MS // job.every_ms)
        if not job.cron:
            self._add_last_week(job)
        for back in range(count - 1, -1, -1):
            due = last - back * job.every_ms
            ago = self._now_ms - due
            is_held = job.app == "mail" and ago < PAUSED_MS
            if due == skipped or is_held or self._is_special(job, back):
                continue
            message = next((said for since, until, said in job.failed if until < ago <= since), "")
            took = self._took(job, ago)
            if job.shards > 1:
                self._broadcast(job, due, RunStatus.SUCCEEDED, took_ms=took, message="purged")
            elif message:
                took = min(took, 30_500)
                self._row(job, due, RunStatus.FAILED, took_ms=took, message=message)
            else:
                said = f"{self._chance.randint(3, 900)} rows"
                self._row(job, due, RunStatus.SUCCEEDED, took_ms=took, message=said)

    def _add_last_week(self, job: _Job) -> None:
        """Add successes of a week ago, to compare with."""
        last = self._last_due(job) - (8 * DAY_MS // job.every_ms) * job.every_ms
        for back in range(LAST_WEEK, -1, -1):
            took = int(job.usual_ms * self._chance.uniform(0.8, 1.2))
            self._row(job, last - back * job.every_ms, RunStatus.SUCCEEDED, took_ms=took)

    def _is_special(self, job: _Job, back: int) -> bool:
        """Whether a due time is added elsewhere: lost, waiting, or running."""
        return back < {
            "copy-customers": 3,
            "copy-items": 4,
            "load-orders": 1,
            "purge-caches": 2,
        }.get(job.name, 0)

    def _took(self, job: _Job, ago: int) -> int:
        near = job.usual_ms * self._chance.uniform(0.8, 1.2)
        if job.name == "snapshot-clicks":
            # It takes four times as long as two days ago.
            return int(near * (1 + 3 * max(0.0, 1 - ago / (2 * DAY_MS))))
        return int(near)

    def _row(
        self,
        job: _Job,
        due: int,
        status: RunStatus,
        *,
        took_ms: int = 0,
        message: str = "",
        address: str = "",
        **columns: Any,
    ) -> int:
        """Add a run; return where it is in the rows."""
        start = due + self._chance.randint(5, 60)
        is_over = status not in {RunStatus.PLANNED, RunStatus.RUNNING}
        there = address or self._chance.choice([one for one in EXECUTORS[job.app] if one != GONE])
        values: dict[str, Any] = {
            "app_id": self._apps[job.app],
            "job_id": self._ids[job.name],
            "handler": job.name.replace("-", "_"),
            "param": "",
            "status": status.value,
            "kind": Kind.SCHEDULE.value,
            "scheduled_at": due,
            "due_at": due,
            "due_second": datetime.fromtimestamp(due // 1000, UTC).replace(tzinfo=None),
            "run_date": datetime.fromtimestamp(due / 1000, UTC).date(),
            "message": message or None,
            "address": None if status is RunStatus.PLANNED else there,
            "started_at": None if status is RunStatus.PLANNED else start,
            "routed_at": None if status is RunStatus.PLANNED else due,
            "sent_at": None if status is RunStatus.PLANNED else due + 4,
            "finished_at": start + took_ms if is_over else None,
            "log_tail": _log_of(message) if status is RunStatus.FAILED else None,
            "holds": None,
        }
        self._rows.append(values | dict(ENTERED[status]) | columns)
        return len(self._rows) - 1

    def _add_lost(self) -> int:
        job = _Job(name="copy-customers", app="warehouse", every_ms=10 * MINUTE_MS)
        due = self._last_due(job) - 20 * MINUTE_MS
        said = f"executor {GONE} was silent for 15 s; the run may have finished"
        return self._row(
            job, due, RunStatus.LOST, took_ms=40 * SECOND_MS, message=said, address=GONE
        )

    def _add_long_runs(self) -> int:
        job = _Job(name="load-orders", app="warehouse", every_ms=DAY_MS, cron="0 0 2 * * ?")
        due = self._now_ms - 38 * MINUTE_MS
        return self._row(job, due, RunStatus.RUNNING, kind=Kind.MANUAL.value, holds=1)

    def _add_long_broadcast(self) -> list[int]:
        job = _purge()
        return self._broadcast(job, self._last_due(job) - job.every_ms, RunStatus.RUNNING)

    def _broadcast(self, job: _Job, due: int, status: RunStatus, **facts: Any) -> list[int]:
        """Add a run for each executor of the job's app."""
        addresses = enumerate(EXECUTORS[job.app])
        return [
            self._row(
                job,
                due,
                status,
                address=address,
                shard_index=shard,
                shard_total=job.shards,
                **facts,
            )
            for shard, address in addresses
        ]

    def _add_waiting(self) -> list[int]:
        job = _Job(name="copy-items", app="warehouse", every_ms=10 * MINUTE_MS)
        last = self._last_due(job)
        holding = self._row(job, last - 50 * MINUTE_MS + 1, RunStatus.RUNNING, holds=1)
        for back in range(4):
            self._row(job, last - back * job.every_ms, RunStatus.PLANNED)
        return [holding]

    def _store(self) -> None:
        """Insert the rows in the order of their due times, as schedulers would have done."""
        order = sorted(range(len(self._rows)), key=lambda place: self._rows[place]["due_at"])
        taken = self._database.write(lambda session: self._run_ids.take(session, len(order)))
        self._id_at = {place: taken[number] for number, place in enumerate(order)}
        rows = [self._rows[place] | {"id": self._id_at[place]} for place in order]
        for row in rows:
            row.setdefault("origin_id", 0)
            if row["kind"] == Kind.MANUAL:
                row["origin_id"] = row["id"]
        for first in range(0, len(rows), 500):
            self._database.write(partial(_insert, rows=rows[first : first + 500]))

    def _skip(self, nightly: Sequence[_Job]) -> dict[str, int]:
        """Record the due times that no scheduler could send last night; return them by job."""
        due = {job.name: self._last_due(job) for job in nightly}
        why = explanation(Why.MISSED())

        def unit(session: Session) -> None:
            for name, at_ms in due.items():
                after = at_ms + 7 * MINUTE_MS
                job_id = self._ids[name]
                session.add(history.skipped(job_id, at_ms, at_ms, count=1, why=why, now_ms=after))
            at_ms = min(due.values())
            before, after = at_ms - 2 * MINUTE_MS, at_ms + 7 * MINUTE_MS
            session.add(
                Uptime(down_since=before, since_at=after, until_at=self._now_ms, is_settled=1)
            )

        self._database.write(unit)
        return due

    def _surroundings(self, session: Session, holding: Sequence[int]) -> None:
        for app, addresses in EXECUTORS.items():
            for address in addresses:
                is_gone = address == GONE
                session.add(
                    Registration(
                        kind="EXECUTOR",
                        app=app,
                        address=address,
                        boot_id=f"boot-{address}",
                        boot_at=self._now_ms - 3 * DAY_MS,
                        beat_at=self._now_ms - GONE_MS if is_gone else self._now_ms + DAY_MS,
                        load=json.dumps(
                            {
                                "cpu_percent": 40,
                                "memory_percent": 55,
                                "slots": SLOTS,
                                "running": 1,
                                "waiting": 0,
                            }
                        ),
                    )
                )
        for number in (1, 2):
            session.add(
                Registration(
                    kind="ADMIN",
                    app="scheduler",
                    address=f"scheduler-{number}",
                    boot_id=f"boot-scheduler-{number}",
                    boot_at=self._now_ms - DAY_MS,
                    beat_at=self._now_ms + DAY_MS,
                )
            )
        session.add(
            Pause(
                app_id=self._apps["mail"],
                since_at=self._now_ms - PAUSED_MS,
                until_at=None,
                paused_by="ops",
                reason="CRM-482",
            )
        )
        limit = Limit(name="warehouse", at_once=2, changed_at=self._now_ms - DAY_MS)
        session.add(limit)
        session.flush()
        for place in holding:
            session.add(Hold(limit_id=limit.id, run_id=self._id_at[place], weight=1))
