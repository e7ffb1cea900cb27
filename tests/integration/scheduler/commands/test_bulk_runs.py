"""Many runs at once, on both databases: in small transactions, each run once."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.acting import acting
from tests.support.sql_rows import all_runs, put, side_by_side
from tests.support.stored_rows import Rows
from warren.scheduler.commands.bulk_commands import RERUN_LIMIT
from warren.scheduler.commands.reruns import Counts, Outcome, Part
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.accounts.idempotency import FormKey
from warren.sql.run_status import RunStatus

NOW = 1_700_000_000_000
FORM = FormKey(user_id=1, key="k" * 22)


@pytest.fixture
def rows(any_schema_url: str) -> Iterator[Rows]:
    rows = Rows(any_schema_url)
    yield rows
    rows.database.close()


def failed(rows: Rows, count: int) -> list[int]:
    """Return the ids of runs of one job that failed."""
    rows.runs(rows.job("nightly"), range(NOW - count, NOW))
    ids = [run.id for run in all_runs(rows.database)]
    put(rows.database, ids, status=RunStatus.FAILED)
    return ids


def counted(parts: Iterator[Part]) -> Counts:
    return sum((part.counts for part in parts), Counter())


def planned(rows: Rows) -> int:
    return sum(run.status == RunStatus.PLANNED for run in all_runs(rows.database))


def test_thousands_are_planned_some_at_a_time(rows: Rows) -> None:
    ids, commands = failed(rows, 2_200), acting(rows.database, lambda: NOW)

    sizes = [part.counts[Outcome.DONE] for part in commands.bulk_runs.again(ids, FORM)]

    assert sum(sizes) == planned(rows) == 2_200
    assert max(sizes) == RERUN_LIMIT
    entries = rows.database.read(lambda session: audit_log.listing(session, AuditFilter()))
    assert [entry.name for entry in entries][::-1] == [f"{size} runs" for size in sizes]


def test_two_consoles_that_get_the_same_form_plan_each_run_once(rows: Rows) -> None:
    ids, commands = failed(rows, 700), acting(rows.database, lambda: NOW)

    both = side_by_side(*(lambda: counted(commands.bulk_runs.again(ids, FORM)) for _ in range(2)))

    assert planned(rows) == 700
    assert sum(counts[Outcome.DONE] for counts in both) == 700
    assert sum(counts[Outcome.REPEATED] for counts in both) == 700


def test_what_was_broken_off_goes_on_where_it_ended(rows: Rows) -> None:
    ids, commands = failed(rows, 1_200), acting(rows.database, lambda: NOW)
    next(commands.bulk_runs.again(ids, FORM))

    counts = counted(commands.bulk_runs.again(ids, FORM))

    assert +counts == {Outcome.REPEATED: RERUN_LIMIT, Outcome.DONE: 1_200 - RERUN_LIMIT}
    assert planned(rows) == 1_200


def test_another_form_runs_again_what_failed_again(rows: Rows) -> None:
    ids, commands = failed(rows, 3), acting(rows.database, lambda: NOW)
    counted(commands.bulk_runs.again(ids, FORM))
    again = [run.id for run in all_runs(rows.database) if run.rerun_of]
    put(rows.database, again, status=RunStatus.FAILED)

    later = acting(rows.database, lambda: NOW + 1)
    counts = counted(later.bulk_runs.again(ids, FormKey(user_id=1, key="l" * 22)))

    assert +counts == {Outcome.DONE: 3}
    assert planned(rows) == 3


def test_kills_are_asked_for_once(rows: Rows) -> None:
    rows.runs(rows.job("nightly"), range(NOW, NOW + 250))
    ids = [run.id for run in all_runs(rows.database)]
    put(rows.database, ids[:150], status=RunStatus.RUNNING)
    commands = acting(rows.database, lambda: NOW)

    first, second = (counted(commands.bulk_runs.kill(ids)) for _ in range(2))

    assert first == {Outcome.DONE: 250}
    assert second == {Outcome.NOTHING: 250}
    states = Counter(run.status for run in all_runs(rows.database))
    assert states == {"RUNNING": 150, "CANCELLED": 100}


def test_jobs_and_apps_are_asked_of_each_run(rows: Rows) -> None:
    mine = rows.run(rows.job("mine"), NOW, status=RunStatus.FAILED)
    other = rows.run(rows.job("other"), NOW, status=RunStatus.FAILED)
    theirs = rows.run(rows.job("theirs", "mails"), NOW, app="mails", status=RunStatus.FAILED)
    job_id = next(run.job_id for run in all_runs(rows.database) if run.id == mine)
    commands = acting(rows.database, lambda: NOW, app_ids={rows.app()}, job_ids={job_id})

    counts = counted(commands.bulk_runs.again([mine, other, theirs], FORM))

    assert +counts == {Outcome.DONE: 1, Outcome.UNKNOWN: 2}
