"""What people do with users: the same for the command line and the console."""

import re
import secrets
from dataclasses import replace

from sqlalchemy.orm import Session

from scheduler.actor import Right
from scheduler.commands.audit_log import Action
from scheduler.commands.command_context import CommandContext
from scheduler.commands.passwords import check_password, hash_password
from scheduler.problems import Code, Problem
from sql.accounts import preferences, tokens, user_accounts, users
from sql.accounts.users import Rights, Role
from sql.models import App, User

#: The administrator that a first start makes; 16 characters of password, 96 bits.
FIRST_NAME = "admin"
FIRST_PASSWORD_BYTES = 12

NAME_PATTERN = r"[A-Za-z0-9_.-]{4,50}"


class UserCommands:
    """Adds and changes users, and notes it in the audit log.

    Whoever is signed in as a user whose password or rights change, or who is disabled, is so no
    longer. A user who is disabled, or given a password by somebody else, loses every token.
    """

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def add(
        self, name: str, password: str | None, rights: Rights, *, must_change: bool = False
    ) -> int:
        """Make a user; return the id. With `must_change` the password is good for one sign-in.

        One without a password is a program's: nobody can sign in, its tokens work.

        Raises:
            Problem: name, password or rights are not acceptable, or the name is taken.

        """
        check_user_name(name)
        if password is not None:
            check_password(password, name)
        # Nobody knows it, so a wrong password is refused as slowly as for anybody.
        password_hash = hash_password(password or secrets.token_urlsafe())

        def unit(session: Session) -> int:
            given = _checked(session, rights)
            user_id = users.add(session, name, password_hash, given)
            if user_id is None:
                raise Problem(Code.USER_NAME_TAKEN, "name", name=name)
            if must_change:
                user_accounts.demand_new_password(session, user_id)
            self._note(session, Action.USER_ADD, name, user_id, after=_record(given))
            return user_id

        return self._context.write(Right.ADMINISTER, unit)

    def add_first(self) -> str | None:
        """Make the first administrator, `admin`; return the password, None when there are users.

        Only the caller ever knows it, and it must be changed at the first sign-in.
        """
        password = secrets.token_urlsafe(FIRST_PASSWORD_BYTES)
        password_hash = hash_password(password)

        def unit(session: Session) -> str | None:
            user_id = users.add_first(session, FIRST_NAME, password_hash)
            if user_id is None:
                return None
            rights = _record(Rights(role=Role.ADMINISTRATOR, may_edit_glue=True))
            self._note(session, Action.USER_ADD, FIRST_NAME, user_id, after=rights)
            return password

        return self._context.write(Right.ADMINISTER, unit)

    def set_password(self, user_id: int, password: str, *, must_change: bool = False) -> None:
        """Give a user another password, which everybody may do with their own.

        With `must_change` it is good for one sign-in, at which another is to be chosen.

        Raises:
            Problem: there is no such user, or the password is not acceptable.

        """
        user = self._context.database.read(lambda session: session.get(User, user_id))
        # By the exact name: `olga` is not `Olga` where a database has both.
        if user is None or user.name != self._context.actor.who:
            self._context.actor.demand(Right.ADMINISTER)
        if user is None:
            raise Problem(Code.NO_USER, id=user_id)
        check_password(password, user.name)
        password_hash = hash_password(password)

        def unit(session: Session) -> None:
            user = _found(session, user_id, lock=True)
            users.set_password(user, password_hash)
            user.must_change_password = int(must_change)
            self._note(session, Action.USER_PASSWORD, user.name, user.id)
            if user.name != self._context.actor.who:
                self._revoke_tokens(session, user)

        self._context.write(Right.ACCOUNT, unit)

    def set_rights(self, user_id: int, rights: Rights) -> None:
        """Give a user other rights.

        Raises:
            Problem: there is no such user or app, the rights are not acceptable, it is whoever
                asks, or there would be no administrator.

        """

        def unit(session: Session) -> None:
            user = self._lock_other(session, user_id, leaves=rights.role is not Role.ADMINISTRATOR)
            before, given = _record(users.rights_of(user)), _checked(session, rights)
            users.set_rights(user, given)
            told = {"before": before, "after": _record(given)}
            self._note(session, Action.USER_RIGHTS, user.name, user.id, **told)

        self._context.write(Right.ADMINISTER, unit)

    def disable(self, user_id: int) -> None:
        """Keep a user from signing in until `enable`; password, rights and apps stay.

        Raises:
            Problem: there is no such user, it is the caller, or the last administrator.

        """
        self._set_disabled(user_id, Action.USER_DISABLE, is_disabled=True)

    def enable(self, user_id: int) -> None:
        """Let a user sign in again.

        Raises:
            Problem: there is no such user, or it is the caller.

        """
        self._set_disabled(user_id, Action.USER_ENABLE, is_disabled=False)

    def delete(self, user_id: int) -> None:
        """Remove a user with every sign-in; what they did stays in the audit log.

        Raises:
            Problem: there is no such user, it is the caller, or the last administrator.

        """

        def unit(session: Session) -> None:
            user = self._lock_other(session, user_id, leaves=True)
            name, before = user.name, _record(users.rights_of(user))
            user_accounts.remove(session, user)
            preferences.forget_user(session, user_id)
            self._note(session, Action.USER_DELETE, name, user_id, before=before)

        self._context.write(Right.ADMINISTER, unit)

    def _set_disabled(self, user_id: int, action: Action, *, is_disabled: bool) -> None:
        def unit(session: Session) -> None:
            user = self._lock_other(session, user_id, leaves=is_disabled)
            if bool(user.is_disabled) is is_disabled:
                return
            users.set_disabled(user, is_disabled=is_disabled)
            self._note(session, action, user.name, user.id)
            if is_disabled:
                self._revoke_tokens(session, user)

        self._context.write(Right.ADMINISTER, unit)

    def _revoke_tokens(self, session: Session, user: User) -> None:
        now_ms, by = self._context.now_ms(), self._context.actor.who
        for token in tokens.revoke_of(session, user.id, now_ms=now_ms, by=by):
            self._note(session, Action.TOKEN_REVOKE, token.name, token.id)

    def _lock_other(self, session: Session, user_id: int, *, leaves: bool) -> User:
        # Lock administrators first: if two demote each other at once, the second sees the first.
        administrators = user_accounts.lock_administrators(session)
        user = _found(session, user_id, lock=True)
        if self._is_own(user.name):
            raise Problem(Code.OWN_USER, name=user.name)
        if leaves and administrators == [user.name]:
            raise Problem(Code.LAST_ADMINISTRATOR, name=user.name)
        return user

    def _is_own(self, name: str) -> bool:
        return name.casefold() == self._context.actor.who.casefold()

    def _note(
        self,
        session: Session,
        action: Action,
        name: str,
        user_id: int,
        **values: dict[str, object],
    ) -> None:
        self._context.note(session, action, name, user_id, self._context.now_ms(), **values)


