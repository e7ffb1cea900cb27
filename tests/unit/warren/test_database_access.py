"""A name that the database does not have is answered with the one that was probably meant."""

import pytest

from tests.support.stored_rows import Rows
from warren.database_access import open_database
from warren.errors import CommandError
from warren.scheduler.names import Resolver
from warren.settings.settings import Settings
from warren.sql.errors import NotFound


@pytest.fixture
def settings(sqlite_schema_url: str) -> Settings:
    rows = Rows(sqlite_schema_url)
    rows.job("nightly-report", "reports")
    rows.database.close()
    return Settings(database_url=sqlite_schema_url, timezone="UTC")


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("job", "nightly-reprt", "no job named 'nightly-reprt', did you mean 'nightly-report'?"),
        ("job", "report/nightly-report", "did you mean 'reports/nightly-report'?"),
        ("app", "report", "no app named 'report', did you mean 'reports'?"),
    ],
)
def test_a_misspelt_name_is_answered_with_a_similar_one(
    settings: Settings, kind: str, name: str, words: str
) -> None:
    with pytest.raises(CommandError) as refused, open_database(settings) as database:
        getattr(Resolver(database), kind)(name)

    assert words in refused.value.lines[0]


def test_a_name_like_no_other_is_only_refused(settings: Settings) -> None:
    with pytest.raises(NotFound), open_database(settings) as database:
        Resolver(database).job("zzz")
