"""A token as shown to users: never its text, nor its hash."""

from collections.abc import Mapping
from typing import NamedTuple

from warren.sql.accounts import tokens
from warren.sql.accounts.tokens import ListedToken


class TokenView(NamedTuple):
    """A token; `apps` and `jobs` None = all that its owner may see.

    `state` is good, expired, revoked, or disabled like its owner.
    """

    name: str
    owner: str
    state: str
    scopes: tuple[str, ...]
    apps: tuple[str, ...] | None
    jobs: tuple[str, ...] | None
    created_at: int
    created_by: str
    expires_at: int
    used_at: int | None
    used_from: str
    revoked_at: int | None
    revoked_by: str


def token_view(
    listed: ListedToken, *, now_ms: int, apps: Mapping[int, str], jobs: Mapping[int, str]
) -> TokenView:
    """Return the view of a token; `apps` and `jobs` are names by id."""
    token, owner = listed
    return TokenView(
        name=token.name,
        owner=owner.name if owner else "",
        state=_state(listed, now_ms),
        scopes=tuple(token.scopes.split(",")),
        apps=_names(token.permission, apps),
        jobs=_names(token.jobs, jobs),
        created_at=token.created_at,
        created_by=token.created_by,
        expires_at=token.expires_at,
        used_at=token.used_at,
        used_from=token.used_from or "",
        revoked_at=token.revoked_at,
        revoked_by=token.revoked_by or "",
    )


def _state(listed: ListedToken, now_ms: int) -> str:
    token, owner = listed
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at <= now_ms:
        return "expired"
    return "good" if owner is not None and not owner.is_disabled else "disabled"


def _names(ids: str | None, names: Mapping[int, str]) -> tuple[str, ...] | None:
    listed = tokens.ids_of(ids)
    return None if listed is None else tuple(names.get(one, f"#{one}") for one in sorted(listed))
