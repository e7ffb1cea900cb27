"""Users and their rights."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore, modify
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.models import Identity, SignIn, User
from warren.sql.rows import contains, fetch, query

#: The prefix of a program's stored password: no one can sign in with it.
NO_SIGN_IN = "!"


class Role(IntEnum):
    """The stored roles; XXL-JOB has the first two."""

    OPERATOR = 0
    ADMINISTRATOR = 1
    VIEWER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """A user's role and apps; an administrator has all apps, so `app_ids` is empty."""

    role: Role
    app_ids: tuple[int, ...] = ()
    may_edit_glue: bool = False


class HasRights(Protocol):
    """A user's row, or its columns for rights."""

    @property
    def role(self) -> int:
        """The number of a `Role`."""

    @property
    def permission(self) -> str | None:
        """The ids of apps, separated by commas."""

    @property
    def may_edit_glue(self) -> int:
        """Whether the user may change scripts."""


def add(session: Session, name: str, password_hash: str, rights: Rights) -> int | None:
    """Add a user and return the id; None if the name is taken, ignoring case."""
    taken = {known.casefold() for known in session.execute(select(User.name)).scalars()}
    if name.casefold() in taken:
        return None
    user = User(name=name, password=password_hash)
    _assign(user, rights)
    session.add(user)
    session.flush()
    return user.id


def add_first(session: Session, name: str, password_hash: str) -> int | None:
    """Add the first user, an administrator who must choose a new password; return the id.

    Returns None if there are users, even if another process has just added the first one.
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
    insert_or_ignore(session, User, [row])
    # The hash has a random salt, so it shows whether this call inserted the row.
    return session.execute(
        select(User.id).where(User.name == name, User.password == password_hash)
    ).scalar_one_or_none()


def find(session: Session, name: str) -> User:
    """Lock and return a user.

    Raises:
        NotFound: there is none.

    """
    user = _named(session, name, for_update=True)
    if user is None:
        raise NotFound(LookupFailure.NO_USER_NAMED, name=name)
    return user


def may_sign_in(user: User) -> bool:
    """Return whether a user may sign in with a password: not disabled, a program, or linked."""
    has_password = user.sso_until is None and not user.password.startswith(NO_SIGN_IN)
    return has_password and not user.is_disabled


def set_password(user: User, password_hash: str) -> None:
    """Set a locked user's password, and end all sessions."""
    user.password = password_hash
    user.must_change_password = 0
    user.generation += 1


def set_rights(user: User, rights: Rights) -> None:
    """Set a locked user's rights, and end all sessions."""
    _assign(user, rights)
    user.generation += 1


def set_access(user: User, *, sso_until: int | None, tokens_until: int | None) -> None:
    """Set until when a locked user's sessions by single sign-on and tokens hold; None = local."""
    user.sso_until, user.tokens_until = sso_until, tokens_until


def set_disabled(user: User, *, is_disabled: bool) -> None:
    """Disable or enable a locked user, and end all sessions."""
    user.is_disabled = int(is_disabled)
    user.generation += 1


def rights_of(user: HasRights) -> Rights:
    """Return the role and the apps in a user's row."""
    listed = (user.permission or "").split(",")
    return Rights(
        role=Role(user.role),
        app_ids=tuple(int(app_id) for app_id in listed if app_id.strip().isdigit()),
        may_edit_glue=bool(user.may_edit_glue),
    )


def by_name(session: Session, name: str) -> User | None:
    """Return a user without locking; None if there is none."""
    return _named(session, name, for_update=False)


def set_preferences(user: User, *, locale: str, timezone: str, theme: str) -> None:
    """Set a locked user's language, time zone and theme; empty = as the browser has it."""
    user.locale, user.timezone, user.theme = locale or None, timezone or None, theme or None


def listing(session: Session) -> Sequence[User]:
    """Return all users sorted by name."""
    return session.execute(select(User).order_by(User.name)).scalars().all()


def stored_apps(rights: Rights) -> str | None:
    """Return the apps in their stored form."""
    return ",".join(map(str, rights.app_ids)) or None


