"""Accounts: users and the tokens of programs.

No operation is declared for them: what has a token can neither make tokens nor change users.
"""

from datetime import datetime

import msgspec


class Token(msgspec.Struct, kw_only=True, frozen=True):
    """A token without its text; `apps` and `jobs` null = all that its owner may see.

    `state` is good, expired, revoked, or disabled like its owner.
    """

    name: str
    owner: str
    state: str
    scopes: list[str]
    apps: list[str] | None
    jobs: list[str] | None
    created_at: datetime
    created_by: str
    expires_at: datetime
    used_at: datetime | None
    used_from: str
    revoked_at: datetime | None
    revoked_by: str


class User(msgspec.Struct, kw_only=True, frozen=True):
    """A user and their rights; an administrator has all apps, so `apps` is empty."""

    name: str
    role: str
    apps: list[str]
    may_edit_scripts: bool
    disabled: bool


class WhoAmI(msgspec.Struct, kw_only=True, frozen=True):
    """What a token may do at present, which is never more than its owner may.

    `apps` and `jobs` are null if it is not limited to some.
    """

    token: str
    owner: str
    scopes: list[str]
    apps: list[str] | None
    jobs: list[str] | None
