"""`warren broker migrate-queues` refuses, with one line, what could lose messages."""

import pytest

from tests.support.stored_rows import Rows
from warren.command_line.broker import refuse_unless_still
from warren.database_access import now_ms
from warren.errors import CommandError


@pytest.fixture
def rows(sqlite_schema_url: str) -> Rows:
    return Rows(sqlite_schema_url)


def test_it_refuses_while_a_scheduler_is_online(rows: Rows) -> None:
    rows.scheduler("node-1", now_ms(rows.database))

    with pytest.raises(CommandError, match="stop these schedulers first: node-1"):
        refuse_unless_still(rows.database)


def test_it_refuses_while_an_executor_is_online(rows: Rows) -> None:
    rows.executor("one", now_ms(rows.database), "")

    with pytest.raises(CommandError, match="stop these executors first: reports/one"):
        refuse_unless_still(rows.database)


def test_it_refuses_while_a_run_is_open(rows: Rows) -> None:
    rows.run(rows.job("nightly"), 1_000, status="RUNNING", address="one", boot_id="b1")

    with pytest.raises(CommandError, match="open runs: 1; start schedulers and executors"):
        refuse_unless_still(rows.database)


def test_runs_that_are_planned_and_processes_that_are_gone_do_not_matter(rows: Rows) -> None:
    rows.run(rows.job("nightly"), 1_000)
    rows.executor("one", 1_000, "")
    rows.scheduler("node-1", 1_000)

    refuse_unless_still(rows.database)
