"""The console says where a job is declared: on its page, in its form and in its history."""

import pytest

from tests.support.acting import acting
from tests.support.console import Clock, Visit
from tests.support.stored_rows import Rows
from warren.scheduler.jobs.places import Origin
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.engine import Database


@pytest.mark.parametrize(
    ("declared_in", "words"),
    [("code:acme_jobs.handlers", "the code of acme_jobs.handlers"), ("file", "a job file")],
)
def test_page_and_form_say_where_a_job_is_declared(
    admin: Visit, rows: Rows, declared_in: str, words: str
) -> None:
    job_id = rows.job("load", declared_in=declared_in)

    page, form = admin.get(f"/jobs/{job_id}").text, admin.get(f"/jobs/{job_id}/edit").text

    assert f'<dt>Declared in</dt><dd class="">{words}</dd>' in page
    assert (
        f"Declared in {words}. What you save here lasts only until that is applied again." in form
    )


def test_a_job_that_is_declared_nowhere_else_says_nothing(admin: Visit, rows: Rows) -> None:
    job_id = rows.job("load")

    assert "Declared in" not in admin.get(f"/jobs/{job_id}").text
    assert "Declared in" not in admin.get(f"/jobs/{job_id}/edit").text


def test_its_history_tells_that_it_has_moved(
    admin: Visit, database: Database, clock: Clock, rows: Rows
) -> None:
    rows.app()
    files = acting(database, clock.now_ms, who="deploy").job_files
    spec = JobSpec(name="load", app="reports", handler="h")
    files.apply([], [spec], dry_run=False, prune=False)
    moved = Origin(place="code:acme_jobs.handlers", take_over=True)

    files.apply([], [spec], dry_run=False, prune=False, origin=moved)

    shown = " ".join(admin.get("/audit").text.split())
    assert "Declared in" in shown
    assert "a job file" in shown
    assert "the code of acme_jobs.handlers" in shown
