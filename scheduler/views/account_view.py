"""Users and tokens as shown to users, without secrets."""

from collections.abc import Collection, Mapping

from sqlalchemy.orm import Session

from warren.resources.accounts import Token, User
from warren.resources.instant import Instant
from warren.sql import models
from warren.sql.accounts import tokens, users
from warren.sql.listings import job_search
from warren.sql.registry import apps


def user_view(user: models.User, app_names: Mapping[int, str], subjects: Mapping[int, str]) -> User:
    """Return a user; `subjects` are the linked ones' names at the provider, by the user's id."""
    rights = users.rights_of(user)
    return User(
        name=user.name,
        role=rights.role.name.lower(),
        apps=[app_names[app_id] for app_id in rights.app_ids if app_id in app_names],
        may_edit_scripts=rights.may_edit_glue,
        disabled=bool(user.is_disabled),
        identity=subjects.get(user.id, ""),
    )


def read_tokens(
    session: Session,
    *,
    now_ms: int,
    user_ids: Collection[int] | None = None,
    app_ids: Collection[int] | None = None,
) -> dict[int, Token]:
    """Return tokens by id, sorted by name, of all users or of some; jobs of other apps are #ID."""
    listed = tokens.listing(session, user_ids=user_ids)
    app_names = {app_id: name for name, app_id in apps.ids_by_name(session).items()}
    job_ids = {job_id for row in listed for job_id in tokens.ids_of(row.token.jobs) or ()}
    job_names = job_search.names(session, job_ids, app_ids)
    return {
        token.id: Token(
            name=token.name,
            owner=owner.name if owner else "",
            state=_state(token, owner, now_ms),
            scopes=token.scopes.split(","),
            apps=_names(token.permission, app_names),
            jobs=_names(token.jobs, job_names),
            created_at=Instant.of(token.created_at),
            created_by=token.created_by,
            expires_at=Instant.of(token.expires_at),
            used_at=Instant.if_any(token.used_at),
            used_from=token.used_from or "",
            revoked_at=Instant.if_any(token.revoked_at),
            revoked_by=token.revoked_by or "",
        )
        for token, owner in listed
    }


def _state(token: models.ApiToken, owner: models.User | None, now_ms: int) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at <= now_ms:
        return "expired"
    return "good" if owner is not None and not owner.is_disabled else "disabled"


def _names(ids: str | None, names: Mapping[int, str]) -> list[str] | None:
    listed = tokens.ids_of(ids)
    return None if listed is None else [names.get(id_, f"#{id_}") for id_ in sorted(listed)]
