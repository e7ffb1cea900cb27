"""What people do with users: the same for the command line and the console."""

import re
from collections.abc import Sequence

from sqlalchemy.orm import Session

from scheduler.passwords import check_password, hash_password
from sql import apps, users
from sql.engine import Database
from sql.users import Rights, Role

NAME_PATTERN = r"[A-Za-z0-9_.-]{4,50}"


class UserCommands:
    """Adds and changes users."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        name: str,
        password: str,
        *,
        role: Role,
        app_names: Sequence[str] = (),
        may_edit_glue: bool = False,
    ) -> None:
        """Make a user.

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
            users.add(session, name, password_hash, rights)

        self._database.write(unit)

    def set_password(self, name: str, password: str) -> None:
        """Give a user another password; whoever is signed in as that user is so no longer.

        Raises:
            ValueError: the password is not acceptable.
            NotFound: there is no such user.

        """
        check_password(password, name)
        password_hash = hash_password(password)
        self._database.write(
            lambda session: users.set_password(users.find(session, name), password_hash)
        )

    def set_rights(
        self,
        name: str,
        *,
        role: Role,
        app_names: Sequence[str] = (),
        may_edit_glue: bool = False,
    ) -> None:
        """Give a user other rights; whoever is signed in as that user is so no longer."""

        def unit(session: Session) -> None:
            user = users.find(session, name)
            users.set_rights(user, _rights(session, role, app_names, may_edit_glue=may_edit_glue))

        self._database.write(unit)


def check_user_name(name: str) -> None:
    """Raise ValueError unless this can be a user's name."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise ValueError(f"expected the user's name to be like {NAME_PATTERN}, got: {name[:100]!r}")


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
