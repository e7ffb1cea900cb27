"""Sign-ins: how many may be tried, and the sessions of the console that follow.

A session is a row, so that deleting it invalidates all copies of its cookie.

Attempts are limited for all consoles together and across restarts. Each account and each address
has a budget. An attempt uses `cost_ms` of it, and time refills it. One row stores it as a single
number: the instant at which it will be full again.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore, modify
from warren.sql.models import SignIn, SignInLimit, User


def add_session(
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


def find_session(session: Session, token_hash: str) -> tuple[SignIn, User] | None:
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


def touch_session(session: Session, sign_in_id: int, *, now_ms: int) -> None:
    """Record that a session was used."""
    statement = update(SignIn).where(SignIn.id == sign_in_id, SignIn.seen_at < now_ms)
    modify(session, statement.values(seen_at=now_ms))


def id_token(session: Session, sign_in_id: int) -> str | None:
    """Return the ID token of a session by single sign-on, as it is stored; None if it is none."""
    statement = select(SignIn.id_token).where(SignIn.id == sign_in_id)
    return session.execute(statement).scalar_one_or_none()


def sessions_of_user(session: Session, user: User) -> Sequence[SignIn]:
    """Return a user's valid sessions, the last used first."""
    statement = select(SignIn).where(
        SignIn.user_id == user.id, SignIn.generation == user.generation
    )
    return session.execute(statement.order_by(SignIn.seen_at.desc())).scalars().all()


def end_session(session: Session, user_id: int, sign_in_id: int) -> None:
    statement = delete(SignIn).where(SignIn.id == sign_in_id, SignIn.user_id == user_id)
    modify(session, statement)


def end_token(session: Session, token_hash: str) -> None:
    """End the session of a token, if there is one."""
    statement = delete(SignIn).where(SignIn.token_hash == token_hash)
    modify(session, statement)


def clean_sessions(session: Session, *, seen_before_ms: int, made_before_ms: int) -> None:
    """Delete sessions that have expired."""
    expired = (SignIn.seen_at < seen_before_ms) | (SignIn.created_at < made_before_ms)
    modify(session, delete(SignIn).where(expired))


def charge(session: Session, limits: Mapping[str, tuple[int, int]], *, now_ms: int) -> int:
    """Charge an attempt to each subject and return 0.

    If a subject has used up its budget, charge nothing and return the milliseconds until the next
    attempt. `limits` has, for each subject, the number of attempts in a burst and the cost of one
    in milliseconds.
    """
    rows = [{"subject": subject, "full_until": 0} for subject in sorted(limits)]
    insert_or_ignore(session, SignInLimit, rows, key="subject")
    # Always in the same order, so that two attempts cannot deadlock.
    locked = (
        session.execute(
            select(SignInLimit)
            .where(SignInLimit.subject.in_(sorted(limits)))
            .order_by(SignInLimit.subject)
            .with_for_update()
        )
        .scalars()
        .all()
    )
    waits = [limit.full_until - now_ms - _room(*limits[limit.subject]) for limit in locked]
    if max(waits) > 0:
        return max(waits)
    for limit in locked:
        limit.full_until = max(limit.full_until, now_ms) + limits[limit.subject][1]
    return 0


def refund(session: Session, limits: Mapping[str, tuple[int, int]]) -> None:
    """Undo `charge` after a correct password."""
    locked = session.execute(
        select(SignInLimit)
        .where(SignInLimit.subject.in_(sorted(limits)))
        .order_by(SignInLimit.subject)
        .with_for_update()
    )
    for limit in locked.scalars():
        limit.full_until -= limits[limit.subject][1]


def clean_attempts(session: Session, *, now_ms: int) -> None:
    """Delete the rows of subjects whose budget is full."""
    full = delete(SignInLimit).where(SignInLimit.full_until < now_ms)
    modify(session, full)


def _room(at_once: int, cost_ms: int) -> int:
    """Return how far ahead `full_until` may be, in milliseconds, for one more attempt to fit."""
    return (at_once - 1) * cost_ms
