"""Logins of the command line on every database: decided once, given once, whoever comes first."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import select

from tests.support.acting import NamedUsers
from warren.resources.accounts import LoginProof, LoginWish
from warren.resources.operation import Scope
from warren.scheduler.actor import Actor
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.command_logins import (
    LIFE_SECONDS,
    Asked,
    CommandLogins,
    Given,
    Gone,
    Shown,
    challenge_of,
)
from warren.scheduler.problems import Problem
from warren.sql.accounts import users
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.models import ApiToken, CommandLogin

NOW_MS = 1_800_000_000_000
VERIFIER = "v" * 43
AT_ONCE = 4


@pytest.fixture
def database(any_schema_url: str) -> Iterator[Database]:
    database = Database(any_schema_url)
    for name in ("alice", "barbara"):
        NamedUsers(database, who="cli:tests").add(name, None, role=Role.ADMINISTRATOR)
    yield database
    database.close()


@pytest.fixture
def logins(database: Database) -> CommandLogins:
    return CommandLogins(database, lambda: NOW_MS)


def context(database: Database, name: str) -> tuple[CommandContext, int]:
    user = database.read(lambda session: users.find(session, name))
    actor = Actor.of(name, users.rights_of(user), origin="10.0.0.1")
    return CommandContext(database=database, now_ms=lambda: NOW_MS, actor=actor), user.id


def asked(logins: CommandLogins, **fields: Any) -> str:
    wish = LoginWish(challenge=challenge_of(VERIFIER), machine="laptop", **fields)
    answer = logins.ask(wish, origin="10.0.0.2", network="10.0.0.2")
    assert isinstance(answer, Asked)
    return answer.key


def at_once(act: Callable[[int], Any]) -> list[Any]:
    """Return what several calls at one instant return or raise."""
    start = Barrier(AT_ONCE)

    def one(number: int) -> Any:
        start.wait()
        try:
            return act(number)
        except Problem as problem:
            return problem

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(one, range(AT_ONCE)))


def test_of_many_who_ask_at_once_one_gets_the_token(
    logins: CommandLogins, database: Database
) -> None:
    key = asked(logins)
    actor, user_id = context(database, "alice")
    shown = logins.claim(key, user_id, network="10.0.0.1")
    assert isinstance(shown, Shown)
    logins.allow(actor, key, user_id, [Scope.READ])

    answers = at_once(lambda _: logins.give(LoginProof(verifier=VERIFIER), origin="10.0.0.2"))

    assert sorted(type(answer).__name__ for answer in answers) == ["Given"] + ["Gone"] * 3
    [token] = database.read(lambda session: session.scalars(select(ApiToken)).all())
    [given] = [answer for answer in answers if isinstance(answer, Given)]
    assert (token.name, token.scopes, token.user_id) == (given.name, "read", user_id)
    assert database.read(lambda session: session.scalars(select(CommandLogin)).all()) == []


def test_of_two_users_one_decides(logins: CommandLogins, database: Database) -> None:
    key = asked(logins, port=40_000, state="s")
    both = [context(database, name) for name in ("alice", "barbara")]

    answers = at_once(lambda number: logins.allow(*_of(both, number, key), [Scope.READ]))

    assert len([answer for answer in answers if isinstance(answer, Problem)]) == AT_ONCE - 1
    [row] = database.read(lambda session: session.scalars(select(CommandLogin)).all())
    assert row.decision == "ALLOWED"


def test_what_nobody_decides_is_deleted(database: Database) -> None:
    now = [NOW_MS]
    logins = CommandLogins(database, lambda: now[0])
    asked(logins)
    now[0] += LIFE_SECONDS * 1000

    assert isinstance(logins.give(LoginProof(verifier=VERIFIER), origin=""), Gone)
    logins.clean()

    assert database.read(lambda session: session.scalars(select(CommandLogin)).all()) == []


def _of(
    both: list[tuple[CommandContext, int]], number: int, key: str
) -> tuple[CommandContext, str, int]:
    actor, user_id = both[number % 2]
    return actor, key, user_id
