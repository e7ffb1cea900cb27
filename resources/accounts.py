"""Accounts: users and the tokens of programs.

No operation is declared for them: what has a token can neither make tokens nor change users.
"""

from datetime import datetime
from typing import Annotated

import msgspec

#: What a login of the command line takes if nothing is said, and at most, in days.
LOGIN_DAYS, MAX_LOGIN_DAYS = 30, 366
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


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
    """A user and their rights; an administrator has all apps, so `apps` is empty.

    `identity` is their name at the provider of single sign-on; empty if they sign in here.
    """

    name: str
    role: str
    apps: list[str]
    may_edit_scripts: bool
    disabled: bool
    identity: str = ""


class WhoAmI(msgspec.Struct, kw_only=True, frozen=True):
    """What a token may do at present, which is never more than its owner may.

    `apps` and `jobs` are null if it is not limited to some.
    """

    token: str
    owner: str
    scopes: list[str]
    apps: list[str] | None
    jobs: list[str] | None


class LoginWish(msgspec.Struct, kw_only=True, frozen=True):
    """A command's wish for a token of the user in front of it, who allows it in the console."""

    challenge: Annotated[
        str,
        msgspec.Meta(
            pattern="^[A-Za-z0-9_-]{43}$",
            description="The SHA-256 of the verifier that the command keeps, in base64url.",
        ),
    ]
    machine: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=64, pattern=_NAME, description="Where the token will be kept."
        ),
    ]
    days: Annotated[int, msgspec.Meta(ge=1, le=MAX_LOGIN_DAYS)] = LOGIN_DAYS
    port: (
        Annotated[
            int,
            msgspec.Meta(
                ge=1024,
                le=65_535,
                description="Where the command waits for the user's browser, on 127.0.0.1; "
                "without it, the user types a code.",
            ),
        ]
        | None
    ) = None
    state: Annotated[
        str,
        msgspec.Meta(
            max_length=64,
            pattern="^[A-Za-z0-9_-]*$",
            description="What the browser brings back beside the code.",
        ),
    ] = ""


class LoginAsked(msgspec.Struct, kw_only=True, frozen=True):
    """A login that waits for its user.

    `page` is where to allow it; `code` is what to type there, empty if the page knows the login.
    `poll_seconds` is how often to ask for the token, `life_seconds` how long.
    """

    page: str
    code: str
    poll_seconds: int
    life_seconds: int


class LoginProof(msgspec.Struct, kw_only=True, frozen=True):
    """Shows that a command is the one that has asked."""

    verifier: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{43,128}$")]
    code: Annotated[
        str, msgspec.Meta(max_length=128, description="What the user's browser has brought.")
    ] = ""


class LoginAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """What has become of a login: `state` is waiting, refused or allowed.

    Once it is allowed, the other fields are the new token, its name, its owner and its end.
    """

    state: str
    token: str | None = None
    name: str | None = None
    owner: str | None = None
    expires_at: datetime | None = None
