"""What people do with users: the same for the command line and the console."""

import re
import secrets
from collections.abc import Sequence

from sqlalchemy.orm import Session

from scheduler.passwords import check_password, hash_password
from scheduler.trail import CLI, Action, Trail
from sql import apps, user_accounts, users
from sql.clock import database_now_ms
from sql.engine import Database
from sql.errors import Conflict
from sql.models import User
from sql.users import Rights, Role

#: The administrator that a first start makes; 16 characters of password, 96 bits.
FIRST_NAME = "admin"
FIRST_PASSWORD_BYTES = 12

NAME_PATTERN = r"[A-Za-z0-9_.-]{4,50}"


class OwnUser(Conflict):
    """Nobody deletes themselves or changes their own rights."""


class LastAdministrator(Conflict):
    """Somebody must be left who may do this."""


class UserCommands:
    """Adds and changes users, and notes it in the audit trail.

    Args:
        database: where they are.
        who: whoever does it.
        origin: the address that it comes from, or `cli`.

    """

    def __init__(self, database: Database, *, who: str, origin: str = CLI) -> None:
        self._database = database
        self._who = who
        self._trail = Trail(who=who, origin=origin)

    def add(
        self,
        name: str,
        password: str,
        *,
        role: Role,
        app_names: Sequence[str] = (),
        may_edit_glue: bool = False,
        must_change: bool = False,
    ) -> None:
        """Make a user; with `must_change` the password is good for one sign-in.

        Raises:
            ValueError: name, password or rights are not acceptable, in one line.
            Conflict: the name is taken.
            NotFound: there is no such app.

        """
        check_user_name(name)
        check_password(password, name)
        password_hash = hash_password(password)

        def unit(session: Session) -> None:
            rights = _rights(session, role, app_names, may_edit_glue=may_edit_glue)
            user_id = users.add(session, name, password_hash, rights)
            if must_change:
                user_accounts.demand_new_password(session, user_id)
            self._note(session, Action.USER_ADD, name, user_id, after=_shown(rights))

        self._database.write(unit)

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
            rights = _shown(Rights(role=Role.ADMINISTRATOR, may_edit_glue=True))
            self._note(session, Action.USER_ADD, FIRST_NAME, user_id, after=rights)
            return password

        return self._database.write(unit)

    def set_password(self, name: str, password: str, *, must_change: bool = False) -> None:
        """Give a user another password; whoever is signed in as that user is so no longer.

        With `must_change` it is good for one sign-in, at which another is to be chosen.

        Raises:
            ValueError: the password is not acceptable.
            NotFound: there is no such user.

        """
        check_password(password, name)
        password_hash = hash_password(password)

        def unit(session: Session) -> None:
            user = users.find(session, name)
            users.set_password(user, password_hash)
            user.must_change_password = int(must_change)
            self._note(session, Action.USER_PASSWORD, name, user.id)

        self._database.write(unit)

    def set_rights(
        self,
        name: str,
        *,
        role: Role,
        app_names: Sequence[str] = (),
        may_edit_glue: bool = False,
    ) -> None:
        """Give a user other rights; whoever is signed in as that user is so no longer.

        Raises:
            ValueError: the rights are not acceptable, in one line.
            NotFound: there is no such user or app.
            OwnUser: it is whoever asks.
            LastAdministrator: there would be no administrator.

        """

        def unit(session: Session) -> None:
            user = self._lock_other(session, name, leaves=role is not Role.ADMINISTRATOR)
            before = users.rights_of(user)
            rights = _rights(session, role, app_names, may_edit_glue=may_edit_glue)
            users.set_rights(user, rights)
            self._note(
                session,
                Action.USER_RIGHTS,
                name,
                user.id,
                before=_shown(before),
                after=_shown(rights),
            )

        self._database.write(unit)

    def disable(self, name: str) -> None:
        """Let a user sign in no longer; whoever is signed in as that user is so no longer.

        Everything else of the user stays, until `enable`.

        Raises:
            NotFound: there is no such user.
            OwnUser: it is whoever asks.
            LastAdministrator: there would be no administrator.

        """
        self._set_disabled(name, Action.USER_DISABLE, is_disabled=True)

    def enable(self, name: str) -> None:
        """Let a user sign in again.

        Raises:
            NotFound: there is no such user.
            OwnUser: it is whoever asks.

        """
        self._set_disabled(name, Action.USER_ENABLE, is_disabled=False)

    def delete(self, name: str) -> None:
        """Remove a user with every sign-in; what they did stays in the audit trail.

        Raises:
            NotFound: there is no such user.
            OwnUser: it is whoever asks.
            LastAdministrator: there would be no administrator.

        """

        def unit(session: Session) -> None:
            user = self._lock_other(session, name, leaves=True)
            before = _shown(users.rights_of(user))
            user_accounts.remove(session, user)
            self._note(session, Action.USER_DELETE, name, user.id, before=before)

        self._database.write(unit)

    def _set_disabled(self, name: str, action: Action, *, is_disabled: bool) -> None:
        def unit(session: Session) -> None:
            user = self._lock_other(session, name, leaves=is_disabled)
            if bool(user.is_disabled) is is_disabled:
                return
            users.set_disabled(user, is_disabled=is_disabled)
            self._note(session, action, name, user.id)

        self._database.write(unit)

    def _lock_other(self, session: Session, name: str, *, leaves: bool) -> User:
        # Administrators first: of two that unmake each other at one time the second sees the first.
        administrators = user_accounts.lock_administrators(session)
        user = users.find(session, name)
        if user.username.casefold() == self._who.casefold():
            raise OwnUser(f"{user.username} cannot do this to their own user")
        if leaves and administrators == [user.username]:
            raise LastAdministrator(f"{user.username} is the only administrator")
        return user

    def _note(
        self,
        session: Session,
        action: Action,
        name: str,
        user_id: int,
        *,
        before: dict[str, object] | None = None,
        after: dict[str, object] | None = None,
    ) -> None:
        now_ms = database_now_ms(session)
        self._trail.note(
            session, action, name, object_id=user_id, now_ms=now_ms, before=before, after=after
        )


def check_user_name(name: str) -> None:
    """Raise ValueError unless this can be a user's name."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise ValueError(f"expected the user's name to be like {NAME_PATTERN}, got: {name[:100]!r}")


def _shown(rights: Rights) -> dict[str, object]:
    return {
        "role": rights.role.name.lower(),
        "app_ids": list(rights.app_ids),
        "may_edit_glue": rights.may_edit_glue,
    }


def _rights(
    session: Session, role: Role, app_names: Sequence[str], *, may_edit_glue: bool
) -> Rights:
    if role is Role.ADMINISTRATOR:
        if app_names:
            raise ValueError("an administrator has all apps; leave them out")
        return Rights(role=role, may_edit_glue=True)
    if not app_names:
        raise ValueError(f"expected the apps of a new {role.name.lower()}, got none")
    if role is Role.VIEWER and may_edit_glue:
        raise ValueError("a viewer changes nothing, so no scripts either")
    app_ids = {apps.find(session, name).id for name in app_names}
    return Rights(role=role, app_ids=tuple(sorted(app_ids)), may_edit_glue=may_edit_glue)
