"""Wishes of commands for tokens: a row each, from the question until the command has its token."""

from sqlalchemy import Select, delete, select
from sqlalchemy.orm import Session

from warren.sql.batch import modify
from warren.sql.models import CommandLogin

WAITING, ALLOWED, REFUSED = "WAITING", "ALLOWED", "REFUSED"


def add(session: Session, login: CommandLogin) -> None:
    session.add(login)
    session.flush()


def find(session: Session, key_hash: str, *, now_ms: int) -> CommandLogin | None:
    """Return one that no user has decided; None if there is none, or its time is up."""
    return session.execute(_undecided(key_hash, now_ms)).scalar_one_or_none()


def lock(session: Session, key_hash: str, *, now_ms: int) -> CommandLogin | None:
    """Lock and return one that no user has decided; None if there is none, or its time is up."""
    statement = _undecided(key_hash, now_ms).with_for_update()
    return session.execute(statement).scalar_one_or_none()


def lock_by_challenge(session: Session, challenge: str, *, now_ms: int) -> CommandLogin | None:
    """Lock and return one whatever was decided; None if there is none, or its time is up."""
    statement = select(CommandLogin).where(
        CommandLogin.challenge == challenge, CommandLogin.until_at > now_ms
    )
    return session.execute(statement.with_for_update()).scalar_one_or_none()


def remove(session: Session, login: CommandLogin) -> None:
    session.delete(login)
    session.flush()


def forget(session: Session, challenge: str) -> None:
    """Delete the one with this challenge, if no user has decided."""
    undecided = delete(CommandLogin).where(
        CommandLogin.challenge == challenge, CommandLogin.decision == WAITING
    )
    modify(session, undecided)


def clean(session: Session, *, now_ms: int) -> None:
    """Delete those whose time is up."""
    modify(session, delete(CommandLogin).where(CommandLogin.until_at <= now_ms))


def _undecided(key_hash: str, now_ms: int) -> Select[CommandLogin]:
    return select(CommandLogin).where(
        CommandLogin.key_hash == key_hash,
        CommandLogin.decision == WAITING,
        CommandLogin.until_at > now_ms,
    )
