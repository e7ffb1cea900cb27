"""Sessions of the console: a row each, so that deleting it invalidates all copies of its cookie."""

from collections.abc import Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import modify
from warren.sql.models import SignIn, User


def add(
    session: Session,
    user: User,
    token_hash: str,
    *,
    now_ms: int,
    origin: str,
    agent: str,
    id_token: str | None = None,
) -> None:
    """Add a session, with the user's present generation.

    `id_token` is that of a single sign-on, as it is stored; None = it is none.
    """
    session.add(
        SignIn(
            token_hash=token_hash,
            user_id=user.id,
            generation=user.generation,
            created_at=now_ms,
            seen_at=now_ms,
            address=origin[:64],
            agent=agent[:255],
            is_sso=int(id_token is not None),
            id_token=id_token,
        )
    )
    session.flush()


def find(session: Session, token_hash: str) -> tuple[SignIn, User] | None:
    """Return a session with its user; None if it has ended.

    A change of the user's password, rights or state ends it too.
    """
    row = session.execute(
        select(SignIn, User)
        .join(User, User.id == SignIn.user_id)
        .where(
            SignIn.token_hash == token_hash,
            SignIn.generation == User.generation,
            User.is_disabled == 0,
        )
    ).one_or_none()
    return (row[0], row[1]) if row else None


def touch(session: Session, sign_in_id: int, *, now_ms: int) -> None:
    """Record that a session was used."""
    statement = update(SignIn).where(SignIn.id == sign_in_id, SignIn.seen_at < now_ms)
    modify(session, statement.values(seen_at=now_ms))


def id_token(session: Session, sign_in_id: int) -> str | None:
    """Return the ID token of a session by single sign-on, as it is stored; None if it is none."""
    statement = select(SignIn.id_token).where(SignIn.id == sign_in_id)
    return session.execute(statement).scalar_one_or_none()


def of_user(session: Session, user: User) -> Sequence[SignIn]:
    """Return a user's valid sessions, the last used first."""
    statement = select(SignIn).where(
        SignIn.user_id == user.id, SignIn.generation == user.generation
    )
    return session.execute(statement.order_by(SignIn.seen_at.desc())).scalars().all()


def end(session: Session, user_id: int, sign_in_id: int) -> None:
    statement = delete(SignIn).where(SignIn.id == sign_in_id, SignIn.user_id == user_id)
    modify(session, statement)


def end_token(session: Session, token_hash: str) -> None:
    """End the session of a token, if there is one."""
    statement = delete(SignIn).where(SignIn.token_hash == token_hash)
    modify(session, statement)


def clean(session: Session, *, seen_before_ms: int, made_before_ms: int) -> None:
    """Delete sessions that have expired."""
    expired = (SignIn.seen_at < seen_before_ms) | (SignIn.created_at < made_before_ms)
    modify(session, delete(SignIn).where(expired))