def check_user_name(name: str) -> None:
    """Raise Problem unless this can be a user's name."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise Problem(Code.USER_NAME, "name", pattern=NAME_PATTERN, got=name[:100])


def _found(session: Session, user_id: int, *, lock: bool = False) -> User:
    user = session.get(User, user_id, with_for_update=lock or None, populate_existing=lock)
    if user is None:
        raise Problem(Code.NO_USER, id=user_id)
    return user


def _record(rights: Rights) -> dict[str, object]:
    return {
        "role": rights.role.name.lower(),
        "app_ids": list(rights.app_ids),
        "may_edit_glue": rights.may_edit_glue,
    }


def _checked(session: Session, rights: Rights) -> Rights:
    """Return rights as they are stored: an administrator has every one, and names no app."""
    if rights.role is Role.ADMINISTRATOR:
        if rights.app_ids:
            raise Problem(Code.ADMINISTRATOR_WITH_APPS, "apps")
        return replace(rights, may_edit_glue=True)
    if not rights.app_ids:
        raise Problem(Code.NO_APPS, "apps", role=rights.role.name.lower())
    if rights.role is Role.VIEWER and rights.may_edit_glue:
        raise Problem(Code.VIEWER_WITH_SCRIPTS, "may_edit_scripts")
    for app_id in rights.app_ids:
        if session.get(App, app_id) is None:
            raise Problem(Code.NO_APP, "apps", id=app_id)
    return replace(rights, app_ids=tuple(sorted(set(rights.app_ids))))
