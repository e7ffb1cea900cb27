"""What a token may do: its scopes, and never more than its owner may at that moment."""

from enum import StrEnum

from scheduler.actor import Actor, Right
from sql.accounts import tokens
from sql.accounts.tokens import KnownToken, Owner
from sql.accounts.users import rights_of
from sql.models import ApiToken, User


class Scope(StrEnum):
    """A part of the API that a token opens."""

    #: Everything that can be seen, but for logs and what opens something elsewhere.
    READ = "read"
    #: What runs have printed.
    LOGS = "logs"
    #: To run jobs.
    TRIGGER = "trigger"
    #: To start and stop jobs, kill runs, drain executors.
    OPERATE = "operate"
    #: To make, change and delete jobs.
    WRITE = "write"
    #: To change scripts too, which means to run any program.
    SCRIPTS = "scripts"
    #: Apps, pausing, the audit log.
    ADMIN = "admin"


#: What each needs of its owner.
RIGHTS = {
    Scope.READ: Right.VIEW,
    Scope.LOGS: Right.VIEW,
    Scope.TRIGGER: Right.OPERATE,
    Scope.OPERATE: Right.OPERATE,
    Scope.WRITE: Right.OPERATE,
    Scope.SCRIPTS: Right.EDIT_GLUE,
    Scope.ADMIN: Right.ADMINISTER,
}
#: What a token for some jobs only may have.
OF_JOBS = frozenset({Scope.READ, Scope.LOGS, Scope.TRIGGER, Scope.OPERATE})

#: What reaches beyond every app, so that a token for some apps only cannot have it.
OF_ALL = frozenset({Scope.ADMIN})


_BY_WORD = {scope.value: scope for scope in Scope}


def scopes_of(token: ApiToken | KnownToken) -> frozenset[Scope]:
    """Return a token's scopes; a word that this version does not know opens nothing."""
    return frozenset(_BY_WORD[word] for word in token.scopes.split(",") if word in _BY_WORD)


def actor_of(token: ApiToken | KnownToken, owner: User | Owner, *, origin: str) -> Actor:
    """Return who acts by a token: with the rights that both it and its owner have now."""
    held = Actor.of(owner.name, rights_of(owner), origin=origin)
    wanted = {RIGHTS[scope] for scope in scopes_of(token)}
    listed = tokens.ids_of(token.permission)
    app_ids = held.app_ids
    if listed is not None:
        wanted -= {RIGHTS[scope] for scope in OF_ALL}
        app_ids = listed if app_ids is None else app_ids & listed
    return Actor(
        who=f"token:{token.name}",
        origin=origin,
        rights=frozenset(wanted & set(held.rights)) | {Right.ANYONE},
        app_ids=app_ids,
        job_ids=tokens.ids_of(token.jobs),
    )
