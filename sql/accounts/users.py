"""Users of the console, and what they may do."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.orm import Session

from sql.batch import insert_unless_there
from sql.errors import NotFound
from sql.models import User


class Role(IntEnum):
    """What a user is, as it is stored; XXL-JOB knows the first two."""

    OPERATOR = 0
    ADMINISTRATOR = 1
    VIEWER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a user may do, and with which apps; an administrator's are all, so none is named."""

    role: Role
    app_ids: tuple[int, ...] = ()
    may_edit_glue: bool = False


class HasRights(Protocol):
    """A row of a user, or a part of one."""

    @property
    def role(self) -> int:
        """A `Role`."""

    @property
    def permission(self) -> str | None:
        """The ids of apps, with commas between."""

    @property
    def may_edit_glue(self) -> int:
        """Whether scripts may be changed."""


def add(session: Session, name: str, password_hash: str, rights: Rights) -> int | None:
    """Make a user and return the id; None when the name is taken, whatever its capitals."""
    taken = {known.casefold() for known in session.execute(select(User.name)).scalars()}
    if name.casefold() in taken:
        return None
    user = User(name=name, password=password_hash)
    _give(user, rights)
    session.add(user)
    session.flush()
    return user.id


def add_first(session: Session, name: str, password_hash: str) -> int | None:
    """Make the first user, an administrator with a new password to choose; return the id.

    None when there are users, or when somebody else makes the first one at this moment.
    """
    if session.execute(select(User.id).limit(1)).first() is not None:
        return None
    row = {
        "name": name,
        "password": password_hash,
        "role": int(Role.ADMINISTRATOR),
        "may_edit_glue": 1,
        "must_change_password": 1,
        "is_disabled": 0,
        "generation": 0,
    }
    insert_unless_there(session, User, [row])
    # The salt makes the hash this call's own.
    return session.execute(
        select(User.id).where(User.name == name, User.password == password_hash)
    ).scalar_one_or_none()


def find(session: Session, name: str) -> User:
    """Lock a user and return it.

    Raises:
        NotFound: there is none.

    """
    user = _named(session, name, for_update=True)
    if user is None:
        raise NotFound(f"no user named {name!r}")
    return user


def set_password(user: User, password_hash: str) -> None:
    """Give a locked user another password; every session of before is void."""
    user.password = password_hash
    user.must_change_password = 0
    user.generation += 1


def set_rights(user: User, rights: Rights) -> None:
    """Give a locked user other rights; every session of before is void."""
    _give(user, rights)
    user.generation += 1


def set_disabled(user: User, *, is_disabled: bool) -> None:
    """Let a locked user sign in no longer, or again; every session of before is void."""
    user.is_disabled = int(is_disabled)
    user.generation += 1


def rights_of(user: HasRights) -> Rights:
    """Return what a user may do."""
    listed = (user.permission or "").split(",")
    return Rights(
        role=Role(user.role),
        app_ids=tuple(int(app_id) for app_id in listed if app_id.strip().isdigit()),
        may_edit_glue=bool(user.may_edit_glue),
    )


def by_name(session: Session, name: str) -> User | None:
    """Return a user without locking; None when there is none."""
    return _named(session, name, for_update=False)


def set_preferences(user: User, *, locale: str, timezone: str, theme: str) -> None:
    """Give a locked user a language, a time zone and a theme; empty = as the browser says."""
    user.locale, user.timezone, user.theme = locale or None, timezone or None, theme or None


def listing(session: Session) -> Sequence[User]:
    """Return all users by name."""
    return session.execute(select(User).order_by(User.name)).scalars().all()


def _give(user: User, rights: Rights) -> None:
    user.role = rights.role
    user.permission = ",".join(map(str, rights.app_ids)) or None
    user.may_edit_glue = int(rights.may_edit_glue)


def _named(session: Session, name: str, *, for_update: bool) -> User | None:
    statement = select(User).where(User.name == name)
    if for_update:
        statement = statement.with_for_update()
    user = session.execute(statement).scalar_one_or_none()
    # To MariaDB and MySQL a name with spaces behind it is the same one.
    return user if user is not None and user.name == name else None
