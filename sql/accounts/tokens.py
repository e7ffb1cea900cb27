"""API tokens: added, found by hash, revoked, never deleted; and the wishes of commands for one.

A wish is a row, from the question of `warren login` until the command has its token.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Select, bindparam, delete, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import modify
from warren.sql.models import ApiToken, CommandLogin, User
from warren.sql.rows import fetch, query


class KnownToken(NamedTuple):
    """The columns of a token that each API call needs."""

    id: int
    name: str
    scopes: str
    permission: str | None
    jobs: str | None
    expires_at: int
    used_at: int | None
    revoked_at: int | None


class Owner(NamedTuple):
    """The columns of a token's owner that each API call needs."""

    id: int
    name: str
    role: int
    permission: str | None
    may_edit_glue: int
    is_disabled: int
    tokens_until: int | None


#: Built once, because each API call executes it.
_BY_HASH = (
    select(
        *(getattr(ApiToken, name) for name in KnownToken._fields),
        *(getattr(User, name) for name in Owner._fields),
    )
    .join(User, User.id == ApiToken.user_id)
    .where(ApiToken.token_hash == bindparam("its_hash"))
)


class ListedToken(NamedTuple):
    """A token and its owner, who is None if deleted."""

    token: ApiToken
    owner: User | None


def is_named(session: Session, name: str) -> bool:
    """Return whether a token has or had this name, ignoring case."""
    names = session.execute(select(ApiToken.name)).scalars()
    return name.casefold() in {known_name.casefold() for known_name in names}


def add(session: Session, token: ApiToken) -> int:
    """Add a token; return its id."""
    session.add(token)
    session.flush()
    return token.id


def find(session: Session, token_hash: str) -> tuple[KnownToken, Owner] | None:
    """Return a token and its owner, valid or not; None if there is no such token."""
    # Bypasses the ORM, which would take longer than the statement.
    row = session.connection().execute(_BY_HASH, {"its_hash": token_hash}).one_or_none()
    if row is None:
        return None
    count = len(KnownToken._fields)
    return KnownToken(*row[:count]), Owner(*row[count:])


def touch(session: Session, token_id: int, *, now_ms: int, before_ms: int, address: str) -> None:
    """Record that a token was used, unless a use after `before_ms` is recorded."""
    statement = update(ApiToken).where(
        ApiToken.id == token_id, (ApiToken.used_at.is_(None)) | (ApiToken.used_at <= before_ms)
    )
    values = {"used_at": now_ms, "used_from": address[:64]}
    modify(session, statement.values(values))


def lock(session: Session, token_id: int) -> ApiToken | None:
    """Lock and return a token; None if there is none."""
    statement = select(ApiToken).where(ApiToken.id == token_id).with_for_update()
    return session.execute(statement).scalar_one_or_none()


def by_name(session: Session, name: str) -> ApiToken | None:
    """Return a token; None if there is none."""
    token = session.execute(select(ApiToken).where(ApiToken.name == name)).scalar_one_or_none()
    # MariaDB and MySQL ignore trailing spaces when they compare names.
    return token if token is not None and token.name == name else None


def listing(session: Session, *, user_ids: Collection[int] | None = None) -> Sequence[ListedToken]:
    """Return tokens sorted by name, of all users or of some."""
    statement = (
        query(ListedToken, ApiToken, token=ApiToken, owner=User)
        .outerjoin(User, User.id == ApiToken.user_id)
        .order_by(ApiToken.name)
    )
    if user_ids is not None:
        statement = statement.where(ApiToken.user_id.in_(user_ids))
    return fetch(session, ListedToken, statement)


def revoke(token: ApiToken, *, now_ms: int, by: str) -> bool:
    """Revoke a locked token; return False if it was already revoked."""
    if token.revoked_at is not None:
        return False
    token.revoked_at, token.revoked_by = now_ms, by
    return True


def revoke_of(session: Session, user_id: int, *, now_ms: int, by: str) -> Sequence[ApiToken]:
    """Revoke a user's tokens; return those that were not revoked before."""
    valid = (
        select(ApiToken)
        .where(ApiToken.user_id == user_id, ApiToken.revoked_at.is_(None))
        .order_by(ApiToken.id)
        .with_for_update()
    )
    return [
        token for token in session.execute(valid).scalars() if revoke(token, now_ms=now_ms, by=by)
    ]


def ids_of(listed: str | None) -> frozenset[int] | None:
    """Return the ids of a stored list; None = all."""
    if listed is None:
        return None
    return frozenset(int(part) for part in listed.split(",") if part)


def listed(ids: Collection[int]) -> str | None:
    """Return ids in their stored form; None for no ids, which means all."""
    return ",".join(map(str, sorted(set(ids)))) or None


WAITING, ALLOWED, REFUSED = "WAITING", "ALLOWED", "REFUSED"


def add_wish(session: Session, login: CommandLogin) -> None:
    session.add(login)
    session.flush()


def find_wish(session: Session, key_hash: str, *, now_ms: int) -> CommandLogin | None:
    """Return one that no user has decided; None if there is none, or its time is up."""
    return session.execute(_undecided(key_hash, now_ms)).scalar_one_or_none()


def lock_wish(session: Session, key_hash: str, *, now_ms: int) -> CommandLogin | None:
    """Lock and return one that no user has decided; None if there is none, or its time is up."""
    statement = _undecided(key_hash, now_ms).with_for_update()
    return session.execute(statement).scalar_one_or_none()


def lock_wish_by_challenge(session: Session, challenge: str, *, now_ms: int) -> CommandLogin | None:
    """Lock and return one whatever was decided; None if there is none, or its time is up."""
    statement = select(CommandLogin).where(
        CommandLogin.challenge == challenge, CommandLogin.until_at > now_ms
    )
    return session.execute(statement.with_for_update()).scalar_one_or_none()


def remove_wish(session: Session, login: CommandLogin) -> None:
    session.delete(login)
    session.flush()


def forget_wish(session: Session, challenge: str) -> None:
    """Delete the one with this challenge, if no user has decided."""
    undecided = delete(CommandLogin).where(
        CommandLogin.challenge == challenge, CommandLogin.decision == WAITING
    )
    modify(session, undecided)


def clean_wishes(session: Session, *, now_ms: int) -> None:
    """Delete those whose time is up."""
    modify(session, delete(CommandLogin).where(CommandLogin.until_at <= now_ms))


def _undecided(key_hash: str, now_ms: int) -> Select[CommandLogin]:
    return select(CommandLogin).where(
        CommandLogin.key_hash == key_hash,
        CommandLogin.decision == WAITING,
        CommandLogin.until_at > now_ms,
    )
