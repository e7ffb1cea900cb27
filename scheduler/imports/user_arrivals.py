"""Imports users: disabled, or with a password that they must change at the first sign-in."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from scheduler.actor import Right
from scheduler.commands.audit_log import Action
from scheduler.commands.command_context import CommandContext
from scheduler.commands.passwords import hash_password
from scheduler.commands.users import rights_record
from scheduler.imports.arrivals import UserArrival, digest
from scheduler.imports.import_outcomes import ImportAction, Outcome
from sql.accounts import user_accounts, users
from sql.accounts.users import Rights
from sql.imports import origins
from sql.imports.origins import Origin
from sql.models import User

USER = "user"
PASSWORD_BYTES = 12

#: Stores the passwords of new users, by name, where the caller can read them; called before the
#: transaction that creates the users commits.
StorePasswords = Callable[[Mapping[str, str]], None]


@dataclass(frozen=True, slots=True)
class _Step:
    action: ImportAction
    arrival: UserArrival
    user: User | None
    words: str = ""


class UserArrivals:
    """Imports the users of one source; users who existed here before are left unchanged."""

    def __init__(self, context: CommandContext, source: str, *, overwrite: bool) -> None:
        self._context = context
        self._source = source
        self._overwrite = overwrite

    def preview(self, arrivals: Sequence[UserArrival]) -> list[Outcome]:
        """Return what `write` would do, without writing anything."""
        return self._context.database.read(
            lambda session: [_outcome(step) for step in self._decide(session, arrivals)]
        )

    def write(
        self,
        arrivals: Sequence[UserArrival],
        app_ids: Mapping[int, int],
        store_passwords: StorePasswords | None,
    ) -> list[Outcome]:
        """Import users; return what was done.

        `app_ids` are the ids here of the source's apps. With `store_passwords`, new users get
        passwords; without, they are disabled.
        """
        passwords = (
            {one.name: secrets.token_urlsafe(PASSWORD_BYTES) for one in arrivals}
            if store_passwords
            else {}
        )
        hashes = {name: hash_password(password) for name, password in passwords.items()}
        # Disabled users get the hash of a random password that nobody knows.
        unknown = "" if store_passwords else hash_password(secrets.token_urlsafe())

        def unit(session: Session) -> list[Outcome]:
            steps = self._decide(session, arrivals)
            for step in steps:
                rights = Rights(
                    role=step.arrival.role,
                    app_ids=tuple(
                        sorted({app_ids[one] for one in step.arrival.app_ids if one in app_ids})
                    ),
                    may_edit_glue=False,
                )
                if step.action is ImportAction.CREATE:
                    self._add(session, step.arrival, rights, hashes, unknown)
                elif step.action is ImportAction.UPDATE and step.user is not None:
                    users.set_rights(step.user, rights)
                    self._remember(session, step.arrival, step.user)
            if store_passwords:
                store_passwords(
                    {one.arrival.name: passwords[one.arrival.name] for one in _created(steps)}
                )
            return [_outcome(step) for step in steps]

        return self._context.write(Right.ADMINISTER, unit)

    def _decide(self, session: Session, arrivals: Sequence[UserArrival]) -> list[_Step]:
        administrators = user_accounts.lock_administrators(session)
        known = {user.id: user for user in users.listing(session)}
        names = {user.name.casefold() for user in known.values()}
        imported = origins.read(session, self._source, USER)
        steps = []
        for arrival in arrivals:
            origin = imported.get(arrival.source_id)
            user = known.get(origin.target_id) if origin else None
            if origin is None:
                is_taken = arrival.name.casefold() in names
                words = "a user with that name already existed here and is left unchanged"
                action = ImportAction.LEFT_OUT if is_taken else ImportAction.CREATE
                steps.append(_Step(action, arrival, None, words if is_taken else ""))
            elif user is None:
                steps.append(
                    _Step(ImportAction.DELETED, arrival, None, "the user was deleted here")
                )
            else:
                is_last = administrators == [user.name]
                steps.append(_Step(self._action(origin, arrival, user, is_last), arrival, user))
        return steps

    def _action(
        self, origin: Origin, arrival: UserArrival, user: User, is_last: bool
    ) -> ImportAction:
        if origin.source_fingerprint == arrival.fingerprint:
            return ImportAction.UNCHANGED
        if (origin.target_fingerprint == _fingerprint(user) or self._overwrite) and not is_last:
            return ImportAction.UPDATE
        return ImportAction.CONFLICT

    def _add(
        self,
        session: Session,
        arrival: UserArrival,
        rights: Rights,
        hashes: Mapping[str, str],
        unknown: str,
    ) -> None:
        user_id = users.add(session, arrival.name, hashes.get(arrival.name, unknown), rights)
        if user_id is None:
            return  # two names of the source differ only in capitals
        user = session.get_one(User, user_id)
        user.must_change_password = 1
        user.is_disabled = int(arrival.name not in hashes)
        session.flush()
        record = rights_record(rights)
        now_ms = self._context.now_ms()
        self._context.note(session, Action.USER_ADD, user.name, user.id, now_ms, after=record)
        self._remember(session, arrival, user)

    def _remember(self, session: Session, arrival: UserArrival, user: User) -> None:
        origin = Origin(arrival.source_id, user.id, arrival.fingerprint, _fingerprint(user))
        origins.write(session, self._source, USER, [origin], now_ms=self._context.now_ms())


def _fingerprint(user: User) -> str:
    rights = users.rights_of(user)
    return digest([rights.role, rights.app_ids, rights.may_edit_glue])


def _created(steps: Sequence[_Step]) -> list[_Step]:
    return [step for step in steps if step.action is ImportAction.CREATE]


def _outcome(step: _Step) -> Outcome:
    return Outcome(
        action=step.action,
        what=USER,
        source_id=step.arrival.source_id,
        target_id=step.user.id if step.user else 0,
        name=step.arrival.name,
        words=step.words,
    )
