"""The history of a job, and entries of the audit log as people read them."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from flask import Flask

from tests.support.acting import NamedUsers, acting
from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.stored_rows import Rows
from warren.admin_web.pages.history import LISTED
from warren.resources.operation import Scope
from warren.scheduler.alarms.events import AlarmTargets
from warren.scheduler.commands.account_commands import TokenSpec
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.accounts.idempotency import FormKey
from warren.sql.accounts.users import Rights, Role
from warren.sql.engine import Database
from warren.sql.jobs import job_names
from warren.sql.models import Job
from warren.sql.registry.apps import ids_by_name

SPEC = JobSpec(name="nightly", app="reports", handler="report.daily", tags=("night",), retries=1)
HOOK = "https://hooks.example.com/secret"


@pytest.fixture
def job_id(database: Database, clock: Clock) -> int:
    """A job that was made, changed twice, started and stopped."""
    commands = acting(database, clock.now_ms, who="alice").jobs
    made = commands.create(SPEC)
    cron = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?"}
    for changes in (
        {"retries": 5, "param": "x"},
        {
            "retries": 5,
            "param": "y",
            "route": "ROUND",
            "process": "fresh",
            "alarm_webhook": HOOK,
            **cron,
        },
    ):
        clock.pass_seconds(60)
        values = {
            "name": "nightly",
            "app": "reports",
            "handler": "report.daily",
            "tags": ("night",),
        }
        commands.update(made, JobSpec(**values | changes), seen=None)
    commands.start(made)
    commands.stop(made)
    return made


def entries(database: Database) -> dict[str, int]:
    """Return the ids of the first entry of each action on jobs."""
    wanted = AuditFilter(kind="job")
    found = database.read(lambda session: audit_log.listing(session, wanted))
    return {entry.action: entry.id for entry in found}


def field(page: str, name: str) -> str:
    found = re.search(rf'<input[^>]*name="{name}"[^>]*value="([^"]*)"', page)
    return found[1] if found else ""


def text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def the_job(database: Database) -> Job:
    return database.read(lambda session: job_names.find(session, "nightly"))


def test_each_change_is_told_by_the_names_of_fields(admin: Visit, job_id: int) -> None:
    page = admin.get(f"/jobs/{job_id}/history").text

    for words in (
        "Retries 1 5",
        "Parameter x y",
        "Route default round robin",
        "Process default new for each run",
        "alice",
    ):
        assert words in text(page), words
    assert "executor_fail_retry_count" not in page
    assert page.count("<tr>") > 5


def test_two_versions_are_compared(
    admin: Visit, app: Flask, database: Database, job_id: int
) -> None:
    made, stopped = entries(database)["job.create"], entries(database)["job.stop"]
    address = f"/jobs/{job_id}/history?from={made}&to={stopped}"

    page = text(admin.get(address).text)

    compared = page[page.index("Compared") : page.index("Compare selected")]
    assert "Retries 1 5" in compared
    assert "Parameter y" in compared
    assert "Handler" not in compared
    assert "webhook" in compared
    assert HOOK not in page + signed_in(app, "viewer").get(address).text


def test_a_version_is_restored_through_the_form(
    admin: Visit, database: Database, job_id: int
) -> None:
    first = entries(database)["job.create"]

    page = admin.get(f"/jobs/{job_id}/edit?version={first}").text

    assert "Nothing changes until you save." in page
    assert the_job(database).retries == 5
    assert field(page, "retries") == "1"
    assert field(page, "tags") == "night"
    form = {"name": "nightly", "handler": "report.daily", "schedule_kind": "NONE"}
    form |= {"route": "FIRST", "block": "SERIAL_EXECUTION", "misfire": "DO_NOTHING", "retries": "1"}
    form |= {"delivery": "AT_MOST_ONCE", "concurrency": "1", "timeout": "0", "retry_delay": "0"}
    saved = admin.post(f"/jobs/{job_id}/save", form | {"seen": field(page, "seen")})
    assert saved.status_code == 303
    assert the_job(database).retries == 1


def test_a_deleted_job_is_restored_as_a_new_one(
    admin: Visit, database: Database, clock: Clock, job_id: int
) -> None:
    acting(database, clock.now_ms, who="bob").jobs.delete([job_id])
    gone = entries(database)["job.delete"]

    history = admin.get(f"/jobs/{job_id}/history").text
    page = admin.get(f"/jobs/new?restore={job_id}&version={gone}").text

    assert "This job was deleted." in history
    assert f"/jobs/new?restore={job_id}&amp;version={gone}" in history
    assert field(page, "name") == "nightly"
    assert field(page, "retries") == "5"
    assert field(page, "cron") == "0 0 2 * * ?"
    assert "alarm_webhook" in page
    assert HOOK not in page + history


def test_a_job_that_is_often_triggered_keeps_its_history(
    admin: Visit, database: Database, job_id: int
) -> None:
    trigger = {"at": 1, "who": "etl", "origin": "api", "action": "job.trigger", "kind": "job"}
    trigger |= {"object_id": job_id, "name": "reports/nightly", "before": None, "after": None}
    database.write(lambda session: audit_log.add_many(session, [trigger] * 2_500))

    page = text(admin.get(f"/jobs/{job_id}/history").text)

    assert "Retries 1 5" in page


def test_whoever_gets_a_new_app_of_an_old_name_does_not_see_the_old_ones_jobs(
    admin: Visit, app: Flask, database: Database, clock: Clock, job_id: int
) -> None:
    commands, address = acting(database, clock.now_ms, who="alice"), f"/jobs/{job_id}/history"
    commands.jobs.delete([job_id])
    assert signed_in(app, "viewer").get(address).status_code == 200
    commands.apps.delete(database.read(ids_by_name)["reports"])
    commands.apps.add(AppSpec(name="reports"))
    users = NamedUsers(database, who="alice")
    users.set_rights("viewer", role=Role.VIEWER, app_names=["reports"])

    assert signed_in(app, "viewer").get(address).status_code == 404
    assert admin.get(address).status_code == 200


def test_the_history_of_a_foreign_job_is_not_there(
    app: Flask, database: Database, clock: Clock, job_id: int
) -> None:
    stranger = signed_in(app, "stranger")
    made = entries(database)["job.create"]

    assert stranger.get(f"/jobs/{job_id}/history").status_code == 404
    assert stranger.get(f"/jobs/{job_id}/edit?version={made}").status_code == 404
    acting(database, clock.now_ms).jobs.delete([job_id])
    assert stranger.get(f"/jobs/{job_id}/history").status_code == 404
    assert stranger.get(f"/jobs/new?restore={job_id}&version={made}").status_code == 404
    assert signed_in(app, "viewer").get(f"/jobs/{job_id}/history").status_code == 200


def test_the_audit_log_names_fields_and_links_what_it_names(admin: Visit, job_id: int) -> None:
    page = admin.get("/audit?kind=job").text

    assert f'<a href="/jobs/{job_id}/history">reports/nightly</a>' in page
    assert "Retries" in page
    assert "executor_fail_retry_count" not in page


def test_the_audit_log_links_executors_and_a_pause(admin: Visit, rows: Rows, clock: Clock) -> None:
    rows.executor("host-1", clock.now, "{}")
    admin.post("/executors/drain", {"app": "reports", "address": "host-1"})
    admin.post("/schedulers/pause", {"reason": "a move"})

    page = admin.get("/audit").text

    assert '<a href="/executors?app=reports&amp;address=host-1">host-1</a>' in page
    assert '<a href="/schedulers">' in page


def test_a_version_that_is_none_is_not_there(admin: Visit, job_id: int) -> None:
    assert admin.get(f"/jobs/{job_id}/edit?version=999999").status_code == 404
    assert admin.get("/jobs/999999/history").status_code == 404


def changes(visit: Visit, kind: str) -> str:
    """Return the fields that the audit log shows of one kind, as text."""
    page = visit.get(f"/audit?kind={kind}").text
    tables = re.findall(r'<table class="inner">.*?</table>', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", " ".join(tables)).split())


def test_rights_are_shown_by_their_labels_and_apps_by_name(
    admin: Visit, database: Database, clock: Clock
) -> None:
    users = acting(database, clock.now_ms).users
    apps = database.read(ids_by_name)
    olga = users.add("olga", None, Rights(role=Role.VIEWER, app_ids=(apps["reports"],)))

    users.set_rights(
        olga, Rights(role=Role.OPERATOR, app_ids=tuple(apps.values()), may_edit_glue=True)
    )
    users.set_rights(olga, Rights(role=Role.ADMINISTRATOR))

    shown = changes(admin, "user")
    assert "Role viewer operator" in shown
    assert "Apps reports reports, mails" in shown
    assert "Apps reports, mails all" in shown
    assert "Can edit scripts no yes" in shown
    assert "yes yes" not in shown
    assert "app ids" not in shown


def test_an_apps_settings_are_shown_by_their_labels(
    admin: Visit, database: Database, clock: Clock
) -> None:
    spec = AppSpec(
        name="reports",
        title="Daily reports",
        addresses=("one", "two"),
        alarm=AlarmTargets(emails=("ops@example.com",)),
    )

    acting(database, clock.now_ms).apps.change(database.read(ids_by_name)["reports"], spec)

    shown = changes(admin, "app")
    assert "Title reports Daily reports" in shown
    assert "Addresses one,two" in shown
    assert "Alarm e-mail ops@example.com" in shown
    assert "Webhook" not in shown


def test_the_end_of_a_pause_is_a_time_of_the_viewer(
    admin: Visit, database: Database, clock: Clock
) -> None:
    ends_at = clock.now + 3_600_000

    acting(database, clock.now_ms).cluster.pause(reason="new disks", until_ms=ends_at)

    assert "Reason new disks Until 2027-01-15 09:00:00" in changes(admin, "cluster")


def test_a_killed_run_is_shown_with_its_job_and_state(
    admin: Visit, database: Database, rows: Rows, clock: Clock
) -> None:
    run_id = rows.run(rows.job("nightly"), clock.now - 1_000, status="RUNNING")

    acting(database, clock.now_ms).runs.kill(run_id)

    assert changes(admin, "run") == "State running Job reports/nightly"


def test_a_tokens_jobs_are_named_and_its_end_is_a_time(
    admin: Visit, database: Database, rows: Rows, clock: Clock
) -> None:
    owner = acting(database, clock.now_ms).users.add(
        "program", None, Rights(role=Role.ADMINISTRATOR)
    )
    spec = TokenSpec(
        name="ci", owner_id=owner, scopes=[Scope.TRIGGER], job_ids=[rows.job("nightly")], days=1
    )

    acting(database, clock.now_ms).tokens.add(spec)

    shown = changes(admin, "token")
    assert "Jobs reports/nightly" in shown
    assert "Expires 2027-01-16 08:00:00" in shown


def test_child_jobs_are_named_as_far_as_the_viewer_may_see_them(
    admin: Visit, database: Database, rows: Rows, clock: Clock
) -> None:
    child = rows.job("mail-report")

    parent = acting(database, clock.now_ms).jobs.create(
        JobSpec(name="nightly", app="reports", handler="h", children=("mail-report",))
    )

    page = admin.get(f"/jobs/{parent}/history").text
    assert "Process" not in page
    assert f'<ins><a href="/jobs/{child}">reports/mail-report</a></ins>' in page


def test_an_entry_about_many_runs_links_the_first_of_them_and_exports_all(
    admin: Visit, database: Database, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    ids = [rows.run(job_id, clock.now + number, status="FAILED") for number in range(LISTED + 3)]

    list(acting(database, clock.now_ms).bulk_runs.again(ids, FormKey(user_id=1, key="form")))

    page = admin.get("/audit?kind=run").text
    shown = changes(admin, "run")
    assert f'<a href="/runs/{ids[0]}">{ids[0]}</a>, <a href="/runs/{ids[1]}">' in page
    assert page.count('<a href="/runs/') == 2 * LISTED
    assert shown.count("3 more") == 2
    exported = admin.get("/audit?kind=run&format=json").get_json()
    assert exported[0]["after"]["runs"] == ids


@pytest.mark.usefixtures("admin")
def test_a_day_of_25_hours_has_all_its_entries(database: Database, clock: Clock) -> None:
    admin = signed_in(make_app(database, clock, cluster_zone=lambda: "Europe/Berlin"), "admin")
    late = datetime(2026, 10, 25, 23, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    entry = {"at": int(late.timestamp() * 1000), "who": "night", "origin": "cli", "kind": "app"}
    entry |= {"action": "app.update", "object_id": 1, "name": "late", "before": None, "after": None}
    database.write(lambda session: audit_log.add_many(session, [entry]))

    def names(day: str) -> list[str]:
        lines = admin.get(f"/audit?since={day}&until={day}&format=csv").text.splitlines()
        return [line for line in lines if "late" in line]

    assert len(names("2026-10-25")) == 1
    assert names("2026-10-26") == []
    assert admin.get("/audit?until=9999-12-31").status_code == 200
