"""The audit log: every deed leaves an entry in its own transaction, and a refused one none."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.acting import NamedCommands, NamedUsers, acting
from tests.support.stored_rows import Rows
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.commands.command_context import Action, AuditLog
from warren.scheduler.expectations import Expectations
from warren.scheduler.flows.graph import parse
from warren.scheduler.jobs.records import MAX_VALUE_LENGTH, is_cut
from warren.scheduler.jobs.spec import WRITTEN, AppSpec, JobSpec
from warren.scheduler.limits import LimitSpec
from warren.scheduler.problems import Problem
from warren.scheduler.retention.clearing import ClearingCriteria
from warren.scheduler.schedules.options import ScheduleOptions
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.models import AuditEntry, Job
from warren.sql.runs import transitions

NOW = 1_700_000_000_000


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    yield rows
    rows.database.close()


def commands(rows: Rows, **rights: Any) -> NamedCommands:
    return NamedCommands(rows.database, lambda: NOW, who="alice", origin="10.0.0.9", **rights)


def spec(**values: Any) -> JobSpec:
    given = {"name": "nightly", "app": "reports", "handler": "report.daily"}
    return JobSpec(**given | values)


def apply(rows: Rows, *specs: JobSpec, dry_run: bool = False, prune: bool = False) -> None:
    commands(rows).apply([AppSpec(name="reports")], specs, dry_run=dry_run, prune=prune)


def entries(database: Database, **wanted: Any) -> list[AuditEntry]:
    found = database.read(lambda session: audit_log.listing(session, AuditFilter(**wanted)))
    return list(reversed(found))


def deeds(rows: Rows) -> list[str]:
    return [entry.action for entry in entries(rows.database)]


def test_an_app_that_a_job_file_changes_leaves_its_values_before_and_after(rows: Rows) -> None:
    apps = [
        AppSpec(name="reports", title="Reports"),
        AppSpec(name="reports", title="All reports", addresses=("r1", "r2")),
    ]
    for app in (*apps, apps[-1]):
        commands(rows).apply([app], [], dry_run=False, prune=False)

    created, updated = entries(rows.database)

    assert [created.action, updated.action] == ["app.create", "app.update"]
    assert (created.before, created.after) == (None, updated.before)
    before, after = json.loads(updated.before or ""), json.loads(updated.after or "")
    changes = {name: (value, after[name]) for name, value in before.items() if value != after[name]}
    assert changes["title"] == ("Reports", "All reports")
    assert set(changes) == {"title", "addresses"}
    assert "r2" in after["addresses"]


def test_a_job_leaves_its_whole_life(rows: Rows) -> None:
    apply(rows, spec(schedule_kind="FIX_RATE", schedule_value="60"))
    apply(rows, spec(schedule_kind="FIX_RATE", schedule_value="90"))
    commands(rows).start("nightly")
    run_id = commands(rows).trigger("nightly", param="p", addresses=[])
    commands(rows).kill(run_id)
    commands(rows).stop("nightly")
    commands(rows).delete("nightly")

    assert deeds(rows) == [
        "app.create",
        "job.create",
        "job.update",
        "job.start",
        "job.trigger",
        "run.kill",
        "job.stop",
        "job.delete",
    ]


def test_an_entry_tells_who_when_where_and_what(rows: Rows) -> None:
    apply(rows, spec(param="old"))
    apply(rows, spec(param="new"))

    last = entries(rows.database)[-1]

    assert (last.who, last.origin, last.at) == ("alice", "10.0.0.9", NOW)
    assert (last.kind, last.name) == ("job", "reports/nightly")
    assert json.loads(last.before or "") == {"executor_param": "old"}
    assert json.loads(last.after or "") == {"executor_param": "new"}


def test_all_that_a_job_is_set_to_is_kept_when_it_is_made_and_when_it_is_deleted(
    rows: Rows,
) -> None:
    secret = "https://example.com/?token=secret"
    others = {
        "retry_delay": 9,
        "route": "ROUND",
        "process": "fresh",
        "alarm_style": "feishu",
        "param": "p",
        "param_template": "{{ run_date }}",
        "expect": Expectations(start_within="5m"),
        "run_date_calendar": "cn",
        "schedule_options": ScheduleOptions(window="08:00-20:00"),
        "flow": parse({"load": {"job": "load"}}),
        "limits": ("warehouse",),
    }
    acting(rows.database).limits.apply(LimitSpec(name="warehouse", at_once=3))
    calendars = acting(rows.database).calendars
    calendars.apply("cn", calendars.resolved(CalendarSpec(name="cn")))
    contacts = {
        "author": "ops",
        "tags": ("night",),
        "alarm_emails": ("ops@example.com",),
        "alarm_webhook": secret,
        "alarm_secret": "SEChush",
        "webhook_url": secret,
        "webhook_when": "success",
    }
    schedule = {"schedule_kind": "FIX_RATE", "schedule_value": "60", "timezone": "Asia/Shanghai"}
    apply(rows, spec(name="load"))
    apply(rows, spec(**others, **contacts, **schedule))
    commands(rows).delete("nightly")

    made, deleted = (
        json.loads(entry.after or entry.before or "")
        for entry in entries(rows.database, kind="job")
        if entry.name == "reports/nightly"
    )
    columns = Job.__mapper__.columns
    assert {columns[field.column].name for field in WRITTEN} <= made.keys() == deleted.keys()
    assert (made["retry_delay"], made["process"]) == (9, "fresh")
    assert (made["alarm_webhook"], made["alarm_secret"]) == ("***", "***")
    assert (made["webhook_when"], made["webhook_url"]) == ("success", "***")


def test_what_changes_nothing_leaves_nothing(rows: Rows) -> None:
    apply(rows, spec())
    before = deeds(rows)

    apply(rows, spec())
    apply(rows, spec(param="tried"), dry_run=True)
    commands(rows).stop("nightly")

    assert deeds(rows) == before


def test_a_refused_deed_leaves_nothing(rows: Rows) -> None:
    apply(rows, spec())
    before = deeds(rows)

    with pytest.raises(ValueError, match="no schedule"):
        commands(rows).start("nightly")

    assert deeds(rows) == before


def test_a_job_that_a_file_leaves_out_is_noted(rows: Rows) -> None:
    apply(rows, spec(), spec(name="weekly"))

    apply(rows, spec(), prune=True)

    last = entries(rows.database)[-1]
    assert (last.action, last.name) == ("job.delete", "reports/weekly")


def test_pausing_is_noted_once(rows: Rows) -> None:
    for _ in range(2):
        commands(rows).pause()
    commands(rows).resume()

    assert deeds(rows) == ["cluster.pause", "cluster.resume"]


def test_users_are_noted_without_their_passwords(rows: Rows) -> None:
    users = NamedUsers(rows.database, who="cli:ops@host")
    users.add("alice", "correct horse", role=Role.ADMINISTRATOR)
    users.set_password("alice", "battery staple")

    found = entries(rows.database)

    assert [entry.action for entry in found] == ["user.add", "user.password"]
    assert {(entry.who, entry.origin) for entry in found} == {("cli:ops@host", "cli")}
    assert not any("battery" in str(vars(entry)) for entry in found)


def test_a_long_value_is_cut_and_a_webhook_is_hidden(rows: Rows) -> None:
    after = {"executor_param": "x" * 10_000, "alarm_webhook": "https://hook.example/token"}
    one = AuditLog(who="alice")

    rows.database.write(
        lambda session: one.note(session, Action.JOB_UPDATE, "a/b", now_ms=NOW, after=after)
    )

    kept = json.loads(entries(rows.database)[0].after or "")
    assert len(kept["executor_param"]) == MAX_VALUE_LENGTH + 1
    assert is_cut(kept["executor_param"])
    assert kept["alarm_webhook"] == "***"


def test_the_listing_filters_and_goes_on_where_it_stopped(rows: Rows) -> None:
    apply(rows, *[spec(name=f"job-{number}") for number in range(5)])

    first = entries(rows.database, kind="job", limit=3)
    rest = entries(rows.database, kind="job", limit=3, before_id=first[0].id)

    assert [entry.name[-1] for entry in rest + first] == list("01234")
    assert entries(rows.database, who="bob") == []
    assert entries(rows.database, since_ms=NOW + 1) == []
    assert len(entries(rows.database, until_ms=NOW + 1, action="app.create")) == 1


class TestReach:
    @pytest.fixture
    def foreign(self, rows: Rows) -> NamedCommands:
        """NamedCommands of somebody who may touch another app only."""
        apply(rows, spec(schedule_kind="FIX_RATE", schedule_value="60"))
        other = rows.app("mails")
        return commands(rows, app_ids=frozenset({other}))

    def test_jobs_of_other_apps_are_not_there(self, foreign: NamedCommands) -> None:
        for act in (foreign.start, foreign.stop, foreign.delete):
            with pytest.raises(Problem, match="no job with id"):
                act("nightly")
        with pytest.raises(Problem, match="no job with id"):
            foreign.trigger("reports/nightly", param=None, addresses=[])

    def test_runs_of_other_apps_are_not_there(self, rows: Rows, foreign: NamedCommands) -> None:
        run_id = commands(rows).trigger("nightly", param=None, addresses=[])

        with pytest.raises(Problem, match="no run with id"):
            foreign.kill(run_id)

        [row] = rows.database.read(lambda session: transitions.lock(session, [run_id]))
        assert row.status == "PLANNED"

    def test_other_apps_cannot_be_changed(self, foreign: NamedCommands) -> None:
        with pytest.raises(Problem, match="unknown app 'reports'"):
            foreign.apply([], [spec(param="mine now")], dry_run=False, prune=False)


class TestFirstAdministrator:
    def test_is_made_once(self, rows: Rows) -> None:
        users = NamedUsers(rows.database, who="console")

        first, second = users.add_first(), users.add_first()

        assert first is not None
        assert len(first) == 16
        assert second is None

    def test_is_not_made_beside_others(self, rows: Rows) -> None:
        users = NamedUsers(rows.database, who="console")
        users.add("alice", "correct horse", role=Role.ADMINISTRATOR)

        assert users.add_first() is None


def test_clearing_runs_is_noted_before_the_first_one_goes_and_a_dry_run_is_not(rows: Rows) -> None:
    job_id = rows.job("nightly")
    rows.run(job_id, NOW - 2_000, status="SUCCEEDED")
    noted: list[list[str]] = []

    assert commands(rows).clear_runs(ClearingCriteria(job_id=job_id), dry_run=True) == 1
    assert deeds(rows) == []

    criteria = ClearingCriteria(job_id=job_id, keep=0)
    count = commands(rows).clear_runs(
        criteria, on_progress=lambda _count: noted.append(deeds(rows))
    )
    assert (count, noted) == (1, [["run.clear"]])
    [entry] = entries(rows.database)
    assert json.loads(entry.after or "") == {"job_id": job_id, "keep": 0}


@pytest.mark.parametrize("whose", ["job", "app", "all"])
def test_whoever_may_touch_another_app_only_clears_nothing(rows: Rows, whose: str) -> None:
    job_id = rows.job("nightly")
    rows.run(job_id, NOW - 2_000, status="SUCCEEDED")
    other, own = rows.app("other"), rows.app("reports")
    criteria = {
        "job": ClearingCriteria(job_id=job_id),
        "app": ClearingCriteria(app_id=own),
        "all": ClearingCriteria(),
    }[whose]

    with pytest.raises(Problem, match="no such job or app"):
        commands(rows, app_ids=frozenset({other})).clear_runs(criteria)

    assert commands(rows, app_ids=frozenset({own})).clear_runs(ClearingCriteria(app_id=own)) == 1
