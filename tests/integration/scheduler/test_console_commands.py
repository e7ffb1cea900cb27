"""What two administrators or authors do at the same time, on MariaDB."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.acting import NamedUsers, acting
from tests.support.stored_rows import Rows
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import users
from warren.sql.accounts.users import Role, UserFilter
from warren.sql.errors import NotFound
from warren.sql.jobs import job_rows, script_versions
from warren.sql.listings import app_listing
from warren.sql.models import Job

PASSWORD = "correct horse battery"
NOW = 1_800_000_000_000


@pytest.fixture
def rows(mariadb_schema_url: str) -> Iterator[Rows]:
    rows = Rows(mariadb_schema_url)
    yield rows
    rows.database.close()


def outcomes(*acts: Callable[[], object]) -> list[str]:
    """Do things at the same time; return what each came to, in alphabetical order."""

    def outcome(act: Callable[[], object]) -> str:
        try:
            act()
        except Problem as problem:
            return problem.code.name
        except NotFound:
            return "NotFound"
        return "done"

    with ThreadPoolExecutor(len(acts)) as pool:
        return sorted(pool.map(outcome, acts))


def test_two_administrators_who_delete_each_other_leave_one(rows: Rows) -> None:
    for name in ("alice", "barbara"):
        NamedUsers(rows.database, who="cli").add(name, PASSWORD, role=Role.ADMINISTRATOR)
    alice = NamedUsers(rows.database, who="alice")
    barbara = NamedUsers(rows.database, who="barbara")

    found = outcomes(lambda: alice.delete("barbara"), lambda: barbara.delete("alice"))

    assert found == ["LAST_ADMINISTRATOR", "done"]
    assert len(rows.database.read(users.listing)) == 1
    listed = rows.database.read(lambda session: users.filtered(session, UserFilter()))
    assert listed[0].user.role == Role.ADMINISTRATOR


def test_of_two_who_save_a_script_at_once_one_is_told(rows: Rows) -> None:
    job_id = rows.job("script")

    def first(session: Any) -> int:
        job = session.get(Job, job_id)
        return script_versions.save(
            session,
            job,
            script_type="GLUE_SHELL",
            source="echo",
            remark="first",
            author="x",
            now_ms=NOW,
        )

    based_on = rows.database.write(first)

    def save(who: str) -> Callable[[], object]:
        commands = acting(rows.database, lambda: NOW, who=who, origin="cli").scripts
        return lambda: commands.save(job_id, f"echo {who}", remark="mine", based_on=based_on)

    assert outcomes(save("a"), save("b")) == ["SCRIPT_CHANGED", "done"]
    assert len(rows.database.read(lambda session: script_versions.versions(session, job_id))) == 2


def test_scripts_given_to_a_job_at_once_get_numbers_of_their_own(rows: Rows) -> None:
    job_id = rows.job("script")

    def give(source: str) -> Callable[[], object]:
        def unit(session: Any) -> int:
            job = job_rows.lock(session, job_id)
            return script_versions.save(
                session,
                job,
                script_type="GLUE_SHELL",
                source=source,
                remark="",
                author="x",
                now_ms=NOW,
            )

        return lambda: rows.database.write(unit)

    assert outcomes(*(give(f"echo {number}") for number in range(4))) == ["done"] * 4
    listed = rows.database.read(lambda session: script_versions.versions(session, job_id))
    assert [one.number for one in listed] == [4, 3, 2, 1]


def test_app_is_deleted_when_its_last_job_is_gone_and_counted_until_then(rows: Rows) -> None:
    job_id = rows.job("one", app="doomed")
    app_id = rows.app("doomed")
    commands = acting(rows.database, lambda: NOW, who="alice", origin="cli").apps

    with pytest.raises(Problem) as refused:
        commands.delete(app_id)

    assert refused.value.code is Code.APP_IN_USE
    assert (refused.value.facts["jobs"], refused.value.facts["job_count"]) == (["one"], 1)
    listed = rows.database.read(lambda session: app_listing.listing(session, None, limit=10))
    assert [(app.name, jobs) for app, jobs in listed] == [("doomed", 1)]
    rows.database.write(lambda session: session.delete(session.get(Job, job_id)))
    assert outcomes(lambda: commands.delete(app_id), lambda: commands.delete(app_id)) == [
        "NotFound",
        "done",
    ]
