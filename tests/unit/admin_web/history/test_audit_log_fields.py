"""The audit log shows what changed by the labels of the forms, with names instead of ids."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tests.support.acting import acting
from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.stored_rows import Rows
from warren.admin_web.pages.history import LISTED
from warren.scheduler.alarms.events import AlarmTargets
from warren.scheduler.commands.tokens.scopes import Scope
from warren.scheduler.commands.tokens.token_commands import TokenSpec
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.accounts import audit_log
from warren.sql.accounts.idempotency import FormKey
from warren.sql.accounts.users import Rights, Role
from warren.sql.engine import Database
from warren.sql.registry.apps import ids_by_name


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
