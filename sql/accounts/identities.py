"""Single sign-on: who users are at the provider, and what the members of its groups may do.

When to read a user's groups again is stored with the identity.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import delete, exists, or_, select, update
from sqlalchemy.orm import Session

from warren.sql.accounts.users import Rights, rights_of, stored_apps
from warren.sql.batch import chunks, modify
from warren.sql.models import ApiToken, GroupRule, Identity, SignIn, User
from warren.sql.rows import fetch, query

#: The most characters of an issuer, and of what it calls a person.
MAX_LENGTH = 255


class LinkedUser(NamedTuple):
    """A user with an identity."""

    identity: Identity
    user: User


class DueIdentity(NamedTuple):
    """An identity whose groups are to be read, with the refresh token as it is stored.

    `signed_in_at` tells whether the person has signed in anew in the meantime.
    """

    id: int
    key_hash: str
    issuer: str
    subject: str
    refresh_token: str
    signed_in_at: int


def key_of(issuer: str, subject: str) -> str:
    """Return the unique key of an identity."""
    return hashlib.sha256(json.dumps([issuer, subject]).encode()).hexdigest()


def find(session: Session, issuer: str, subject: str) -> Identity | None:
    statement = select(Identity).where(Identity.key_hash == key_of(issuer, subject))
    return session.execute(statement).scalar_one_or_none()


def of_user(session: Session, user_id: int) -> Identity | None:
    statement = select(Identity).where(Identity.user_id == user_id)
    return session.execute(statement).scalar_one_or_none()


def subjects(session: Session, user_ids: Iterable[int]) -> dict[int, str]:
    """Return what the provider calls those of these users who are linked, by the user's id."""
    return {
        user_id: subject
        for chunk in chunks(sorted(user_ids))
        for user_id, subject in session.execute(
            select(Identity.user_id, Identity.subject).where(Identity.user_id.in_(chunk))
        )
    }


def all_linked(session: Session) -> Sequence[LinkedUser]:
    """Return all identities with their users, by the user's name."""
    statement = (
        query(LinkedUser, Identity, identity=Identity, user=User)
        .join(User, User.id == Identity.user_id)
        .order_by(User.name)
    )
    return fetch(session, LinkedUser, statement)


def add(
    session: Session, user_id: int, issuer: str, subject: str, *, now_ms: int, by: str
) -> Identity:
    identity = Identity(
        key_hash=key_of(issuer, subject),
        user_id=user_id,
        issuer=issuer,
        subject=subject,
        linked_at=now_ms,
        linked_by=by,
    )
    session.add(identity)
    session.flush()
    return identity


def remove(session: Session, user_id: int) -> None:
    """Delete the identity of a user, if there is one."""
    modify(session, delete(Identity).where(Identity.user_id == user_id))


def groups_of(identity: Identity) -> tuple[str, ...] | None:
    """Return the groups that were last read; None = none were ever read."""
    return None if identity.group_names is None else tuple(json.loads(identity.group_names))


def set_groups(identity: Identity, groups: Sequence[str], *, read_at: int) -> None:
    identity.group_names = json.dumps(list(groups))
    identity.read_at, identity.fault = read_at, None


def due(
    session: Session,
    issuer: str,
    *,
    now_ms: int,
    seen_since_ms: int,
    made_since_ms: int,
    limit: int,
) -> list[DueIdentity]:
    """Return an issuer's identities to read again.

    They are those of users with a session by single sign-on, or a token.
    """
    session_lives = exists().where(
        SignIn.user_id == User.id,
        SignIn.generation == User.generation,
        SignIn.is_sso == 1,
        SignIn.seen_at >= seen_since_ms,
        SignIn.created_at >= made_since_ms,
    )
    token_lives = exists().where(
        ApiToken.user_id == User.id, ApiToken.revoked_at.is_(None), ApiToken.expires_at > now_ms
    )
    statement = (
        query(DueIdentity, Identity)
        .join(User, User.id == Identity.user_id)
        .where(
            Identity.issuer == issuer,
            Identity.next_read_at <= now_ms,
            Identity.refresh_token.is_not(None),
            User.is_disabled == 0,
            or_(session_lives, token_lives),
        )
        .order_by(Identity.next_read_at)
        .limit(limit)
    )
    # Databases compare texts loosely, and another issuer must not get this one's tokens.
    return [each for each in fetch(session, DueIdentity, statement) if each.issuer == issuer]


def claim(session: Session, due: DueIdentity, *, now_ms: int, until_ms: int) -> bool:
    """Let this process alone read an identity's groups until then.

    Return False if another one does, or has done it since this identity was due.
    """
    statement = update(Identity).where(
        Identity.id == due.id,
        Identity.next_read_at <= now_ms,
        Identity.refresh_token == due.refresh_token,
    )
    return modify(session, statement.values(next_read_at=until_ms)) == 1


def lock_read(session: Session, read: DueIdentity) -> Identity | None:
    """Lock and return an identity; None if it has changed since it was claimed."""
    statement = select(Identity).where(
        Identity.id == read.id,
        Identity.refresh_token == read.refresh_token,
        Identity.signed_in_at == read.signed_in_at,
    )
    return session.execute(statement.with_for_update()).scalar_one_or_none()


#: The most characters of a group's name, and the most rules.
MAX_GROUP_LENGTH, MAX_GROUP_RULES = 255, 500


def group_rules(session: Session) -> dict[str, Rights]:
    """Return the rights of each group that has a rule, by name."""
    rules = session.execute(select(GroupRule)).scalars()
    return {rule.group_name: rights_of(rule) for rule in sorted(rules, key=lambda r: r.group_name)}


def replace_group_rules(session: Session, rules: Mapping[str, Rights]) -> None:
    """Make these the rules."""
    modify(session, delete(GroupRule))
    for group, rights in rules.items():
        session.add(
            GroupRule(
                key_hash=hashlib.sha256(group.encode()).hexdigest(),
                group_name=group,
                role=int(rights.role),
                permission=stored_apps(rights),
                may_edit_glue=int(rights.may_edit_glue),
            )
        )
    session.flush()


def remove_app_from_group_rules(session: Session, app_id: int) -> None:
    """Remove an app that is being deleted from all rules; a rule without any goes too."""
    for rule in session.execute(select(GroupRule).with_for_update()).scalars():
        listed = (rule.permission or "").split(",")
        remaining = [each for each in listed if each.strip() != str(app_id)]
        if rule.permission is None or len(remaining) == len(listed):
            continue
        if remaining:
            rule.permission = ",".join(remaining)
        else:
            session.delete(rule)
    session.flush()
