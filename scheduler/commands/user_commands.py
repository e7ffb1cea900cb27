"""Commands on users, for command line and console alike."""

import re
import secrets
from dataclasses import replace

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.passwords import check_password, hash_password, no_password
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import preferences, tokens, users
from warren.sql.accounts.users import Rights, Role
from warren.sql.models import App, User

#: The administrator that the first start creates, with a password of 16 characters (96 bits).
ADMIN_NAME = "admin"
INITIAL_PASSWORD_BYTES = 12

NAME_PATTERN = r"[A-Za-z0-9_.-]{4,50}"
#: Names of programs, which never sign in, may be as short as `ci`.
PROGRAM_NAME_PATTERN = r"[A-Za-z0-9_.-]{2,50}"


class UserCommands:
    """Adds, changes and deletes users, and writes audit log entries.

    A change of password or rights, and disabling, end all sessions of a user. Disabling, and a
    password set by another user, also revoke all tokens of the user.
    """

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def add(
        self, name: str, password: str | None, rights: Rights, *, must_change: bool = False
    ) -> int:
        """Create a user; return the id.

        Args:
            name: the user's name.
            password: None = for a program, which uses tokens and cannot sign in.
            rights: role and apps.
            must_change: the user must choose another password at the first sign-in.

        Raises:
            Problem: name, password or rights are invalid, or the name is taken.

        """
        check_user_name(name, PROGRAM_NAME_PATTERN if password is None else NAME_PATTERN)
        if password is not None:
            check_password(password, name)
        password_hash = no_password() if password is None else hash_password(password)

        def unit(session: Session) -> int:
            given = checked_rights(session, rights)
            user_id = users.add(session, name, password_hash, given)
            if user_id is None:
                raise Problem(Code.USER_NAME_TAKEN, "name", name=name)
            if must_change:
                users.require_new_password(session, user_id)
            self._note(session, Action.USER_ADD, name, user_id, after=rights_record(given))
            return user_id

        return self._context.write(Right.ADMINISTER, unit)

    def add_first(self) -> str | None:
        """Create the first administrator, `admin`; return the password, or None if users exist.

        The password is stored nowhere, and must be changed at the first sign-in.
        """
        password = secrets.token_urlsafe(INITIAL_PASSWORD_BYTES)
        password_hash = hash_password(password)

        def unit(session: Session) -> str | None:
            user_id = users.add_first(session, ADMIN_NAME, password_hash)
            if user_id is None:
                return None
            rights = rights_record(Rights(role=Role.ADMINISTRATOR, may_edit_glue=True))
            self._note(session, Action.USER_ADD, ADMIN_NAME, user_id, after=rights)
            return password

        return self._context.write(Right.ADMINISTER, unit)

    def set_password(
        self,
        user_id: int,
        password: str,
        *,
        must_change: bool = False,
        generation: int | None = None,
    ) -> int:
        """Set a user's password; users may set their own, administrators everyone's.

        Args:
            user_id: the user.
            password: the new password.
            must_change: the user must choose another one at the next sign-in.
            generation: the user's when the current password was checked; None = it was not checked.

        Returns:
            The user's new generation.

        Raises:
            Problem: there is no such user, nobody may sign in with its name, the password is
                invalid, the actor has no right, or the user is of another generation by now.

        """
        user = self._context.database.read(lambda session: session.get(User, user_id))
        # Compare exactly: a database may have both `olga` and `Olga`.
        if user is None or user.name != self._context.actor.who:
            self._context.actor.demand(Right.ADMINISTER)
        if user is None:
            raise Problem(Code.NO_USER, id=user_id)
        check_user_name(user.name)
        check_password(password, user.name)
        password_hash = hash_password(password)

        def unit(session: Session) -> int:
            user = _user(session, user_id, lock=True)
            if generation not in (None, user.generation):
                raise Problem(Code.USER_CHANGED, name=user.name)
            users.set_password(user, password_hash)
            user.must_change_password = int(must_change)
            self._note(session, Action.USER_PASSWORD, user.name, user.id)
            if user.name != self._context.actor.who:
                self._revoke_tokens(session, user)
            return user.generation

        return self._context.write(Right.ACCOUNT, unit)

    def set_rights(self, user_id: int, rights: Rights) -> None:
        """Change a user's rights.

        Raises:
            Problem: there is no such user or app, the rights are invalid, the user is the actor,
                its rights come from rules, or no administrator who can sign in would remain.

        """

        def unit(session: Session) -> None:
            user = self._lock_other(session, user_id, leaves=rights.role is not Role.ADMINISTRATOR)
            if user.sso_until is not None:
                raise Problem(Code.RIGHTS_BY_RULES, name=user.name)
            before, given = rights_record(users.rights_of(user)), checked_rights(session, rights)
            users.set_rights(user, given)
            values = {"before": before, "after": rights_record(given)}
            self._note(session, Action.USER_RIGHTS, user.name, user.id, **values)

        self._context.write(Right.ADMINISTER, unit)

    def disable(self, user_id: int) -> None:
        """Keep a user from signing in until `enable`; password, rights and apps are kept.

        Raises:
            Problem: there is no such user, or it is the actor or the last administrator
                who can sign in.

        """
        self._set_disabled(user_id, Action.USER_DISABLE, is_disabled=True)

    def enable(self, user_id: int) -> None:
        """Let a disabled user sign in again.

        Raises:
            Problem: there is no such user, or it is the actor.

        """
        self._set_disabled(user_id, Action.USER_ENABLE, is_disabled=False)

    def delete(self, user_id: int) -> None:
        """Delete a user and all their sessions; their audit log entries are kept.

        Raises:
            Problem: there is no such user, or it is the actor or the last administrator
                who can sign in.

        """

        def unit(session: Session) -> None:
            user = self._lock_other(session, user_id, leaves=True)
            name, before = user.name, rights_record(users.rights_of(user))
            users.remove(session, user)
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
        administrators = users.lock_administrators(session)
        user = _user(session, user_id, lock=True)
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


def check_user_name(name: str, pattern: str = NAME_PATTERN) -> None:
    """Raise Problem unless the name matches a pattern."""
    if not re.fullmatch(pattern, name):
        raise Problem(Code.USER_NAME, "name", pattern=pattern, got=name[:100])


def _user(session: Session, user_id: int, *, lock: bool = False) -> User:
    user = session.get(User, user_id, with_for_update=lock or None, populate_existing=lock)
    if user is None:
        raise Problem(Code.NO_USER, id=user_id)
    return user


def rights_record(rights: Rights) -> dict[str, object]:
    """Return what the audit log keeps of a user's rights."""
    return {
        "role": rights.role.name.lower(),
        "app_ids": list(rights.app_ids),
        "may_edit_glue": rights.may_edit_glue,
    }


def checked_rights(session: Session, rights: Rights) -> Rights:
    """Return the rights to store; an administrator has all rights and names no apps.

    Raises:
        Problem: the rights contradict the role, or an app does not exist.

    """
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
