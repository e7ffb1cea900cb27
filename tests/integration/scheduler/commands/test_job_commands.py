"""Jobs made and changed by a form: what two people at once, and a second time, make of it."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.acting import acting
from tests.support.stored_rows import Rows
from warren.scheduler.commands.job_edits import UNCHANGED
from warren.scheduler.jobs.records import fingerprint
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Problem, Refused
from warren.sql.engine import Database
from warren.sql.models import Job

NOW_MS = 1_800_000_000_000
BOTH = pytest.mark.parametrize("schema_url", ["mariadb", "sqlite"], indirect=True)


@pytest.fixture
def rows(schema_url: str) -> Iterator[Rows]:
    rows = Rows(schema_url)
    yield rows
    rows.database.close()


def commands(database: Database, app_ids: Any = None) -> Any:
    return acting(database, lambda: NOW_MS, who="ann", origin="10.0.0.1", app_ids=app_ids).jobs


def seen(database: Database, job_id: int) -> str:
    return fingerprint(database.read(lambda s: commands(database).read(s, job_id)[1]))


def at_once(*acts: Any) -> list[Any]:
    """Do things at the same time; return what each gave or raised."""
    found: list[Any] = [None] * len(acts)
    start = threading.Barrier(len(acts))

    def run(rank: int, act: Any) -> None:
        start.wait()
        try:
            found[rank] = act()
        except Exception as error:  # noqa: BLE001 - it is what the test looks at
            found[rank] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@BOTH
def test_of_two_people_who_save_at_once_one_is_told(rows: Rows) -> None:
    database, job_id = rows.database, rows.job("nightly")
    token = seen(database, job_id)

    def save(handler: str) -> Any:
        spec = JobSpec(name="nightly", app="reports", handler=handler)
        return lambda: commands(database).update(job_id, spec, seen=token)

    found = at_once(save("first"), save("second"))

    assert [isinstance(one, Refused) for one in found].count(True) == 1
    saved = database.read(lambda s: s.get_one(Job, job_id).handler)
    assert saved == ("first", "second")[0 if isinstance(found[1], Refused) else 1]


@BOTH
def test_of_two_jobs_of_one_name_made_at_once_one_is_refused(rows: Rows) -> None:
    rows.app("reports")
    spec = JobSpec(name="nightly", app="reports", handler="h")

    found = at_once(*[lambda: commands(rows.database).create(spec)] * 2)

    refused = [one for one in found if isinstance(one, Refused)]
    assert [problem.field for one in refused for problem in one.problems] == ["name"]
    assert sum(isinstance(one, int) for one in found) == 1


@BOTH
def test_two_people_close_no_circle_between_them(rows: Rows) -> None:
    database = rows.database
    a, b = rows.job("a"), rows.job("b")
    tokens = {job_id: seen(database, job_id) for job_id in (a, b)}

    def adopt(job_id: int, name: str, child: str) -> Any:
        spec = JobSpec(name=name, app="reports", handler="report", children=(child,))
        return lambda: commands(database).update(job_id, spec, seen=tokens[job_id])

    found = at_once(adopt(a, "a", "b"), adopt(b, "b", "a"))

    [refused] = [one for one in found if isinstance(one, Refused)]
    assert [problem.field for problem in refused.problems] == ["children"]
    assert "cycle" in str(refused)


@BOTH
def test_deleting_is_all_or_nothing(rows: Rows) -> None:
    database = rows.database
    mine, theirs = rows.job("mine"), rows.job("theirs", app="mails")

    with pytest.raises(Refused, match="no job with id"):
        commands(database, {rows.app("reports")}).delete([mine, theirs])

    assert database.read(lambda s: s.get(Job, mine)) is not None


@BOTH
def test_saving_what_was_there_changes_nothing(rows: Rows) -> None:
    database, job_id = rows.database, rows.job("nightly")
    before = database.read(lambda s: s.get_one(Job, job_id).update_time)
    spec = database.read(lambda s: commands(database).read(s, job_id)[1])

    done = commands(database).update(job_id, spec, seen=fingerprint(spec))

    assert done == UNCHANGED
    assert database.read(lambda s: s.get_one(Job, job_id).update_time) == before


@BOTH
def test_an_enabled_job_takes_no_schedule_that_never_fires(rows: Rows) -> None:
    database = rows.database
    rows.app("reports")
    good = JobSpec(
        name="n",
        app="reports",
        handler="h",
        schedule_kind="FIX_RATE",
        schedule_value="5",
        enabled=True,
    )
    job_id = commands(database).create(good)

    for kind, conf in (("NONE", ""), ("AT", "2020-01-01T00:00:00Z")):
        spec = JobSpec(
            name="n", app="reports", handler="h", schedule_kind=kind, schedule_value=conf
        )
        with pytest.raises(Refused) as refused:
            commands(database).update(job_id, spec, seen=seen(database, job_id))
        assert [problem.field for problem in refused.value.problems] == ["schedule"]

    assert database.read(lambda s: s.get_one(Job, job_id).schedule_kind) == "FIX_RATE"


@BOTH
def test_a_job_whose_schedule_is_over_is_not_started_and_says_why(rows: Rows) -> None:
    job_id = rows.job(
        "old",
        schedule_kind="CRON",
        schedule_value="0 0 6 * * ?",
        schedule_options='{"until":"2024-12-31"}',
    )

    with pytest.raises(Problem, match="cannot start job old: its schedule ended on 2024-12-31"):
        commands(rows.database).start(job_id)
