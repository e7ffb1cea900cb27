"""Imports users: disabled, or with a password that they must change at the first sign-in."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.passwords import hash_password
from warren.scheduler.commands.users import rights_record
from warren.scheduler.imports.decisions import decide_change
from warren.scheduler.imports.items import ImportAction, ImportedUser, Outcome, digest
from warren.sql.accounts import users
from warren.sql.accounts.users import Rights, Role
from warren.sql.imports import origins
from warren.sql.imports.origins import USER, Origin
from warren.sql.models import User

PASSWORD_BYTES = 12

#: Stores the passwords of new users, by name, where the caller can read them; called before the
#: transaction that creates the users commits.
StorePasswords = Callable[[Mapping[str, str]], None]


@dataclass(frozen=True, slots=True)
class _Step:
    action: ImportAction
    item: ImportedUser
    user: User | None
    words: str = ""

    @property
    def demotes_administrator(self) -> bool:
        """Whether this step would demote an active administrator."""
        return (
            self.action is ImportAction.UPDATE
            and self.user is not None
            and users.rights_of(self.user).role is Role.ADMINISTRATOR
            and users.may_sign_in(self.user)
            and self.item.role is not Role.ADMINISTRATOR
        )


class UserImport:
    """Imports the users of one source; users who existed here before are left unchanged."""

    def __init__(self, context: CommandContext, source: str, *, overwrite: bool) -> None:
        self._context = context
        self._source = source
        self._overwrite = overwrite

    def preview(self, items: Sequence[ImportedUser]) -> list[Outcome]:
        """Return what `write` would do, without writing anything."""
        return self._context.database.read(
            lambda session: [_outcome(step) for step in self._decide(session, items)]
        )

    def write(
        self,
        items: Sequence[ImportedUser],
        app_ids: Mapping[int, int],
        store_passwords: StorePasswords | None,
    ) -> list[Outcome]:
        """Import users; return what was done.

        `app_ids` are the ids here of the source's apps. With `store_passwords`, new users get
        passwords; without, they are disabled.
        """
        passwords = (
            {item.name: secrets.token_urlsafe(PASSWORD_BYTES) for item in items}
            if store_passwords
            else {}
        )
        hashes = {name: hash_password(password) for name, password in passwords.items()}
        # Disabled users get the hash of a random password that nobody knows.
        unknown = "" if store_passwords else hash_password(secrets.token_urlsafe())

        def unit(session: Session) -> list[Outcome]:
            steps = self._decide(session, items)
            for step in steps:
                rights = Rights(
                    role=step.item.role,
                    app_ids=tuple(
                        sorted(
                            {
                                app_ids[known_id]
                                for known_id in step.item.app_ids
                                if known_id in app_ids
                            }
                        )
                    ),
                    may_edit_glue=step.item.role is Role.ADMINISTRATOR,
                )
                if step.action is ImportAction.CREATE:
                    self._add(session, step.item, rights, hashes, unknown)
                elif step.action is ImportAction.UPDATE and step.user is not None:
                    self._set_rights(session, step.user, rights)
                    self._remember(session, step.item, step.user)
            if store_passwords:
                store_passwords(
                    {step.item.name: passwords[step.item.name] for step in _created(steps)}
                )
            return [_outcome(step) for step in steps]

        return self._context.write(Right.ADMINISTER, unit)

    def _decide(self, session: Session, items: Sequence[ImportedUser]) -> list[_Step]:
        administrators = users.lock_administrators(session)
        known = {user.id: user for user in users.listing(session)}
        names = {user.name.casefold() for user in known.values()}
        imported = origins.read(session, self._source, USER)
        steps = []
        for item in items:
            origin = imported.get(item.source_id)
            user = known.get(origin.target_id) if origin else None
            if origin is None:
                is_taken = item.name.casefold() in names
                words = "a user with that name already existed here and is left unchanged"
                action = ImportAction.LEFT_OUT if is_taken else ImportAction.CREATE
                steps.append(_Step(action, item, None, words if is_taken else ""))
            elif user is None:
                steps.append(_Step(ImportAction.DELETED, item, None, "the user was deleted here"))
            else:
                step = self._known(origin, item, user, administrators)
                if step.demotes_administrator:
                    administrators.remove(user.name)
                steps.append(step)
        return steps

    def _known(
        self, origin: Origin, item: ImportedUser, user: User, administrators: Sequence[str]
    ) -> _Step:
        if origin.source_fingerprint == item.fingerprint:
            return _Step(ImportAction.UNCHANGED, item, user)
        action, words = decide_change(origin, _fingerprint(user), overwrite=self._overwrite)
        step = _Step(action, item, user, words)
        if step.demotes_administrator and administrators == [user.name]:
            return _Step(ImportAction.CONFLICT, item, user, "no administrator would remain")
        return step

    def _set_rights(self, session: Session, user: User, rights: Rights) -> None:
        before = rights_record(users.rights_of(user))
        users.set_rights(user, rights)
        values = {"before": before, "after": rights_record(rights)}
        now_ms = self._context.now_ms()
        self._context.note(session, Action.USER_RIGHTS, user.name, user.id, now_ms, **values)

    def _add(
        self,
        session: Session,
        item: ImportedUser,
        rights: Rights,
        hashes: Mapping[str, str],
        unknown: str,
    ) -> None:
        user_id = users.add(session, item.name, hashes.get(item.name, unknown), rights)
        if user_id is None:
            return  # two names of the source differ only in capitals
        user = session.get_one(User, user_id)
        user.must_change_password = 1
        user.is_disabled = int(item.name not in hashes)
        session.flush()
        record = rights_record(rights)
        now_ms = self._context.now_ms()
        self._context.note(session, Action.USER_ADD, user.name, user.id, now_ms, after=record)
        self._remember(session, item, user)

    def _remember(self, session: Session, item: ImportedUser, user: User) -> None:
        origin = Origin(item.source_id, user.id, item.fingerprint, _fingerprint(user))
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
        source_id=step.item.source_id,
        target_id=step.user.id if step.user else 0,
        name=step.item.name,
        words=step.words,
    )
