"""How often applying many jobs asks MariaDB: as often as applying a few."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from tests.support.acting import NamedCommands
from tests.support.sent_statements import sent_statements
from tests.support.sql_rows import new_run, plan
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.engine import Database
from warren.sql.jobs.due_jobs import next_tick
from warren.sql.models import AuditEntry, History, Job, Run
from warren.sql.run_status import Kind, RunStatus

FEW, MANY = 3, 40
HOURLY, SOON = "0 0 * * * ?", "* * * * * ?"


@pytest.fixture(params=["MariaDB", "as on MySQL"])
def database(mariadb_schema_url: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    database = Database(mariadb_schema_url)
    database.read(next_tick)  # the first connection tells what the server can do
    if request.param == "as on MySQL":  # which has no INSERT … RETURNING
        database.engine.dialect.insert_returning = False
    yield database
    database.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What goes to the server."""
    return sent_statements(monkeypatch)


def specs(count: int, **facts: Any) -> list[JobSpec]:
    spec = JobSpec(
        app="shop",
        name="",
        handler="noop",
        schedule_kind="CRON",
        schedule_value=HOURLY,
        enabled=False,
    )
    return [replace(spec, name=f"of-{count}-{number}", **facts) for number in range(count)]


def apply(database: Database, wanted: list[JobSpec]) -> set[str]:
    """Apply jobs; return what was done to them."""
    changes = NamedCommands(database, who="test").apply([AppSpec(name="shop")], wanted)
    return {change.action for change in changes if change.what == "job"}


def cost(database: Database, sent: list[str], wanted: list[JobSpec], action: str) -> int:
    """Return how many statements applying takes.

    The zone's is left out: it is read again if a second has passed in which a new job is due.
    """
    database.read(next_tick)  # so that a connection stands
    sent.clear()
    assert apply(database, wanted) == {action}
    return sum("xxl_job_registry" not in str(one) for one in sent)


@pytest.mark.parametrize("schedule", [HOURLY, SOON])
def test_many_new_jobs_take_no_more_statements_than_a_few(
    database: Database, sent: list[str], schedule: str
) -> None:
    apply(database, [])
    facts = {"enabled": True, "schedule_value": schedule}

    few = cost(database, sent, specs(FEW, **facts), "create")
    many = cost(database, sent, specs(MANY, **facts), "create")

    assert many == few


@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        ({}, {"enabled": True}, "start"),
        ({}, {"enabled": True, "schedule_value": SOON}, "update"),
        ({"enabled": True}, {"enabled": True, "schedule_value": SOON}, "update"),
        ({"enabled": True}, {"enabled": False}, "stop"),
        ({"enabled": True}, {"enabled": False, "handler": "other", "timeout": 5}, "update"),
        ({"enabled": True}, {"enabled": True, "misfire": "FIRE_ONCE_NOW"}, "update"),
    ],
)
def test_changing_many_jobs_takes_no_more_statements_than_changing_a_few(
    database: Database,
    sent: list[str],
    before: dict[str, Any],
    after: dict[str, Any],
    action: str,
) -> None:
    apply(database, specs(FEW, **before) + specs(MANY, **before))

    few = cost(database, sent, specs(FEW, **after), action)
    many = cost(database, sent, specs(MANY, **after), action)

    assert many == few


def test_what_many_jobs_have_planned_is_changed_and_cancelled_together(
    database: Database, sent: list[str]
) -> None:
    counts = []
    for count in (FEW, MANY):
        apply(database, specs(count, enabled=True))
        ids = ids_of(database, count)
        plan(database, *(new_run(job_id=job_id, kind=Kind.SCHEDULE) for job_id in ids))
        edited = cost(database, sent, specs(count, enabled=True, handler="other"), "update")
        assert runs(database, ids) == {(RunStatus.PLANNED, "other")}
        stopped = cost(database, sent, specs(count, enabled=False, handler="other"), "stop")
        assert runs(database, ids) == {(RunStatus.CANCELLED, "other")}
        counts.append((edited, stopped))

    assert counts[0] == counts[1]


def test_each_of_many_changed_jobs_has_its_history_and_its_entries_in_the_audit_log(
    database: Database,
) -> None:
    apply(database, specs(MANY))
    apply(database, specs(MANY, enabled=True, schedule_value=SOON, author="ops"))
    ids = ids_of(database, MANY)

    rows = database.read(
        lambda s: [
            (job.schedule_value, job.author, job.is_enabled, job.next_tick_at > job.last_tick_at)
            for job in s.execute(select(Job).where(Job.id.in_(ids))).scalars()
        ]
    )
    history = database.read(
        lambda s: s.execute(select(History.job_id, History.schedule_value, History.enabled)).all()
    )
    trail = database.read(
        lambda s: s.execute(
            select(AuditEntry.object_id, AuditEntry.action)
            .where(AuditEntry.kind == "job")
            .order_by(AuditEntry.id)
        ).all()
    )

    assert rows == [(SOON, "ops", 1, True)] * MANY
    assert sorted(map(tuple, history)) == [(job_id, SOON, 1) for job_id in ids]
    for job_id in ids:
        did = [action for object_id, action in trail if object_id == job_id]
        assert did == ["job.create", "job.update", "job.start"]


def test_a_long_param_is_stored_whole_beside_many_other_changes(database: Database) -> None:
    apply(database, specs(FEW))
    long = "x" * 100_000

    apply(database, [replace(specs(FEW)[0], param=long), *specs(FEW, author="ops")[1:]])

    rows = database.read(lambda s: s.execute(select(Job.param, Job.author).order_by(Job.id)).all())
    assert [tuple(row) for row in rows] == [(long, ""), ("", "ops"), ("", "ops")]


def ids_of(database: Database, count: int) -> list[int]:
    wanted = select(Job.id).where(Job.name.in_([spec.name for spec in specs(count)]))
    return sorted(database.read(lambda s: s.execute(wanted).scalars().all()))


def runs(database: Database, ids: list[int]) -> set[tuple[str, str | None]]:
    wanted = select(Run.status, Run.handler).where(Run.job_id.in_(ids))
    return {tuple(row) for row in database.read(lambda s: s.execute(wanted).all())}
