"""Users as an administrator sees them: listed, found by id, removed."""

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from sql.accounts.users import Role
from sql.errors import NotFound
from sql.models import SignIn, User
from sql.rows import fetch, query

_NO_SYNC = {"synchronize_session": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFilter:
    """Which users to show, by name from `after` on; `name` is a part of it, None = any."""

    name: str | None = None
    role: Role | None = None
    after: str = ""
    limit: int = 50


class ListedUser(NamedTuple):
    """A user, and when a sign-in of theirs was last at work."""

    user: User
    seen_at: int | None


def listing(session: Session, wanted: UserFilter) -> list[ListedUser]:
    """Return users by name."""
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
        statement = statement.where(User.name.contains(wanted.name, autoescape=True))
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
        raise NotFound(f"no user {user_id}")
    return user


def lock_administrators(session: Session) -> list[str]:
    """Let nobody else make or unmake an administrator until the end.

    Return the names of those that are not disabled.
    """
    found = select(User).where(User.role == int(Role.ADMINISTRATOR)).order_by(User.id)
    locked = session.execute(found.with_for_update()).scalars()
    return [user.name for user in locked if not user.is_disabled]


def remove(session: Session, user: User) -> None:
    """Delete a locked user with every sign-in."""
    session.execute(delete(SignIn).where(SignIn.user_id == user.id), execution_options=_NO_SYNC)
    session.delete(user)
    session.flush()


def remove_app_from_rights(session: Session, app_id: int) -> None:
    """Take an app that is being deleted from everybody; their sign-ins of before are void."""
    found = select(User).where(User.permission.is_not(None)).order_by(User.id).with_for_update()
    for user in session.execute(found).scalars():
        listed = (user.permission or "").split(",")
        left = [one for one in listed if one.strip() != str(app_id)]
        if len(left) < len(listed):
            user.permission = ",".join(left) or None
            user.generation += 1
    session.flush()


def require_new_password(session: Session, user_id: int) -> None:
    """Let a user choose a password at the next sign-in."""
    session.execute(
        update(User).where(User.id == user_id).values(must_change_password=1),
        execution_options=_NO_SYNC,
    )
