"""Views of tokens, and the conversion of any view to JSON.

Secrets are left out: a token's text and hash.
"""

from collections.abc import Collection, Mapping
from datetime import date
from typing import Any, NamedTuple

from warren.sql.accounts import tokens
from warren.sql.accounts.tokens import ListedToken
from warren.sql.instants import iso


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
    return None if listed is None else tuple(names.get(name, f"#{name}") for name in sorted(listed))


def to_json(view: NamedTuple, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return a view, or a row, as a JSON object with its fields in order.

    Fields named `…_at` hold epoch milliseconds and become ISO 8601 in UTC, or null. Dates
    are YYYY-MM-DD. Tuples become
    lists; a StrEnum stays a string.
    """
    return {
        name: plain(name, value) for name, value in view._asdict().items() if name not in without
    }


def plain(name: str, value: Any) -> Any:
    """Return the JSON value of a field."""
    if name.endswith("_at"):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value
