"""Whoever is looking, and what they may do. The one place where permissions are decided."""

from dataclasses import dataclass
from enum import StrEnum

from flask import abort, g

from sql.models import SignIn, User
from sql.users import Rights, Role, rights_of


class Right(StrEnum):
    """What a route asks of whoever calls it; each route has exactly one."""

    #: Nothing: no sign-in needed.
    ANYONE = "ANYONE"
    #: A sign-in, even one that must choose a new password first.
    ACCOUNT = "ACCOUNT"
    #: To see: every role, its own apps.
    VIEW = "VIEW"
    #: To start, stop, trigger, kill and edit: operators with their own apps, administrators.
    OPERATE = "OPERATE"
    #: To change scripts: who operates and was given it.
    EDIT_GLUE = "EDIT_GLUE"
    #: Users, apps, the audit trail, pausing: administrators.
    ADMINISTER = "ADMINISTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Somebody who has signed in.

    `app_ids` are the apps that exist for them, None = all; it goes into every query. Language,
    zone and theme are empty where the browser decides.
    """

    user_id: int
    name: str
    rights: Rights
    must_change_password: bool
    sign_in_id: int
    origin: str
    locale: str = ""
    timezone: str = ""
    theme: str = ""

    @classmethod
    def of(cls, sign_in: SignIn, user: User, *, origin: str) -> "Visitor":
        """Return the visitor of a sign-in that counts."""
        return cls(
            user_id=user.id,
            name=user.username,
            rights=rights_of(user),
            must_change_password=bool(user.must_change_password),
            sign_in_id=sign_in.id,
            origin=origin,
            locale=user.locale or "",
            timezone=user.timezone or "",
            theme=user.theme or "",
        )

    @property
    def app_ids(self) -> frozenset[int] | None:
        """The apps whose jobs and runs exist for this visitor; None = all."""
        return None if self._is_administrator else frozenset(self.rights.app_ids)

    @property
    def role_name(self) -> str:
        """The role, in lower case."""
        return self.rights.role.name.lower()

    def may(self, right: Right | str) -> bool:
        """Return whether a visitor has a right; templates ask by its name."""
        wanted = Right(right)
        if wanted in (Right.ANYONE, Right.ACCOUNT):
            return True
        if self.must_change_password:
            return False
        if wanted is Right.VIEW or self._is_administrator:
            return True
        if wanted is Right.ADMINISTER or self.rights.role is not Role.OPERATOR:
            return False
        return wanted is Right.OPERATE or self.rights.may_edit_glue

    @property
    def _is_administrator(self) -> bool:
        return self.rights.role is Role.ADMINISTRATOR


def visitor() -> Visitor:
    """Return who calls the present route; one that needs a sign-in has somebody."""
    found = known_visitor()
    if found is None:
        abort(403)
    return found


def known_visitor() -> Visitor | None:
    """Return who calls, None when nobody has signed in or it was not asked."""
    found: Visitor | None = g.get("visitor")
    return found
