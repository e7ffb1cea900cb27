"""What two consoles do at the same instant, on MariaDB: guesses counted, administrators kept."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from argon2 import PasswordHasher

from admin_web.sign_ins import ACCOUNT_LIMIT, Refusal, SignIns, Wait, Welcome
from scheduler.user_commands import LastAdministrator, UserCommands
from sql import apps, migration, user_accounts
from sql.engine import Database
from sql.errors import Conflict, NotFound
from sql.users import Role
from tests.support.console import PASSWORD, Clock, add_user

#: Guesses of one moment.
AT_ONCE = 12
ROUNDS = 4


@pytest.fixture
def databases(mariadb_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Database]]:
    """The connections of two consoles."""
    quick = PasswordHasher(time_cost=1, memory_cost=256, parallelism=1)
    monkeypatch.setattr("scheduler.passwords._HASHER", quick)
    both = [Database(mariadb_url) for _ in range(2)]
    migration.upgrade(both[0])
    both[0].write(lambda session: apps.ensure(session, "reports"))
    for name in ("alice", "barbara"):
        add_user(both[0], name, Role.ADMINISTRATOR)
    yield both
    for one in both:
        one.close()


def at_once(acts: list[Callable[[], Any]]) -> list[Any]:
    """Do all of it at one instant; return what came of each, errors as well."""
    start = Barrier(len(acts))

    def run(act: Callable[[], Any]) -> Any:
        start.wait(10)
        try:
            return act()
        except Conflict as refused:
            return refused

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def test_guesses_at_two_consoles_at_one_instant_are_all_counted(databases: list[Database]) -> None:
    """Each guess is counted before its password is looked at, so none slips in beside another."""
    clock = Clock()
    consoles = [SignIns(database, clock.now_ms) for database in databases]

    def guess(number: int) -> Callable[[], Any]:
        origin = f"10.0.0.{number}"
        return lambda: consoles[number % 2].open("alice", "wrong wrong", origin=origin, agent="")

    answers = at_once([guess(number) for number in range(AT_ONCE)])
    restarted = SignIns(databases[1], clock.now_ms)

    assert sum(isinstance(answer, Refusal) for answer in answers) == ACCOUNT_LIMIT[0]
    assert sum(isinstance(answer, Wait) for answer in answers) == AT_ONCE - ACCOUNT_LIMIT[0]
    assert isinstance(restarted.open("alice", PASSWORD, origin="10.9.9.9", agent=""), Wait)
    assert isinstance(restarted.open("barbara", PASSWORD, origin="10.9.9.9", agent=""), Welcome)


@pytest.mark.parametrize("deed", ["disable", "delete", "demote"])
def test_of_two_administrators_that_unmake_each_other_one_stays(
    databases: list[Database], deed: str
) -> None:
    def unmake(database: Database, who: str, whom: str) -> Callable[[], None]:
        commands = UserCommands(database, who=who)
        if deed == "demote":
            return lambda: commands.set_rights(whom, role=Role.VIEWER, app_names=["reports"])
        return lambda: getattr(commands, deed)(whom)

    for _ in range(ROUNDS):
        answers = at_once(
            [
                unmake(databases[0], "alice", "barbara"),
                unmake(databases[1], "barbara", "alice"),
            ]
        )

        left = databases[0].write(user_accounts.lock_administrators)
        assert {type(answer) for answer in answers} == {LastAdministrator, type(None)}, answers
        assert len(left) == 1
        restore(databases[0], left[0])


def restore(database: Database, left: str) -> None:
    """Make the other administrator again."""
    other = "barbara" if left == "alice" else "alice"
    commands = UserCommands(database, who="cli:tests")
    try:
        commands.set_rights(other, role=Role.ADMINISTRATOR)
        commands.enable(other)
    except NotFound:
        add_user(database, other, Role.ADMINISTRATOR)
