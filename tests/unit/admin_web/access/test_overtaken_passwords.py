"""Users who choose a password at the moment when an administrator resets it: the reset stays."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from tests.support.acting import NamedUsers
from tests.support.console import PASSWORD, Visit, signed_in
from warren.admin_web.access.sign_ins import SignIns
from warren.sql.accounts import users
from warren.sql.engine import Database

OWN, RESET = "a password of my own", "a temporary password"
FORM = {"present": PASSWORD, "fresh": OWN, "again": OWN}


def reset(database: Database) -> None:
    NamedUsers(database, who="admin").set_password("operator", RESET, must_change=True)


def before_and_after(
    act: Callable[..., Any], before: Callable[[], None], after: Callable[[], None]
) -> Callable[..., Any]:
    """Return `act` with something that others do just before it and just after."""

    def acted(*given: Any, **named: Any) -> Any:
        before()
        answer = act(*given, **named)
        after()
        return answer

    return acted


def nothing() -> None:
    """Nobody else does anything at this moment."""


def must_change(database: Database) -> bool:
    found = database.read(lambda session: users.by_name(session, "operator"))
    assert found is not None
    return bool(found.must_change_password)


def test_a_reset_after_the_present_password_was_checked_is_not_overwritten(
    app: Flask, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = signed_in(app, "operator")
    with monkeypatch.context() as moment:
        overtaken = before_and_after(SignIns.check, nothing, lambda: reset(database))
        moment.setattr(SignIns, "check", overtaken)
        answer = operator.post("/account/password", FORM)

    assert answer.status_code == 401
    assert "Session expired" in answer.text
    assert operator.get("/account").headers["Location"].startswith("/login")
    assert must_change(database)
    assert Visit(app).sign_in("operator", OWN).status_code == 401
    assert Visit(app).sign_in("operator", RESET).status_code == 303


def test_a_reset_after_the_new_password_was_stored_leaves_nobody_signed_in(
    app: Flask, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = signed_in(app, "operator")
    with monkeypatch.context() as moment:
        overtaken = before_and_after(SignIns.reopen, lambda: reset(database), nothing)
        moment.setattr(SignIns, "reopen", overtaken)
        answer = operator.post("/account/password", FORM)

    assert answer.headers["Location"] == "/login"
    assert operator.get("/account").headers["Location"].startswith("/login")
    assert must_change(database)
    assert Visit(app).sign_in("operator", RESET).status_code == 303


def test_of_two_changes_that_knew_the_same_password_only_one_is_made(
    app: Flask, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = signed_in(app, "operator")
    other = NamedUsers(database, who="operator")
    with monkeypatch.context() as moment:
        overtaken = before_and_after(
            SignIns.check, nothing, lambda: other.set_password("operator", RESET)
        )
        moment.setattr(SignIns, "check", overtaken)
        answer = operator.post("/account/password", FORM)

    assert answer.status_code == 401
    assert Visit(app).sign_in("operator", OWN).status_code == 401
    assert Visit(app).sign_in("operator", RESET).status_code == 303
