"""Versions of scripts, on both databases."""

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from warren.sql.engine import Database
from warren.sql.errors import NotFound
from warren.sql.explanation import Explanation
from warren.sql.ids import RunIds
from warren.sql.jobs import script_versions
from warren.sql.models import App, Job, ScriptVersion
from warren.sql.run_status import Kind, RunStatus
from warren.sql.runs import planned_runs, transitions

NOW_MS = 1_700_000_000_500


@pytest.fixture
def job_id(database: Database) -> int:
    def unit(session: Session) -> int:
        app = App(name="reports", title="reports")
        session.add(app)
        session.flush()
        job = Job(app_id=app.id, name="nightly")
        session.add(job)
        session.flush()
        return job.id

    return database.write(unit)


def save(database: Database, job_id: int, source: str, remark: str = "") -> int:
    return database.write(
        lambda session: script_versions.save(
            session,
            session.get_one(Job, job_id),
            script_type="GLUE_SHELL",
            source=source,
            remark=remark,
            author="ops",
            now_ms=NOW_MS,
        )
    )


def plan(database: Database, job_id: int, script_version: int) -> int:
    ids = RunIds(database)

    def unit(session: Session) -> int:
        run = planned_runs.NewRun(
            app_id=session.get_one(Job, job_id).app_id,
            job_id=job_id,
            handler="",
            param="",
            kind=Kind.MANUAL,
            scheduled_at=NOW_MS,
            due_at=NOW_MS,
            retries_left=0,
            origin_id=None,
            script_version=script_version,
        )
        return planned_runs.plan(session, [run], ids)[0]

    return database.write(unit)


def kept(database: Database, job_id: int) -> list[int]:
    return [
        row.id for row in database.read(lambda session: script_versions.versions(session, job_id))
    ]


def numbers(database: Database, job_id: int) -> list[int]:
    listed = database.read(lambda session: script_versions.versions(session, job_id))
    return [row.number for row in listed]


def test_saved_version_is_the_jobs_current_script(database: Database, job_id: int) -> None:
    first = save(database, job_id, "echo 1")

    second = save(database, job_id, "echo grüße 😀", "warmer")

    def current(session: Session) -> tuple[object, ...]:
        job = session.get_one(Job, job_id)
        return job.script_version, job.script_type, job.script_source, job.script_remark

    assert second > first
    assert database.read(current) == (second, "GLUE_SHELL", "echo grüße 😀", "warmer")


def test_versions_are_listed_newest_first_with_their_size(database: Database, job_id: int) -> None:
    first = save(database, job_id, "echo 1", "begun")
    second = save(database, job_id, "é", "shorter")

    listed = database.read(lambda session: script_versions.versions(session, job_id))

    assert [(row.id, row.remark, row.author, row.size) for row in listed] == [
        (second, "shorter", "ops", 2),
        (first, "begun", "ops", 6),
    ]


def test_versions_are_numbered_from_one_in_each_job(database: Database, job_id: int) -> None:
    other = database.write(lambda session: _add_job(session, "other"))
    for job in (job_id, other, job_id):
        save(database, job, "echo 1")

    assert numbers(database, job_id) == [2, 1]
    assert numbers(database, other) == [1]


def test_numbers_go_on_when_the_oldest_versions_are_gone(database: Database, job_id: int) -> None:
    for number in range(33):
        save(database, job_id, f"echo {number}")

    assert numbers(database, job_id) == list(range(33, 3, -1))


def test_numbers_go_on_when_a_job_has_a_script_again(database: Database, job_id: int) -> None:
    save(database, job_id, "echo 1")
    database.write(lambda session: script_versions.detach(session.get_one(Job, job_id)))
    save(database, job_id, "echo 2")

    assert numbers(database, job_id) == [2, 1]


def test_one_version_is_read_with_its_source_and_for_its_job_only(
    database: Database, job_id: int
) -> None:
    script_version = save(database, job_id, "echo 1")

    found = database.read(lambda session: script_versions.version(session, job_id, script_version))

    assert (found.source, found.script_type) == ("echo 1", "GLUE_SHELL")
    with pytest.raises(
        NotFound, match=f"NO_SCRIPT_VERSION id={job_id + 1} version={script_version}"
    ):
        database.read(lambda session: script_versions.version(session, job_id + 1, script_version))


def test_the_last_thirty_versions_are_kept(database: Database, job_id: int) -> None:
    saved = [save(database, job_id, f"echo {number}") for number in range(33)]

    assert kept(database, job_id) == saved[:2:-1]


def test_version_that_an_open_run_names_is_kept_until_the_run_is_over(
    database: Database, job_id: int
) -> None:
    oldest = save(database, job_id, "echo oldest")
    save(database, job_id, "echo unused")
    run_id = plan(database, job_id, oldest)
    saved = [save(database, job_id, f"echo {number}") for number in range(30)]
    assert kept(database, job_id) == [*reversed(saved), oldest]

    over = transitions.FinalState(
        run_id=run_id, status=RunStatus.CANCELLED, message=Explanation(), finished_at=NOW_MS
    )
    database.write(lambda session: transitions.end(session, [over]))
    newest = save(database, job_id, "echo newest")

    assert kept(database, job_id) == [newest, *reversed(saved[1:])]


def test_other_jobs_versions_are_left_alone(database: Database, job_id: int) -> None:
    other = database.write(lambda session: _add_job(session, "other"))
    theirs = save(database, other, "echo theirs")

    for number in range(31):
        save(database, job_id, f"echo {number}")
    database.write(lambda session: script_versions.forget(session, job_id))

    assert kept(database, job_id) == []
    assert kept(database, other) == [theirs]


def test_id_of_a_forgotten_version_is_never_given_again(database: Database, job_id: int) -> None:
    forgotten = save(database, job_id, "echo 1")
    database.write(lambda session: script_versions.forget(session, job_id))

    assert save(database, job_id, "rm -rf /") > forgotten


def test_remark_is_changed_on_job_and_version(database: Database, job_id: int) -> None:
    script_version = save(database, job_id, "echo 1", "typo")

    database.write(
        lambda session: script_versions.set_remark(
            session, session.get_one(Job, job_id), "better", now_ms=NOW_MS + 9_000
        )
    )

    found = database.read(lambda session: script_versions.version(session, job_id, script_version))
    assert (found.remark, found.source) == ("better", "echo 1")


def test_sources_are_read_for_those_that_exist(database: Database, job_id: int) -> None:
    script_version = save(database, job_id, "x" * 524_288)

    found = database.read(
        lambda session: script_versions.sources(session, [script_version, script_version + 1])
    )

    assert found == {script_version: ("GLUE_SHELL", "x" * 524_288)}


def test_list_of_jobs_leaves_sources_in_the_database(database: Database, job_id: int) -> None:
    save(database, job_id, "echo 1")

    def loaded(session: Session) -> bool:
        return "script_source" in session.execute(select(Job)).scalar_one().__dict__

    assert not database.read(loaded)


def _add_job(session: Session, name: str) -> int:
    job = Job(app_id=session.execute(select(App.id)).scalar_one(), name=name)
    session.add(job)
    session.flush()
    assert session.execute(select(ScriptVersion.id)).first() is None
    return job.id
