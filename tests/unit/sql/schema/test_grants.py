"""What the account of everything but upgrades may do."""

import re

import pytest

from warren.sql.dialects.mysql import MySQL
from warren.sql.dialects.sqlite import SQLite
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


@pytest.mark.parametrize("name", ["", "a b", "a'", "a`", "a;", "a\n", "a" * 300, "é"])
def test_a_name_that_would_need_quotes_is_refused(name: str) -> None:
    for names in ((name, "warren", "%"), ("jobs", name, "%"), ("jobs", "warren", name)):
        with pytest.raises(ValueError, match=r"expected (database|user|host) to be a name"):
            grants(MySQL(), *names)


def test_a_database_without_accounts_says_so() -> None:
    with pytest.raises(ValueError, match="SQLite has no accounts"):
        grants(SQLite(), "jobs", "warren")
