"""Bulk work of somebody whose rights change: it does what the user may at that moment."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from flask import Flask

from tests.support.acting import NamedUsers
from tests.support.console import Clock, Visit, signed_in
from tests.support.eventually import eventually
from tests.support.sql_rows import all_runs
from tests.support.stored_rows import Rows
from tests.unit.admin_web.bulk import test_bulk_runs
from tests.unit.admin_web.bulk.test_bulk_jobs import CRON, begin, ended, states
from warren.scheduler.commands.bulk_commands import BulkJobCommands, BulkRunCommands
from warren.scheduler.commands.reruns import Part
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable

NO_ACCESS = "Not found, or no permission: 1"


@pytest.fixture
def many(rows: Rows) -> None:
    """More jobs than are started in one part, which has 20."""
    for number in range(45):
        rows.job(f"night-{number}", **CRON)


def give(database: Database, *app_names: str, role: Role = Role.OPERATOR) -> None:
    NamedUsers(database, who="admin").set_rights("operator", role=role, app_names=app_names)


def lost(*_: object) -> Iterator[Part]:
    raise DatabaseUnavailable("lost for a moment")


def resume(visit: Visit, kind: str, path: str) -> None:
    """Continue the work whose page has this path."""
    visit.get(path)
    visit.post(f"/{kind}/bulk/resume", {"key": path.rpartition("=")[2]})


def after_first_part(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once, when the first part of the jobs has started and the next has not."""
    start, to_do = BulkJobCommands.start, [act]

    def watched(commands: BulkJobCommands, job_ids: Sequence[int]) -> Iterator[Part]:
        parts = start(commands, job_ids)
        first = next(parts)
        while to_do:
            to_do.pop()()
        yield first
        yield from parts

    monkeypatch.setattr(BulkJobCommands, "start", watched)


def nothing_is_running() -> bool:
    return all(thread.name != "bulk-work" for thread in threading.enumerate())


def test_a_resumed_delete_leaves_the_jobs_of_an_app_that_was_taken_away(
    app: Flask, database: Database, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.job("mine", **CRON)
    rows.job("theirs", "mails", **CRON)
    give(database, "reports", "mails")
    operator = signed_in(app, "operator")
    with monkeypatch.context() as outage:
        outage.setattr(BulkJobCommands, "delete", lost)
        path = begin(operator, "ask-delete", "")
        assert "Database error." in ended(operator, path, "interrupted")

    give(database, "reports")
    operator = signed_in(app, "operator")
    resume(operator, "jobs", path)
    page = ended(operator, path)

    assert "Deleted: 1" in page
    assert NO_ACCESS in page
    assert states(database) == {"theirs": 0}


def test_a_resumed_kill_leaves_the_runs_of_an_app_that_was_taken_away(
    app: Flask, database: Database, rows: Rows, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.run(rows.job("mine"), clock.now - 1_000, status="PLANNED")
    theirs = rows.run(rows.job("theirs", "mails"), clock.now - 1_000, app="mails", status="PLANNED")
    give(database, "reports", "mails")
    operator = signed_in(app, "operator")
    with monkeypatch.context() as outage:
        outage.setattr(BulkRunCommands, "kill", lost)
        asked = {"action": "kill", "all": "1", "filter": ""}
        question = operator.get("/runs/bulk/ask", query_string=asked).text
        form: dict[str, Any] = test_bulk_runs.hidden(question)
        path = operator.post("/runs/bulk/start", form).location
        ended(operator, path, "interrupted")

    give(database, "reports")
    operator = signed_in(app, "operator")
    resume(operator, "runs", path)

    assert NO_ACCESS in ended(operator, path)
    open_runs = [run.id for run in all_runs(database) if run.status == "PLANNED"]
    assert open_runs == [theirs]


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(
    "act",
    [
        lambda users: users.disable("operator"),
        lambda users: users.set_password("operator", "a temporary password", must_change=True),
    ],
    ids=["disabled", "password reset"],
)
def test_work_stops_after_the_present_part_if_its_user_may_not_sign_in_as_before(
    app: Flask,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[NamedUsers], object],
) -> None:
    users = NamedUsers(database, who="admin")
    operator = signed_in(app, "operator")
    after_first_part(monkeypatch, lambda: act(users))

    begin(operator, "start", "")
    eventually(nothing_is_running)

    assert sum(states(database).values()) == 20


@pytest.mark.usefixtures("many")
def test_whoever_has_other_rights_is_told_and_may_continue_with_those(
    app: Flask, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = signed_in(app, "operator")
    after_first_part(monkeypatch, lambda: give(database, "reports", "mails"))

    path = begin(operator, "start", "")
    eventually(nothing_is_running)
    operator = signed_in(app, "operator")
    page = ended(operator, path, "interrupted")
    resume(operator, "jobs", path)
    continued = ended(operator, path)

    assert "Your permissions have changed." in page
    assert "20 of 45" in page
    assert "Already started: 20" in continued
    assert sum(states(database).values()) == 45


@pytest.mark.usefixtures("many")
def test_another_password_of_ones_own_stops_nothing(
    app: Flask, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = NamedUsers(database, who="operator")
    operator = signed_in(app, "operator")
    after_first_part(monkeypatch, lambda: own.set_password("operator", "a password of my own"))

    begin(operator, "start", "")
    eventually(nothing_is_running)

    assert sum(states(database).values()) == 45
