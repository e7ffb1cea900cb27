"""What `warren up` says that it has applied."""

from pathlib import Path

import pytest

from tests.support.stored_rows import Rows
from warren.jobfile.apply import UpJobs
from warren.jobfile.sources import NO_VALUES
from warren.settings.settings import Settings

FILE = """\
apps: [{name: reports}]
calendars: [{name: work, until: 2099-12-31}]
limits: [{name: warehouse, at_once: 3}]
jobs: [{name: daily, app: reports, handler: x, limits: [warehouse]}]
"""


def test_a_first_start_says_of_nothing_that_it_is_unchanged(
    sqlite_schema_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = Rows(sqlite_schema_url)
    settings = Settings(database_url=sqlite_schema_url)
    (tmp_path / "jobs.yaml").write_text(FILE)

    for _ in range(2):
        jobs = UpJobs(file=tmp_path / "jobs.yaml", seed=None, values=NO_VALUES, sources=[])
        jobs.prepare(settings, rows.database, "reports")
        jobs.apply(settings, rows.database)
    rows.database.close()

    said = capsys.readouterr().out.splitlines()
    assert "4 changed, 0 unchanged" in said
    assert said[-1] == "0 changed, 3 unchanged"  # nothing is told of an app that stays
