"""Processes of one cluster have one master secret, or two while it is being changed."""

import pytest

from tests.support.sql_rows import side_by_side
from warren.sql.engine import Database
from warren.sql.errors import SecretMismatch
from warren.sql.registry import cluster


def join(database: Database, *own: str) -> None:
    database.write(lambda session: cluster.join(session, own))


def test_the_first_process_decides_and_others_have_the_same(sqlite_database: Database) -> None:
    join(sqlite_database, "a")
    join(sqlite_database, "a")

    with pytest.raises(SecretMismatch, match="not the secret of this cluster's other schedulers"):
        join(sqlite_database, "b")
    assert sqlite_database.read(cluster.fingerprints) == ("a",)


def test_of_two_first_processes_with_different_secrets_one_is_refused(
    mariadb_database: Database,
) -> None:
    refused = []

    def start(own: str) -> None:
        try:
            join(mariadb_database, own)
        except SecretMismatch:
            refused.append(own)

    side_by_side(lambda: start("a"), lambda: start("b"))

    assert len(refused) == 1
    assert {*mariadb_database.read(cluster.fingerprints), *refused} == {"a", "b"}


def test_a_new_secret_is_let_in_by_the_old_one_and_both_are_good_until_one_retires(
    sqlite_database: Database,
) -> None:
    join(sqlite_database, "old")

    join(sqlite_database, "new", "old")
    join(sqlite_database, "old")
    join(sqlite_database, "new")
    with pytest.raises(SecretMismatch, match="warren secrets retire"):
        join(sqlite_database, "newest", "new")
    assert sqlite_database.write(lambda session: cluster.retire(session, "new")) == 1

    # Whoever still has the old one beside the new one does not make it good again.
    join(sqlite_database, "new", "old")
    with pytest.raises(SecretMismatch):
        join(sqlite_database, "old")
    assert sqlite_database.write(lambda session: cluster.retire(session, "new")) == 0


def test_only_who_has_a_secret_in_use_retires_others_and_a_reset_needs_none(
    sqlite_database: Database,
) -> None:
    join(sqlite_database, "lost")

    with pytest.raises(SecretMismatch, match="none of the secrets in use"):
        sqlite_database.write(lambda session: cluster.retire(session, "fresh"))
    sqlite_database.write(lambda session: cluster.reset(session, "fresh"))

    join(sqlite_database, "fresh")
    with pytest.raises(SecretMismatch):
        join(sqlite_database, "lost")
