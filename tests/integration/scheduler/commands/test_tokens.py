"""Tokens: made for a user, never with more than the user has, and revoked."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.acting import NamedUsers, acting
from tests.support.stored_rows import Rows
from warren.resources.operation import Scope
from warren.scheduler.actor import Actor, Right
from warren.scheduler.commands.account_commands import GLOBAL_SCOPES, TokenSpec, actor_of
from warren.scheduler.commands.commands import Commands
from warren.scheduler.commands.token_text import hash_of, is_token, new_token
from warren.scheduler.names import Resolver
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import audit_log, tokens
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.accounts.users import Role
from warren.sql.models import ApiToken, Model

NOW_MS = 1_800_000_000_000


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    rows.app("reports")
    rows.app("mails")
    users = NamedUsers(rows.database, who="cli:ops@host")
    users.add("alice", None, role=Role.ADMINISTRATOR)
    users.add("barbara", None, role=Role.OPERATOR, app_names=["reports"])
    yield rows
    rows.database.close()


@pytest.fixture
def commands(rows: Rows) -> Commands:
    return acting(rows.database, lambda: NOW_MS, who="cli:ops@host")


def spec(rows: Rows, owner: str = "barbara", **values: Any) -> TokenSpec:
    owner_id = Resolver(rows.database).user(owner)
    return TokenSpec(**{"name": "ci", "owner_id": owner_id, "scopes": [Scope.READ], **values})


def acts(rows: Rows, text: str) -> Actor:
    found = rows.database.read(lambda session: tokens.find(session, hash_of(text)))
    assert found is not None
    return actor_of(*found, origin="10.0.0.1")


def test_a_token_can_be_found_by_scanners_and_is_told_from_a_mistyped_one() -> None:
    text = new_token()

    assert re.fullmatch(r"wrn_[A-Za-z0-9_-]{43}[A-Za-z0-9]{6}", text)
    assert is_token(text)
    for wrong in (text[:-1], text + "0", text[:-1] + ("a" if text[-1] != "a" else "b"), "", "wrn_"):
        assert not is_token(wrong)


def test_only_the_hash_of_a_token_is_kept(rows: Rows, commands: Commands) -> None:
    text = commands.tokens.add(spec(rows))

    def dump(session: Any) -> str:
        tables = Model.metadata.sorted_tables
        return str([tuple(row) for table in tables for row in session.execute(table.select())])

    everything = rows.database.read(dump)
    assert text not in everything
    assert hash_of(text) in everything


def test_a_token_acts_in_its_own_name_with_the_owners_apps(rows: Rows, commands: Commands) -> None:
    actor = acts(rows, commands.tokens.add(spec(rows, scopes=[Scope.READ, Scope.TRIGGER])))

    assert (actor.who, actor.origin) == ("token:ci", "10.0.0.1")
    assert actor.may(Right.VIEW)
    assert actor.may(Right.OPERATE)
    assert not actor.may(Right.EDIT_GLUE)
    assert actor.app_ids == {1}


def test_what_an_owner_loses_the_token_loses_too(rows: Rows, commands: Commands) -> None:
    text = commands.tokens.add(
        spec(rows, owner="alice", scopes=set(Scope) - GLOBAL_SCOPES, app_ids=[1, 2])
    )
    NamedUsers(rows.database, who="cli:ops@host").add("carol", None, role=Role.ADMINISTRATOR)

    NamedUsers(rows.database, who="cli").set_rights("alice", role=Role.VIEWER, app_names=["mails"])

    actor = acts(rows, text)
    assert actor.may(Right.VIEW)
    assert not actor.may(Right.OPERATE)
    assert not actor.may(Right.ADMINISTER)
    assert actor.app_ids == {2}


def test_a_token_for_some_jobs_knows_no_other(rows: Rows, commands: Commands) -> None:
    mine, other = rows.job("mine"), rows.job("other")
    text = commands.tokens.add(spec(rows, scopes=[Scope.TRIGGER], job_ids=[mine]))
    actor = acts(rows, text)

    programs = acting(
        rows.database,
        who=actor.who,
        app_ids=actor.app_ids,
        rights=actor.rights,
        job_ids=actor.job_ids,
    )

    assert programs.runs.trigger(mine)
    with pytest.raises(Problem) as refused:
        programs.runs.trigger(other)
    assert refused.value.code is Code.NO_JOB


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"name": ""}, Code.TOKEN_NAME),
        ({"name": "a" * 51}, Code.TOKEN_NAME),
        ({"name": "a b"}, Code.TOKEN_NAME),
        ({"scopes": []}, Code.NO_SCOPES),
        ({"days": 0}, Code.TOKEN_DAYS),
        ({"days": 367}, Code.TOKEN_DAYS),
        ({"scopes": [Scope.ADMIN]}, Code.SCOPE_OF_OWNER),
        ({"scopes": [Scope.SCRIPTS]}, Code.SCOPE_OF_OWNER),
        ({"app_ids": [2]}, Code.APP_OF_OWNER),
        ({"app_ids": [99]}, Code.NO_APP),
        ({"job_ids": [99]}, Code.NO_JOB),
        ({"job_ids": range(1, 52)}, Code.TOKEN_JOBS),
        ({"job_ids": [1], "scopes": [Scope.WRITE]}, Code.SCOPES_OF_JOBS),
        ({"app_ids": [1], "scopes": [Scope.ADMIN]}, Code.SCOPES_OF_APPS),
        ({"owner_id": 99}, Code.NO_USER),
    ],
)
def test_what_cannot_be_is_refused(
    rows: Rows, commands: Commands, values: dict[str, Any], code: Code
) -> None:
    with pytest.raises(Problem) as refused:
        commands.tokens.add(spec(rows, **values))

    assert refused.value.code is code
    assert rows.database.read(tokens.listing) == []


def test_a_name_is_never_given_again(rows: Rows, commands: Commands) -> None:
    commands.tokens.add(spec(rows))
    [listed] = rows.database.read(tokens.listing)
    commands.tokens.revoke(listed.token.id)

    with pytest.raises(Problem) as refused:
        commands.tokens.add(spec(rows, name="CI"))

    assert refused.value.code is Code.TOKEN_NAME_TAKEN


def test_making_and_revoking_is_noted_without_the_token(rows: Rows, commands: Commands) -> None:
    text = commands.tokens.add(spec(rows))
    [listed] = rows.database.read(tokens.listing)

    assert commands.tokens.revoke(listed.token.id)
    assert not commands.tokens.revoke(listed.token.id)

    noted = rows.database.read(lambda s: audit_log.listing(s, AuditFilter(kind="token")))
    assert [(one.action, one.name) for one in noted] == [
        ("token.revoke", "ci"),
        ("token.add", "ci"),
    ]
    assert text not in str([one.after for one in noted])
    revoked = rows.database.read(lambda session: session.get_one(ApiToken, listed.token.id))
    assert (revoked.revoked_at, revoked.revoked_by) == (NOW_MS, "cli:ops@host")


def test_somebody_makes_and_revokes_own_tokens_only(rows: Rows, commands: Commands) -> None:
    rights = {Right.ACCOUNT, Right.VIEW, Right.OPERATE}
    barbara = acting(rows.database, who="barbara", app_ids={1}, rights=rights)
    commands.tokens.add(spec(rows, owner="alice", name="foreign"))
    [foreign] = rows.database.read(tokens.listing)

    assert barbara.tokens.add(spec(rows, name="own"))
    with pytest.raises(Problem) as made:
        barbara.tokens.add(spec(rows, owner="alice", name="stolen"))
    with pytest.raises(Problem) as revoked:
        barbara.tokens.revoke(foreign.token.id)

    assert {made.value.code, revoked.value.code} == {Code.NO_RIGHT}


def test_a_use_is_written_down_once_a_minute_at_most(rows: Rows, commands: Commands) -> None:
    commands.tokens.add(spec(rows))
    [listed] = rows.database.read(tokens.listing)

    for now_ms in (NOW_MS, NOW_MS + 59_999, NOW_MS + 60_000):
        rows.database.write(
            lambda session, now_ms=now_ms: tokens.touch(
                session,
                listed.token.id,
                now_ms=now_ms,
                before_ms=now_ms - 60_000,
                address=f"at {now_ms - NOW_MS}",
            )
        )
        if now_ms == NOW_MS + 59_999:
            [seen] = rows.database.read(tokens.listing)
            assert seen.token.used_from == "at 0"

    [seen] = rows.database.read(tokens.listing)
    assert seen.token.used_from == "at 60000"
