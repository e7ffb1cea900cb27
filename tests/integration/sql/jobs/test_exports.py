"""Which jobs an export reads, on SQLite and on MariaDB."""

from collections.abc import Collection, Iterator

import pytest

from tests.support.stored_rows import Rows
from warren.sql.jobs import job_file_rows


@pytest.fixture
def rows(any_schema_url: str) -> Iterator[Rows]:
    rows = Rows(any_schema_url)
    yield rows
    rows.database.close()


def test_jobs_are_read_of_the_given_apps_and_ids_only(rows: Rows) -> None:
    first, second = rows.job("b"), rows.job("a")
    mail = rows.job("c", "mails")
    reports, mails = rows.app("reports"), rows.app("mails")

    def visible(app_ids: Collection[int] | None, job_ids: Collection[int] | None) -> list[int]:
        return [
            job.id
            for job, _ in rows.database.read(
                lambda session: job_file_rows.visible_jobs(session, app_ids, job_ids)
            )
        ]

    assert visible(None, None) == [mail, second, first]
    assert visible({reports}, None) == [second, first]
    assert visible({reports}, {first, mail}) == [first]
    assert visible(None, {mail}) == [mail]
    assert visible({mails}, set()) == []
    assert visible(set(), None) == []
