"""Commands on users, and on their API tokens, for command line and console alike.

A token never allows more than its owner may do at that moment: its scopes are the rights that it
passes on.
"""

import re
import secrets
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from warren.resources.operation import Scope
from warren.scheduler.actor import Actor, Right
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.passwords import check_password, hash_password, no_password
from warren.scheduler.commands.token_text import hash_of, new_token
from warren.scheduler.problems import Code, Problem, found, refusal
from warren.sql.accounts import preferences, tokens, users
from warren.sql.accounts.tokens import KnownToken, Owner
from warren.sql.accounts.users import Rights, Role, rights_of
from warren.sql.instants import DAY_MS
from warren.sql.models import ApiToken, App, Job, User

#: The administrator that the first start creates, with a password of 16 characters (96 bits).
ADMIN_NAME = "admin"
INITIAL_PASSWORD_BYTES = 12

USER_NAME_PATTERN = r"[A-Za-z0-9_.-]{4,50}"
#: Names of programs, which never sign in, may be as short as `ci`.
PROGRAM_NAME_PATTERN = r"[A-Za-z0-9_.-]{2,50}"


class UserCommands:
    """Adds, changes and deletes users, and writes audit log entries.

    A change of password or rights, and disabling, end all sessions of a user. Disabling, and a
    password set by another user, also revoke all tokens of the user.
    """

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def add(
        self, name: str, password: str | None, rights: Rights, *, must_change: bool = False
    ) -> int:
        """Create a user; return the id.

        Args:
            name: the user's name.
            password: None = for a program, which uses tokens and cannot sign in.
            rights: role and apps.
            must_change: the user must choose another password at the first sign-in.

        Raises:
            Refused: name, password or rights are invalid, or the name is taken.

        """
        pattern = PROGRAM_NAME_PATTERN if password is None else USER_NAME_PATTERN
        problems = found(lambda: check_user_name(name, pattern))
        if password is not None:
            problems += found(lambda: check_password(password, name))
        if problems:
            raise refusal(problems)
        password_hash = no_password() if password is None else hash_password(password)

        def unit(session: Session) -> int:
            given = checked_rights(session, rights)
            user_id = users.add(session, name, password_hash, given)
            if user_id is None:
                raise Problem(Code.USER_NAME_TAKEN, "name", name=name)
            if must_change:
                users.require_new_password(session, user_id)
            self._note(session, Action.USER_ADD, name, user_id, after=rights_record(given))
            return user_id

        return self._context.write(Right.ADMINISTER, unit)

    def add_first(self) -> str | None:
        """Create the first administrator, `admin`; return the password, or None if users exist.

        The password is stored nowhere, and must be changed at the first sign-in.
        """
        password = secrets.token_urlsafe(INITIAL_PASSWORD_BYTES)
        password_hash = hash_password(password)

        def unit(session: Session) -> str | None:
            user_id = users.add_first(session, ADMIN_NAME, password_hash)
            if user_id is None:
                return None
            rights = rights_record(Rights(role=Role.ADMINISTRATOR, may_edit_glue=True))
            self._note(session, Action.USER_ADD, ADMIN_NAME, user_id, after=rights)
            return password

        return self._context.write(Right.ADMINISTER, unit)

    def set_password(
        self,
        user_id: int,
        password: str,
        *,
        must_change: bool = False,
        generation: int | None = None,
    ) -> int:
        """Set a user's password; users may set their own, administrators everyone's.

        Args:
            user_id: the user.
            password: the new password.
            must_change: the user must choose another one at the next sign-in.
            generation: the user's when the current password was checked; None = it was not checked.

        Returns:
            The user's new generation.

        Raises:
            Problem: there is no such user, nobody may sign in with its name, it is linked to an
                identity, the password is invalid, the actor has no right, or the user is of another
                generation by now.

        """
        user = self._context.database.read(lambda session: session.get(User, user_id))
        # Compare exactly: a database may have both `olga` and `Olga`.
        if user is None or user.name != self._context.actor.who:
            self._context.actor.demand(Right.ADMINISTER)
        if user is None:
            raise Problem(Code.NO_USER, id=user_id)
        check_user_name(user.name)
        check_password(password, user.name)
        password_hash = hash_password(password)

        def unit(session: Session) -> int:
            user = _user(session, user_id, lock=True)
            if generation not in (None, user.generation):
                raise Problem(Code.USER_CHANGED, name=user.name)
            if user.sso_until is not None:
                raise Problem(Code.PASSWORD_OF_LINKED, name=user.name)
            users.set_password(user, password_hash)
            user.must_change_password = int(must_change)
            self._note(session, Action.USER_PASSWORD, user.name, user.id)
            if user.name != self._context.actor.who:
                self._revoke_tokens(session, user)
            return user.generation

        return self._context.write(Right.ACCOUNT, unit)

    def set_rights(self, user_id: int, rights: Rights) -> None:
        """Change a user's rights.

        Raises:
            Problem: there is no such user or app, the rights are invalid, the user is the actor,
                its rights come from rules, or no administrator who can sign in would remain.

        """

        def unit(session: Session) -> None:
            user = self._lock_other(session, user_id, leaves=rights.role is not Role.ADMINISTRATOR)
            if user.sso_until is not None:
                raise Problem(Code.RIGHTS_BY_RULES, name=user.name)
            before, given = rights_record(users.rights_of(user)), checked_rights(session, rights)
            users.set_rights(user, given)
            values = {"before": before, "after": rights_record(given)}
            self._note(session, Action.USER_RIGHTS, user.name, user.id, **values)

        self._context.write(Right.ADMINISTER, unit)

    def disable(self, user_id: int) -> None:
        """Keep a user from signing in until `enable`; password, rights and apps are kept.

        Raises:
            Problem: there is no such user, or it is the actor or the last administrator
                who can sign in.

        """
        self._set_disabled(user_id, Action.USER_DISABLE, is_disabled=True)

    def enable(self, user_id: int) -> None:
        """Let a disabled user sign in again.

        Raises:
            Problem: there is no such user, or it is the actor.

        """
        self._set_disabled(user_id, Action.USER_ENABLE, is_disabled=False)

    def delete(self, user_id: int) -> None:
        """Delete a user and all their sessions; their audit log entries are kept.

        Raises:
            Problem: there is no such user, or it is the actor or the last administrator
                who can sign in.

        """

        def unit(session: Session) -> None:
            user = self._lock_other(session, user_id, leaves=True)
            name, before = user.name, rights_record(users.rights_of(user))
            users.remove(session, user)
            preferences.forget_user(session, user_id)
            self._note(session, Action.USER_DELETE, name, user_id, before=before)

        self._context.write(Right.ADMINISTER, unit)

    def _set_disabled(self, user_id: int, action: Action, *, is_disabled: bool) -> None:
        def unit(session: Session) -> None:
            user = self._lock_other(session, user_id, leaves=is_disabled)
            if bool(user.is_disabled) is is_disabled:
                return
            users.set_disabled(user, is_disabled=is_disabled)
            self._note(session, action, user.name, user.id)
            if is_disabled:
                self._revoke_tokens(session, user)

        self._context.write(Right.ADMINISTER, unit)

    def _revoke_tokens(self, session: Session, user: User) -> None:
        now_ms, by = self._context.now_ms(), self._context.actor.who
        for token in tokens.revoke_of(session, user.id, now_ms=now_ms, by=by):
            self._note(session, Action.TOKEN_REVOKE, token.name, token.id)

    def _lock_other(self, session: Session, user_id: int, *, leaves: bool) -> User:
        # Lock administrators first: if two demote each other at once, the second sees the first.
        administrators = users.lock_administrators(session)
        user = _user(session, user_id, lock=True)
        if user.name.casefold() == self._context.actor.who.casefold():
            raise Problem(Code.OWN_USER, name=user.name)
        if leaves and administrators == [user.name]:
            raise Problem(Code.LAST_ADMINISTRATOR, name=user.name)
        return user

    def _note(
        self,
        session: Session,
        action: Action,
        name: str,
        user_id: int,
        **values: dict[str, object],
    ) -> None:
        self._context.note(session, action, name, user_id, self._context.now_ms(), **values)


