"""Users: added, given other passwords and rights, and refused."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.acting import NamedUsers
from tests.support.stored_rows import Rows
from warren.scheduler.commands.passwords import is_password
from warren.scheduler.problems import Problem
from warren.sql.accounts import audit_log, users
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.accounts.users import Rights, Role
from warren.sql.errors import NotFound
from warren.sql.models import User

PASSWORD = "correct horse"


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    rows.app("reports")
    rows.app("mails")
    yield rows
    rows.database.close()


@pytest.fixture
def commands(rows: Rows) -> NamedUsers:
    return NamedUsers(rows.database, who="cli:ops@host")


def user(rows: Rows, name: str = "alice") -> User:
    return rows.database.read(lambda session: users.find(session, name))


def test_an_administrator_has_everything(rows: Rows, commands: NamedUsers) -> None:
    commands.add("alice", PASSWORD, role=Role.ADMINISTRATOR)

    found = user(rows)
    assert users.rights_of(found) == Rights(role=Role.ADMINISTRATOR, may_edit_glue=True)
    assert is_password(found.password, PASSWORD)
    assert found.generation == 0


def test_an_operator_has_apps(rows: Rows, commands: NamedUsers) -> None:
    commands.add("alice", PASSWORD, role=Role.OPERATOR, app_names=["mails", "reports", "mails"])

    assert user(rows).permission == "1,2"
    assert not user(rows).may_edit_glue


@pytest.mark.parametrize(
    ("rights", "words"),
    [
        ({"role": Role.ADMINISTRATOR, "app_names": ["reports"]}, "an administrator has all apps"),
        ({"role": Role.OPERATOR}, "expected the apps of a new operator, got none"),
        ({"role": Role.VIEWER}, "expected the apps of a new viewer, got none"),
        (
            {"role": Role.VIEWER, "app_names": ["reports"], "may_edit_glue": True},
            "a viewer cannot change scripts",
        ),
    ],
)
def test_rights_that_make_no_sense_are_refused(
    rows: Rows, commands: NamedUsers, rights: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        commands.add("alice", PASSWORD, **rights)

    assert rows.database.read(users.listing) == []


def test_an_unknown_app_is_refused(commands: NamedUsers) -> None:
    with pytest.raises(NotFound, match="NO_APP_NAMED name='shop'"):
        commands.add("alice", PASSWORD, role=Role.VIEWER, app_names=["shop"])


@pytest.mark.parametrize(
    "name", ["", "bob", "a" * 51, "al ice", "alice\n", "älice", "al/ice", "<b>bob"]
)
def test_a_wrong_name_is_refused(commands: NamedUsers, name: str) -> None:
    with pytest.raises(ValueError, match="expected the user's name to be like"):
        commands.add(name, PASSWORD, role=Role.ADMINISTRATOR)


@pytest.mark.parametrize("name", ["alice", "ALICE"])
def test_a_name_is_given_once_whatever_its_capitals(commands: NamedUsers, name: str) -> None:
    commands.add("alice", PASSWORD, role=Role.ADMINISTRATOR)

    with pytest.raises(Problem, match="already"):
        commands.add(name, PASSWORD, role=Role.ADMINISTRATOR)


def test_another_password_ends_the_sessions_of_before(rows: Rows, commands: NamedUsers) -> None:
    commands.add("alice", PASSWORD, role=Role.ADMINISTRATOR)

    commands.set_password("alice", "battery staple")

    assert is_password(user(rows).password, "battery staple")
    assert not is_password(user(rows).password, PASSWORD)
    assert user(rows).generation == 1


def test_other_rights_end_the_sessions_of_before(rows: Rows, commands: NamedUsers) -> None:
    commands.add("alice", PASSWORD, role=Role.ADMINISTRATOR)
    commands.add("barbara", PASSWORD, role=Role.ADMINISTRATOR)

    commands.set_rights("alice", role=Role.VIEWER, app_names=["mails"])

    assert users.rights_of(user(rows)) == Rights(role=Role.VIEWER, app_ids=(2,))
    assert user(rows).generation == 1


def test_the_only_administrator_stays_one(rows: Rows, commands: NamedUsers) -> None:
    commands.add("alice", PASSWORD, role=Role.ADMINISTRATOR)

    with pytest.raises(Problem, match="alice is the only administrator"):
        commands.set_rights("alice", role=Role.VIEWER, app_names=["mails"])
    with pytest.raises(Problem, match="alice is the only administrator"):
        commands.delete("alice")

    assert users.rights_of(user(rows)).role is Role.ADMINISTRATOR


def test_a_disabled_user_keeps_everything_but_the_sessions(
    rows: Rows, commands: NamedUsers
) -> None:
    commands.add("alice", PASSWORD, role=Role.OPERATOR, app_names=["mails"])

    commands.disable("alice")

    found = user(rows)
    assert (found.is_disabled, found.generation) == (1, 1)
    assert users.rights_of(found) == Rights(role=Role.OPERATOR, app_ids=(2,))
    assert is_password(found.password, PASSWORD)
    commands.enable("alice")
    assert (user(rows).is_disabled, user(rows).generation) == (0, 2)


def test_a_program_is_no_administrator_that_could_sign_in(rows: Rows, commands: NamedUsers) -> None:
    commands.add("alice", PASSWORD, role=Role.ADMINISTRATOR)
    commands.add("ci", None, role=Role.ADMINISTRATOR)

    for act in (commands.disable, commands.delete):
        with pytest.raises(Problem, match="alice is the only administrator who can sign in"):
            act("alice")
    commands.disable("ci")

    assert not user(rows).is_disabled


def test_disabling_twice_is_disabling_once(rows: Rows, commands: NamedUsers) -> None:
    commands.add("alice", PASSWORD, role=Role.OPERATOR, app_names=["mails"])

    for act in (commands.enable, commands.disable, commands.disable, commands.enable):
        act("alice")

    noted = rows.database.read(lambda session: audit_log.listing(session, AuditFilter(kind="user")))
    assert [(entry.action, entry.name) for entry in noted] == [
        ("user.enable", "alice"),
        ("user.disable", "alice"),
        ("user.add", "alice"),
    ]


def test_a_disabled_administrator_is_none_that_could_act(rows: Rows, commands: NamedUsers) -> None:
    commands.add("alice", PASSWORD, role=Role.ADMINISTRATOR)
    commands.add("barbara", PASSWORD, role=Role.ADMINISTRATOR)
    commands.disable("barbara")

    with pytest.raises(Problem, match="alice is the only administrator"):
        commands.disable("alice")
    with pytest.raises(Problem, match="alice is the only administrator"):
        commands.set_rights("alice", role=Role.VIEWER, app_names=["mails"])
    with pytest.raises(Problem, match="alice is the only administrator"):
        commands.delete("alice")

    commands.delete("barbara")
    assert not user(rows).is_disabled


def test_nobody_disables_or_enables_themselves(rows: Rows, commands: NamedUsers) -> None:
    commands.add("alice", PASSWORD, role=Role.ADMINISTRATOR)
    commands.add("barbara", PASSWORD, role=Role.ADMINISTRATOR)
    own = NamedUsers(rows.database, who="Alice")

    with pytest.raises(Problem, match="their own user"):
        own.disable("alice")
    commands.disable("alice")
    with pytest.raises(Problem, match="their own user"):
        own.enable("alice")

    assert user(rows).is_disabled


def test_nobody_gets_a_password_or_rights(commands: NamedUsers) -> None:
    with pytest.raises(NotFound, match="NO_USER_NAMED name='nobody'"):
        commands.set_password("nobody", PASSWORD)
    with pytest.raises(NotFound, match="NO_USER_NAMED name='nobody'"):
        commands.set_rights("nobody", role=Role.ADMINISTRATOR)
    with pytest.raises(NotFound, match="NO_USER_NAMED name='nobody'"):
        commands.disable("nobody")


def test_the_name_is_no_password_of_its_user(rows: Rows, commands: NamedUsers) -> None:
    commands.add("alice.cooper", PASSWORD, role=Role.ADMINISTRATOR)

    with pytest.raises(ValueError, match="not to be the user's name"):
        commands.set_password("alice.cooper", "alice.cooper")

    assert user(rows, "alice.cooper").generation == 0
