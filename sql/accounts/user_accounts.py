"""Users as administrators manage them: listed, found by id, deleted."""

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from warren.sql.accounts.users import Role, may_sign_in
from warren.sql.batch import modify
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.models import SignIn, User
from warren.sql.rows import contains, fetch, query


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


def listing(session: Session, wanted: UserFilter) -> list[ListedUser]:
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
    """Lock all administrators; return the names of those who may sign in.

    Until the transaction ends, nobody else can change who is an administrator.
    """
    administrators = select(User).where(User.role == int(Role.ADMINISTRATOR)).order_by(User.id)
    locked = session.execute(administrators.with_for_update()).scalars()
    return [user.name for user in locked if may_sign_in(user)]


def remove(session: Session, user: User) -> None:
    """Delete a locked user and all their sessions."""
    modify(session, delete(SignIn).where(SignIn.user_id == user.id))
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