def check_user_name(name: str, pattern: str = USER_NAME_PATTERN) -> None:
    """Raise Problem unless the name matches a pattern."""
    if not re.fullmatch(pattern, name):
        raise Problem(Code.USER_NAME, "name", pattern=pattern, got=name[:100])


def _user(session: Session, user_id: int, *, lock: bool = False) -> User:
    user = session.get(User, user_id, with_for_update=lock or None, populate_existing=lock)
    if user is None:
        raise Problem(Code.NO_USER, id=user_id)
    return user


def rights_record(rights: Rights) -> dict[str, object]:
    """Return what the audit log keeps of a user's rights."""
    return {
        "role": rights.role.name.lower(),
        "app_ids": list(rights.app_ids),
        "may_edit_glue": rights.may_edit_glue,
    }


def checked_rights(session: Session, rights: Rights) -> Rights:
    """Return the rights to store; an administrator has all rights and names no apps.

    Raises:
        Problem: the rights contradict the role, or an app does not exist.

    """
    if rights.role is Role.ADMINISTRATOR:
        if rights.app_ids:
            raise Problem(Code.ADMINISTRATOR_WITH_APPS, "apps")
        return replace(rights, may_edit_glue=True)
    if not rights.app_ids:
        raise Problem(Code.NO_APPS, "apps", role=rights.role.name.lower())
    if rights.role is Role.VIEWER and rights.may_edit_glue:
        raise Problem(Code.VIEWER_WITH_SCRIPTS, "may_edit_scripts")
    for app_id in rights.app_ids:
        if session.get(App, app_id) is None:
            raise Problem(Code.NO_APP, "apps", id=app_id)
    return replace(rights, app_ids=tuple(sorted(set(rights.app_ids))))


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


#: The name of a token.
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
            Refused: the spec is invalid, the name was used before, or the token would allow more
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
        if problems := [*_problems(spec)]:
            raise refusal(problems)
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


def _problems(spec: TokenSpec) -> Iterator[Problem]:
    """Yield what is wrong with a token, whoever is to own it."""
    if not re.fullmatch(NAME_PATTERN, spec.name):
        yield Problem(Code.TOKEN_NAME, "name", pattern=NAME_PATTERN, got=spec.name[:100])
    if not spec.scopes:
        yield Problem(Code.NO_SCOPES, "scopes", known=", ".join(Scope))
    if not 1 <= spec.days <= MAX_DAYS:
        yield Problem(Code.TOKEN_DAYS, "days", most=MAX_DAYS, got=spec.days)
    if len(set(spec.job_ids)) > MAX_JOBS:
        yield Problem(Code.TOKEN_JOBS, "jobs", most=MAX_JOBS, got=len(set(spec.job_ids)))
    if spec.job_ids and (wide := sorted(set(spec.scopes) - JOB_SCOPES)):
        yield Problem(Code.SCOPES_OF_JOBS, "scopes", got=", ".join(wide))
    elif spec.app_ids and (wide := sorted(set(spec.scopes) & GLOBAL_SCOPES)):
        yield Problem(Code.SCOPES_OF_APPS, "scopes", got=", ".join(wide))


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