def _assign(user: User, rights: Rights) -> None:
    user.role = rights.role
    user.permission = stored_apps(rights)
    user.may_edit_glue = int(rights.may_edit_glue)


def _named(session: Session, name: str, *, for_update: bool) -> User | None:
    statement = select(User).where(User.name == name)
    if for_update:
        statement = statement.with_for_update()
    user = session.execute(statement).scalar_one_or_none()
    # MariaDB and MySQL ignore trailing spaces when they compare names.
    return user if user is not None and user.name == name else None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFilter:
    """Which users to return, after the name `after`; `name` is a part of the name, None = any."""

    name: str | None = None
    role: Role | None = None
    after: str = ""
    limit: int = 50


class ListedUser(NamedTuple):
    """A user, and when one of their sessions was last used."""

    user: User
    seen_at: int | None


def filtered(session: Session, wanted: UserFilter) -> list[ListedUser]:
    """Return users sorted by name."""
    seen = (
        select(func.max(SignIn.seen_at))
        .where(SignIn.user_id == User.id, SignIn.generation == User.generation)
        .correlate(User)
        .scalar_subquery()
    )
    statement = (
        query(ListedUser, User, user=User, seen_at=seen)
        .where(User.name > wanted.after)
        .order_by(User.name)
        .limit(wanted.limit)
    )
    if wanted.name:
        statement = statement.where(contains(session, User.name, wanted.name))
    if wanted.role is not None:
        statement = statement.where(User.role == int(wanted.role))
    return fetch(session, ListedUser, statement)


def by_id(session: Session, user_id: int) -> User:
    """Return a user.

    Raises:
        NotFound: there is none.

    """
    user = session.get(User, user_id)
    if user is None:
        raise NotFound(LookupFailure.NO_USER, id=user_id)
    return user


def lock_administrators(session: Session) -> list[str]:
    """Lock all administrators; return the names of those who may sign in with a password.

    Until the transaction ends, no one else can change who is an administrator.
    """
    administrators = select(User).where(User.role == int(Role.ADMINISTRATOR)).order_by(User.id)
    locked = session.execute(administrators.with_for_update()).scalars()
    return [user.name for user in locked if may_sign_in(user)]


def has_other_administrator(session: Session, user_id: int) -> bool:
    """Return whether another administrator can sign in, by a password or at the provider."""
    administrators = select(User).where(
        User.role == int(Role.ADMINISTRATOR), User.is_disabled == 0, User.id != user_id
    )
    others = session.execute(administrators).scalars()
    return any(may_sign_in(user) or (user.sso_until or 0) > 0 for user in others)


def free_name(session: Session, wanted: str) -> str:
    """Return a name that nobody has, ignoring case: the wanted one, or that with a number."""
    taken = {known.casefold() for known in session.execute(select(User.name)).scalars()}
    name, number = wanted, 1
    while name.casefold() in taken:
        number += 1
        name = f"{wanted[:44]}-{number}"
    return name


def remove(session: Session, user: User) -> None:
    """Delete a locked user, all their sessions and their identity."""
    modify(session, delete(SignIn).where(SignIn.user_id == user.id))
    modify(session, delete(Identity).where(Identity.user_id == user.id))
    session.delete(user)
    session.flush()


def remove_app_from_rights(session: Session, app_id: int) -> None:
    """Remove an app that is being deleted from all users' rights, and end their sessions."""
    limited = select(User).where(User.permission.is_not(None)).order_by(User.id).with_for_update()
    for user in session.execute(limited).scalars():
        listed = (user.permission or "").split(",")
        remaining = [listed_id for listed_id in listed if listed_id.strip() != str(app_id)]
        if len(remaining) < len(listed):
            user.permission = ",".join(remaining) or None
            user.generation += 1
    session.flush()


def require_new_password(session: Session, user_id: int) -> None:
    """Make a user choose a new password at the next sign-in."""
    modify(session, update(User).where(User.id == user_id).values(must_change_password=1))
