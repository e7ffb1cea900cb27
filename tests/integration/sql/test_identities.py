"""Identities of single sign-on in each database: which are read again, and by whom."""

from collections.abc import Iterator

import pytest

from warren.sql.accounts import identities, sign_ins, tokens, users
from warren.sql.accounts.identities import DueIdentity
from warren.sql.accounts.users import Rights, Role
from warren.sql.engine import Database
from warren.sql.models import ApiToken

NOW = 1_000_000


@pytest.fixture
def database(any_schema_url: str) -> Iterator[Database]:
    database = Database(any_schema_url)
    yield database
    database.close()


def add(database: Database, name: str, *, refresh_token: str | None = "sealed") -> int:
    """Add a linked user whose groups are due; return its id."""

    def unit(session: object) -> int:
        user_id = users.add(session, name, "!", Rights(role=Role.VIEWER, app_ids=(1,)))  # type: ignore[arg-type]
        assert user_id is not None
        identity = identities.add(session, user_id, "https://x", name, now_ms=1, by="y")  # type: ignore[arg-type]
        identity.refresh_token, identity.signed_in_at = refresh_token, 5
        return user_id

    return database.write(unit)


def add_session(database: Database, name: str, *, id_token: str | None, at: int = NOW) -> None:
    database.write(
        lambda session: sign_ins.add_session(
            session,
            users.find(session, name),
            f"hash of {name}",
            now_ms=at,
            origin="",
            agent="",
            id_token=id_token,
        )
    )


def due(database: Database) -> list[str]:
    return [each.subject for each in found(database)]


def found(database: Database, now_ms: int = NOW) -> list[DueIdentity]:
    return database.read(
        lambda session: identities.due(
            session,
            "https://x",
            now_ms=now_ms,
            seen_since_ms=NOW - 100,
            made_since_ms=NOW - 1_000,
            limit=10,
        )
    )


def test_those_with_a_session_or_a_token_are_read_again(database: Database) -> None:
    ids = {name: add(database, name) for name in ("here", "token", "gone", "local", "old")}
    add(database, "unreadable", refresh_token=None)
    add_session(database, "here", id_token="x")
    add_session(database, "unreadable", id_token="x")
    add_session(database, "local", id_token=None)
    add_session(database, "old", id_token="x", at=NOW - 101)
    for name, expires_at in (("token", NOW + 1), ("gone", NOW)):
        token = ApiToken(
            token_hash=name,
            name=name,
            user_id=ids[name],
            scopes="read",
            created_at=1,
            created_by="x",
            expires_at=expires_at,
        )
        database.write(lambda session, it=token: tokens.add(session, it))  # type: ignore[misc]

    assert sorted(due(database)) == ["here", "token"]


def test_another_issuers_tokens_are_not_read(database: Database) -> None:
    add(database, "olga")
    add_session(database, "olga", id_token="x")

    for issuer in ("https://y", "HTTPS://X", "https://x "):
        assert (
            database.read(
                lambda session, issuer=issuer: identities.due(  # type: ignore[misc]
                    session, issuer, now_ms=NOW, seen_since_ms=0, made_since_ms=0, limit=10
                )
            )
            == []
        )


def test_one_that_is_claimed_is_due_again_later(database: Database) -> None:
    add(database, "olga")
    add_session(database, "olga", id_token="x")
    [one] = found(database)

    def claim() -> bool:
        return database.write(
            lambda session: identities.claim(session, one, now_ms=NOW, until_ms=NOW + 50)
        )

    assert (claim(), claim()) == (True, False)
    assert found(database) == []
    assert [each.id for each in found(database, NOW + 50)] == [one.id]


def test_what_was_read_of_an_earlier_sign_in_is_not_stored(database: Database) -> None:
    user_id = add(database, "olga")
    add_session(database, "olga", id_token="x")
    [one] = found(database)
    assert database.write(lambda session: identities.lock_read(session, one)) is not None

    def sign_in_again(session: object) -> None:
        identity = identities.of_user(session, user_id)  # type: ignore[arg-type]
        assert identity is not None
        identity.refresh_token, identity.signed_in_at = "another", 6

    database.write(sign_in_again)

    assert database.write(lambda session: identities.lock_read(session, one)) is None


def test_rules_of_groups_that_differ_in_case_and_spaces_are_two(database: Database) -> None:
    rules = {
        "data": Rights(role=Role.VIEWER, app_ids=(1, 2)),
        "Data ": Rights(role=Role.ADMINISTRATOR, may_edit_glue=True),
    }

    database.write(lambda session: identities.replace_group_rules(session, rules))

    assert database.read(identities.group_rules) == rules
    database.write(lambda session: identities.remove_app_from_group_rules(session, 2))
    database.write(lambda session: identities.remove_app_from_group_rules(session, 1))
    assert [*database.read(identities.group_rules)] == ["Data "]
