"""`warren limits`, `warren queue`, and job files with limits."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.stored_rows import Rows
from warren.cli import root
from warren.sql.clock import database_now_ms
from warren.sql.models import Hold

JOBS = """\
limits:
  - {name: warehouse, at_once: 1}
jobs:
  - name: load
    app: reports
    handler: load
    limits: [WHAT]
"""


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    rows.app()
    yield rows
    rows.database.close()


@pytest.fixture
def warren(rows: Rows, sqlite_schema_url: str) -> Callable[..., Result]:
    url = "--database-url", sqlite_schema_url
    return lambda *arguments: CliRunner().invoke(root, [*arguments, *url])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.yaml"
    path.write_text(JOBS.replace("WHAT", "warehouse"))
    return path


def test_a_limit_is_made_changed_and_deleted(warren: Callable[..., Result]) -> None:
    made = warren("limits", "apply", "warehouse", "--at-once", "3").output
    changed = warren("limits", "apply", "warehouse", "--rate", "60", "--per", "1m").output
    [listed] = json.loads("[" + warren("limits", "list", "--json").output + "]")
    deleted = warren("limits", "delete", "warehouse").output

    assert made == "created limit warehouse: 3 at once\n"
    assert changed == "updated limit warehouse: 60 per 1m\n"
    assert (listed["at_once"], listed["rate"], listed["per"]) == (None, 60, "1m")
    assert deleted == "deleted limit warehouse\n"
    assert warren("limits", "list").output == "there are no limits\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("apply", "warehouse"), "expected limit 'warehouse' to have at_once, or rate and per"),
        (("apply", "w", "--rate", "3"), "expected limit 'w' to have both rate and per"),
        (("apply", "w", "--rate", "3", "--per", "soon"), "expected --per to be a duration"),
        (("apply", "w", "--at-once", "0"), "expected at_once to be an integer from 1 to 10000"),
        (("delete", "none"), "no limit named 'none'"),
        (("show", "none"), "no limit named 'none'"),
    ],
)
def test_what_cannot_be_is_refused_with_one_line(
    warren: Callable[..., Result], arguments: tuple[str, ...], words: str
) -> None:
    done = warren("limits", *arguments)

    assert done.exit_code == 1
    assert words in str(done.exception) + done.output


def test_a_limit_that_is_named_or_held_is_not_deleted(
    warren: Callable[..., Result], rows: Rows, file: Path
) -> None:
    warren("jobs", "apply", str(file))

    named = warren("limits", "delete", "warehouse")

    words = "cannot delete limit 'warehouse': it is named by reports/load"
    assert words in str(named.exception) + named.output
    assert warren("jobs", "apply", str(file)).output.startswith("0 changed, 2 unchanged\n")
    file.write_text("jobs:\n  - {name: load, app: reports, handler: load}\n")
    warren("jobs", "apply", str(file))
    hold = Hold(limit_id=1, run_id=_run(rows), weight=1)
    rows.database.write(lambda session: session.add(hold))
    held = warren("limits", "delete", "warehouse")
    assert "cannot delete limit 'warehouse': it is held by #" in str(held.exception) + held.output


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("warehous", "7: unknown limit 'warehous', did you mean 'warehouse'?"),
        ("{warehouse: 2}", "7: each run takes 2 of limit 'warehouse', which never has more than 1"),
    ],
)
def test_a_job_file_names_the_line_of_a_limit_that_cannot_be(
    warren: Callable[..., Result], file: Path, what: str, words: str
) -> None:
    file.write_text(JOBS.replace("WHAT", what))

    done = warren("jobs", "apply", str(file))

    assert words in str(done.exception) + done.output
    assert warren("limits", "list").output == "there are no limits\n"


def test_a_limit_is_not_made_smaller_than_what_a_job_takes(
    warren: Callable[..., Result], file: Path
) -> None:
    file.write_text(JOBS.replace("at_once: 1", "at_once: 3").replace("WHAT", "{warehouse: 2}"))
    warren("jobs", "apply", str(file))

    done = warren("limits", "apply", "warehouse", "--at-once", "1")

    words = "each run of job reports/load takes 2 of limit 'warehouse'"
    assert words in str(done.exception) + done.output


def test_the_queue_says_what_runs_wait_for(
    warren: Callable[..., Result], rows: Rows, file: Path
) -> None:
    warren("jobs", "apply", str(file))
    now_ms = rows.database.read(database_now_ms)
    job_id = 1
    at_work = rows.run(job_id, now_ms - 9_000, status="RUNNING", holds=1, routed_at=now_ms)
    waiting = rows.run(job_id, now_ms - 5_000)
    rows.run(job_id, now_ms + 60_000)
    rows.database.write(lambda session: session.add(Hold(limit_id=1, run_id=at_work, weight=1)))

    line = warren("queue").output.splitlines()[1]
    [queued] = [json.loads(text) for text in warren("queue", "--json").output.splitlines()]
    shown = json.loads(warren("runs", "show", str(waiting), "--json").output)

    assert line.split()[:2] == [str(waiting), "load"]
    assert line.endswith(f"warehouse (1 of 1: load #{at_work})")
    expected = [f"warehouse (1 of 1: load #{at_work})"]
    assert (queued["id"], queued["waits_for"]) == (waiting, expected)
    assert shown["waits_for"] == expected
    assert f"load #{at_work}" in warren("limits", "show", "warehouse").output


def _run(rows: Rows) -> int:
    return rows.run(1, 1_795_183_200_000, status="RUNNING")
