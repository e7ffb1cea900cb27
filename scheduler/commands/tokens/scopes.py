"""The scopes of API tokens; a token never allows more than its owner may do at that moment."""

from warren.resources.operation import Scope
from warren.scheduler.actor import Actor, Right
from warren.sql.accounts import tokens
from warren.sql.accounts.tokens import KnownToken, Owner
from warren.sql.accounts.users import rights_of
from warren.sql.models import ApiToken, User

#: The right that each scope requires of the token's owner.
RIGHTS = {
    Scope.READ: Right.VIEW,
    Scope.LOGS: Right.VIEW,
    Scope.TRIGGER: Right.OPERATE,
    Scope.OPERATE: Right.OPERATE,
    Scope.WRITE: Right.OPERATE,
    Scope.SCRIPTS: Right.EDIT_GLUE,
    Scope.ADMIN: Right.ADMINISTER,
}
#: The scopes that a token limited to some jobs may have.
JOB_SCOPES = frozenset({Scope.READ, Scope.LOGS, Scope.TRIGGER, Scope.OPERATE})

#: The scopes that reach beyond single apps; a token limited to some apps cannot have them.
GLOBAL_SCOPES = frozenset({Scope.ADMIN})


_BY_WORD = {scope.value: scope for scope in Scope}


def scopes_of(token: ApiToken | KnownToken) -> frozenset[Scope]:
    """Return a token's scopes; words that this version does not know are ignored."""
    return frozenset(_BY_WORD[word] for word in token.scopes.split(",") if word in _BY_WORD)


def actor_of(token: ApiToken | KnownToken, owner: User | Owner, *, origin: str) -> Actor:
    """Return the actor of a token, with the rights that both the token and its owner have now."""
    held = Actor.of(owner.name, rights_of(owner), origin=origin)
    wanted = {RIGHTS[scope] for scope in scopes_of(token)}
    listed = tokens.ids_of(token.permission)
    app_ids = held.app_ids
    if listed is not None:
        wanted -= {RIGHTS[scope] for scope in GLOBAL_SCOPES}
        app_ids = listed if app_ids is None else app_ids & listed
    return Actor(
        who=f"token:{token.name}",
        origin=origin,
        rights=frozenset(wanted & set(held.rights)) | {Right.ANYONE},
        app_ids=app_ids,
        job_ids=tokens.ids_of(token.jobs),
    )
