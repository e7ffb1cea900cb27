"""The scopes of API tokens; a token never allows more than its owner may do at that moment."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.resources.operation import Scope
from warren.scheduler.actor import Actor, Right
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.token_text import hash_of, new_token
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import tokens
from warren.sql.accounts.tokens import KnownToken, Owner
from warren.sql.accounts.users import rights_of
from warren.sql.instants import DAY_MS
from warren.sql.models import ApiToken, App, Job, User

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


NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,49}"
#: A token's lifetime in days: the default, and the maximum.
DEFAULT_DAYS, MAX_DAYS = 90, 366
#: The most jobs that a token may be limited to.
MAX_JOBS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSpec:
    """A token to create; no apps and no jobs = all that its owner may see."""

    name: str
    owner_id: int
    scopes: Collection[Scope]
    app_ids: Collection[int] = ()
    job_ids: Collection[int] = ()
    days: int = DEFAULT_DAYS


class TokenCommands:
    """Creates and revokes tokens, and writes audit log entries."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def add(self, spec: TokenSpec) -> str:
        """Create a token and return its text, which cannot be read again.

        Administrators may create tokens for everybody, other users only for themselves.

        Raises:
            Problem: the spec is invalid, the name was used before, or the token would allow more
                than its owner may do.

        """
        text = new_token()
        self._context.write(Right.ACCOUNT, lambda session: self.add_in(session, spec, text))
        return text

    def add_in(self, session: Session, spec: TokenSpec, text: str) -> None:
        """Create a token with this text, as `add` does, in a transaction that does more.

        Raises:
            Problem: as for `add`.

        """
        _check(spec)
        owner = session.get(User, spec.owner_id, with_for_update=True)
        if owner is None:
            raise Problem(Code.NO_USER, "owner", id=spec.owner_id)
        self._demand_right_to(owner)
        if tokens.is_named(session, spec.name):
            raise Problem(Code.TOKEN_NAME_TAKEN, "name", name=spec.name)
        now_ms = self._context.now_ms()
        token = _row(spec, hash_of(text), now_ms, self._context.actor.who)
        _refuse_more_than_owners(token, owner, spec)
        self._refuse_foreign(session, token, owner, spec)
        tokens.add(session, token)
        self._note(session, Action.TOKEN_ADD, token, now_ms, after=_record(token, owner))

    def revoke(self, token_id: int) -> bool:
        """Revoke a token, from the next request on; return False if it was already revoked.

        Raises:
            Problem: there is no such token, or the actor has no right to it.

        """

        def unit(session: Session) -> bool:
            token = tokens.lock(session, token_id)
            if token is None:
                raise Problem(Code.NO_TOKEN, id=token_id)
            self._demand_right_to(session.get(User, token.user_id))
            now_ms = self._context.now_ms()
            if not tokens.revoke(token, now_ms=now_ms, by=self._context.actor.who):
                return False
            self._note(session, Action.TOKEN_REVOKE, token, now_ms)
            return True

        return self._context.write(Right.ACCOUNT, unit)

    def revoke_itself(self, name: str) -> None:
        """Revoke the token of this name, which is the one that asks."""

        def unit(session: Session) -> None:
            token = tokens.by_name(session, name)
            now_ms = self._context.now_ms()
            if token and tokens.revoke(token, now_ms=now_ms, by=self._context.actor.who):
                self._note(session, Action.TOKEN_REVOKE, token, now_ms)

        self._context.write(Right.ANYONE, unit)

    def _demand_right_to(self, owner: User | None) -> None:
        who = self._context.actor.who
        if owner is None or owner.name.casefold() != who.casefold():
            self._context.actor.demand(Right.ADMINISTER)

    def _refuse_foreign(
        self, session: Session, token: ApiToken, owner: User, spec: TokenSpec
    ) -> None:
        """Refuse apps and jobs that the token would not see, by name if the actor sees them."""
        holder, actor = actor_of(token, owner, origin=""), self._context.actor
        for app_id in spec.app_ids:
            app = session.get(App, app_id)
            if app is None or not (holder.knows(app_id) or actor.knows(app_id)):
                raise Problem(Code.NO_APP, "apps", id=app_id)
            if not holder.knows(app_id):
                raise Problem(Code.APP_OF_OWNER, "apps", name=owner.name, got=app.name)
        for job_id in spec.job_ids:
            job = session.get(Job, job_id)
            if job is None or not (holder.knows(job.app_id) or actor.knows(job.app_id)):
                raise Problem(Code.NO_JOB, "jobs", id=job_id)
            if not holder.knows(job.app_id):
                name = f"{session.get_one(App, job.app_id).name}/{job.name}"
                raise Problem(Code.JOB_OF_OWNER, "jobs", name=owner.name, got=name)

    def _note(
        self,
        session: Session,
        action: Action,
        token: ApiToken,
        now_ms: int,
        **values: dict[str, object],
    ) -> None:
        self._context.note(session, action, token.name, token.id, now_ms, **values)


def _check(spec: TokenSpec) -> None:
    if not re.fullmatch(NAME_PATTERN, spec.name):
        raise Problem(Code.TOKEN_NAME, "name", pattern=NAME_PATTERN, got=spec.name[:100])
    if not spec.scopes:
        raise Problem(Code.NO_SCOPES, "scopes", known=", ".join(Scope))
    if not 1 <= spec.days <= MAX_DAYS:
        raise Problem(Code.TOKEN_DAYS, "days", most=MAX_DAYS, got=spec.days)
    if len(set(spec.job_ids)) > MAX_JOBS:
        raise Problem(Code.TOKEN_JOBS, "jobs", most=MAX_JOBS, got=len(set(spec.job_ids)))
    if spec.job_ids and (wide := sorted(set(spec.scopes) - JOB_SCOPES)):
        raise Problem(Code.SCOPES_OF_JOBS, "scopes", got=", ".join(wide))
    if spec.app_ids and (wide := sorted(set(spec.scopes) & GLOBAL_SCOPES)):
        raise Problem(Code.SCOPES_OF_APPS, "scopes", got=", ".join(wide))


def _row(spec: TokenSpec, token_hash: str, now_ms: int, by: str) -> ApiToken:
    ordered = [scope.value for scope in Scope if scope in spec.scopes]
    return ApiToken(
        token_hash=token_hash,
        name=spec.name,
        user_id=spec.owner_id,
        scopes=",".join(ordered),
        permission=tokens.listed(spec.app_ids),
        jobs=tokens.listed(spec.job_ids),
        created_at=now_ms,
        created_by=by,
        expires_at=now_ms + spec.days * DAY_MS,
    )


def _refuse_more_than_owners(token: ApiToken, owner: User, spec: TokenSpec) -> None:
    actor = actor_of(token, owner, origin="")
    for scope in spec.scopes:
        if not actor.may(RIGHTS[scope]):
            raise Problem(Code.SCOPE_OF_OWNER, "scopes", name=owner.name, got=scope.value)


def _record(token: ApiToken, owner: User) -> dict[str, object]:
    return {
        "owner": owner.name,
        "scopes": token.scopes,
        "app_ids": token.permission,
        "job_ids": token.jobs,
        "expires_at": token.expires_at,
    }
