"""The visitor of a request: rights and preferences."""

from dataclasses import dataclass

from flask import abort, g
from sqlalchemy.orm import Session

from warren.scheduler.actor import Actor
from warren.sql.accounts.users import Role, rights_of
from warren.sql.models import SignIn, User


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A user who has signed in.

    Language, zone and theme are empty if the browser decides.
    """

    user_id: int
    actor: Actor
    role: Role
    must_change_password: bool
    sign_in_id: int
    is_sso: bool = False
    locale: str = ""
    timezone: str = ""
    theme: str = ""

    @classmethod
    def of(cls, sign_in: SignIn, user: User, *, origin: str) -> "Visitor":
        return cls(
            user_id=user.id,
            actor=actor_of(user, origin=origin),
            role=rights_of(user).role,
            must_change_password=bool(user.must_change_password),
            sign_in_id=sign_in.id,
            is_sso=bool(sign_in.is_sso),
            locale=user.locale or "",
            timezone=user.timezone or "",
            theme=user.theme or "",
        )

    @property
    def name(self) -> str:
        """The user's name."""
        return self.actor.who

    @property
    def app_ids(self) -> frozenset[int] | None:
        """The apps whose jobs and runs this visitor may see; None = all."""
        return self.actor.app_ids

    @property
    def role_name(self) -> str:
        """The role, in lower case."""
        return self.role.name.lower()

    def may(self, right: str) -> bool:
        """Return whether the visitor has a right; templates pass its name."""
        return self.actor.may(right)


def actor_of(user: User, *, origin: str) -> Actor:
    """Return a user as an actor, with the rights that the row has."""
    is_limited = bool(user.must_change_password)
    return Actor.of(user.name, rights_of(user), origin=origin, is_limited=is_limited)


def has_rights_of(session: Session, user_id: int, actor: Actor) -> bool:
    """Return whether a user is enabled and has exactly an actor's rights.

    Work in the background asks before each step: its user's rights may have changed since it began.
    """
    user = session.get(User, user_id)
    if user is None or user.is_disabled:
        return False
    return actor_of(user, origin=actor.origin) == actor


def visitor() -> Visitor:
    """Return the visitor of this request; abort with 403 without a sign-in."""
    known = known_visitor()
    if known is None:
        abort(403)
    return known


def known_visitor() -> Visitor | None:
    """Return the visitor of this request; None without a sign-in, or if none was looked up."""
    known: Visitor | None = g.get("visitor")
    return known
