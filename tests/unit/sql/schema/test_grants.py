"""What the account of everything but upgrades may do."""

import re

import pytest

from warren.sql.dialects.mysql import MySQL
from warren.sql.dialects.sqlite import SQLite
from warren.sql.dialects.supported import named
from warren.sql.models import Model
from warren.sql.schema.version import grants


def test_each_table_has_its_rights_and_the_trail_is_only_added_to() -> None:
    found = {}
    for statement in grants(MySQL(), "jobs", "warren", "10.0.0.%"):
        line = re.fullmatch(
            r"GRANT ([A-Z, ]+) ON `jobs`\.`(\w+)` TO 'warren'@'10.0.0.%';", statement
        )
        assert line is not None, statement
        found[line[2]] = line[1]

    assert set(found) == set(Model.metadata.tables) | {"alembic_version"}
    assert found.pop("warren_trail") == "SELECT, INSERT"
    assert found.pop("alembic_version") == "SELECT"
    assert set(found.values()) == {"SELECT, INSERT, UPDATE, DELETE"}


def test_postgresql_grants_the_same_and_the_ids_that_it_counts() -> None:
    pytest.importorskip("psycopg")

    first, second, *tables, last = grants(named("postgresql"), "jobs", "warren")

    assert first == 'GRANT CONNECT ON DATABASE "jobs" TO "warren";'
    assert second == 'GRANT USAGE ON SCHEMA public TO "warren";'
    of_mysql = grants(MySQL(), "jobs", "warren")
    assert len(tables) == len(of_mysql)
    assert 'GRANT SELECT, INSERT ON "warren_trail" TO "warren";' in tables
    assert 'GRANT SELECT ON "alembic_version" TO "warren";' in tables
    wanted = 'GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO "warren";'
    assert last == wanted
    with pytest.raises(ValueError, match="expected user to be a name"):
        grants(named("postgresql"), "jobs", 'a"')


@pytest.mark.parametrize("name", ["", "a b", "a'", "a`", "a;", "a\n", "a" * 300, "é"])
def test_a_name_that_would_need_quotes_is_refused(name: str) -> None:
    for names in ((name, "warren", "%"), ("jobs", name, "%"), ("jobs", "warren", name)):
        with pytest.raises(ValueError, match=r"expected (database|user|host) to be a name"):
            grants(MySQL(), *names)


def test_a_database_without_accounts_says_so() -> None:
    with pytest.raises(ValueError, match="SQLite has no accounts"):
        grants(SQLite(), "jobs", "warren")
