"""What two consoles do at the same instant, on MariaDB: guesses counted, administrators kept."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.support.acting import NamedUsers
from tests.support.console import PASSWORD, Clock, Visit, add_user, make_app
from warren.admin_web.access.sign_ins import (
    ACCOUNT_LIMIT,
    SignedIn,
    SignInRefused,
    SignIns,
    TooManyAttempts,
)
from warren.scheduler.commands.identity_commands import Person, Reading
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import identities, users
from warren.sql.accounts.identities import DueIdentity
from warren.sql.accounts.users import Rights, Role
from warren.sql.engine import Database
from warren.sql.errors import NotFound
from warren.sql.registry import apps

#: Guesses of one moment.
GUESSES = 12
ROUNDS = 4


@pytest.fixture
def databases(mariadb_schema_url: str) -> Iterator[list[Database]]:
    """The connections of two consoles."""
    both = [Database(mariadb_schema_url) for _ in range(2)]
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
        start.wait(30)
        try:
            return act()
        except Problem as refused:
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

    answers = at_once([guess(number) for number in range(GUESSES)])
    restarted = SignIns(databases[1], clock.now_ms)

    assert sum(isinstance(answer, SignInRefused) for answer in answers) == ACCOUNT_LIMIT[0]
    assert (
        sum(isinstance(answer, TooManyAttempts) for answer in answers) == GUESSES - ACCOUNT_LIMIT[0]
    )
    assert isinstance(
        restarted.open("alice", PASSWORD, origin="10.9.9.9", agent=""), TooManyAttempts
    )
    assert isinstance(restarted.open("barbara", PASSWORD, origin="10.9.9.9", agent=""), SignedIn)


def test_spaces_behind_a_name_give_no_further_guesses(databases: list[Database]) -> None:
    clock = Clock()
    app = make_app(databases[0], clock)

    def codes(name: str, passwords: list[str]) -> list[int]:
        visit = Visit(app)
        return [visit.sign_in(name, password).status_code for password in passwords]

    padded = [codes("alice" + " " * number, [PASSWORD])[0] for number in range(1, 40)]
    wrong = codes("alice", ["wrong wrong"] * (ACCOUNT_LIMIT[0] + 1))
    console = SignIns(databases[0], clock.now_ms)
    below = console.check("barbara   ", PASSWORD, origin="10.9.9.9")

    assert set(padded) == {422}
    assert wrong == [401] * ACCOUNT_LIMIT[0] + [429]
    assert isinstance(below, SignInRefused)


@pytest.mark.parametrize("deed", ["disable", "delete", "demote"])
def test_of_two_administrators_that_unmake_each_other_one_stays(
    databases: list[Database], deed: str
) -> None:
    def unmake(database: Database, who: str, whom: str) -> Callable[[], None]:
        commands = NamedUsers(database, who=who)
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

        left = databases[0].write(users.lock_administrators)
        assert {getattr(answer, "code", None) for answer in answers} == {
            Code.LAST_ADMINISTRATOR,
            None,
        }, answers
        assert len(left) == 1
        restore(databases[0], left[0])


def restore(database: Database, left: str) -> None:
    """Make the other administrator again."""
    other = "barbara" if left == "alice" else "alice"
    commands = NamedUsers(database, who="cli:tests")
    try:
        commands.set_rights(other, role=Role.ADMINISTRATOR)
        commands.enable(other)
    except NotFound:
        add_user(database, other, Role.ADMINISTRATOR)


def test_one_person_who_signs_in_twice_at_one_instant_becomes_one_user(
    databases: list[Database],
) -> None:
    clock = Clock()
    databases[0].write(
        lambda session: identities.replace_group_rules(
            session, {"data": Rights(role=Role.ADMINISTRATOR)}
        )
    )
    consoles = [SignIns(database, clock.now_ms) for database in databases]

    for number in range(ROUNDS):
        person = Person(issuer="https://x", subject=f"{number}", groups=("data",), name="carol")
        reading = Reading(at_ms=clock.now, refresh_token=None, tokens_ms=1)
        acts = [
            lambda console=console, person=person, reading=reading: console.open_for(
                person, reading, id_token="", origin="127.0.0.1", agent="tests"
            )
            for console in consoles
        ]

        assert [type(answer) for answer in at_once(acts)] == [SignedIn, SignedIn]

    linked = databases[0].read(identities.all_linked)
    assert sorted(each.user.name for each in linked) == ["carol", "carol-2", "carol-3", "carol-4"]


def test_groups_that_two_processes_find_due_are_read_by_one(databases: list[Database]) -> None:
    user = databases[0].read(lambda session: users.by_name(session, "alice"))
    assert user is not None

    def add(session: Session) -> DueIdentity:
        identity = identities.add(session, user.id, "x", "y", now_ms=1, by="z")
        identity.refresh_token = "sealed"
        return DueIdentity(identity.id, identity.key_hash, "x", "y", "sealed", 1)

    due = databases[0].write(add)

    for now_ms in range(10, 10 + ROUNDS):
        claims = at_once(
            [
                lambda database=database, now_ms=now_ms: database.write(
                    lambda session: identities.claim(
                        session, due, now_ms=now_ms, until_ms=now_ms + 1
                    )
                )
                for database in databases
            ]
        )
        assert sorted(claims) == [False, True]
