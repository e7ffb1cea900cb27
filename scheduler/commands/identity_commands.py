"""Commands on single sign-on: who may sign in, and with the rights of which groups.

An identity is an issuer and what it calls a person, never a name or an e-mail address: those can be
given to another person. The rights of a linked user come from the rules for groups alone, which are
read again now and then; a linked user has no use for a password.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.account_commands import checked_rights, rights_record
from warren.scheduler.commands.command_context import Action, AuditLog, CommandContext
from warren.scheduler.commands.passwords import dummy_hash
from warren.scheduler.names import is_line
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import identities, tokens, users
from warren.sql.accounts.identities import (
    MAX_GROUP_LENGTH,
    MAX_GROUP_RULES,
    MAX_LENGTH,
    DueIdentity,
)
from warren.sql.accounts.users import NO_SIGN_IN, Rights, Role, rights_of
from warren.sql.models import Identity, User

#: The rights of each group that has a rule.
Rules = Mapping[str, Rights]
#: What a person has whose groups match no rule.
NOTHING = Rights(role=Role.VIEWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedUser:
    """A user whose rights a change of rules changes; NOTHING = no rule matches."""

    user_id: int
    name: str
    before: Rights
    after: Rights


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesChange:
    """A change of rules; `digest` is the same as long as it would do the same."""

    before: Rules
    after: Rules
    users: Sequence[ChangedUser]

    @property
    def changed_groups(self) -> list[str]:
        """The groups whose rule is new, different or gone."""
        named = sorted({*self.before, *self.after})
        return [name for name in named if self.before.get(name) != self.after.get(name)]

    @property
    def digest(self) -> str:
        told = [
            {group: rights_record(rights) for group, rights in sorted(rules.items())}
            for rules in (self.before, self.after)
        ]
        moved = [
            [user.user_id, rights_record(user.before), rights_record(user.after)]
            for user in self.users
        ]
        return hashlib.sha256(json.dumps([told, moved]).encode()).hexdigest()


def rights_by(rules: Rules, groups: Collection[str]) -> Rights:
    """Return the rights of a member of these groups; NOTHING if no rule matches.

    A user has one role, so the highest one counts: administrator, operator who may edit scripts,
    operator, viewer. The apps of all rules with it add up; the other rules add nothing, because a
    viewer of an app would become its operator.
    """
    matching = [rules[group] for group in groups if group in rules]
    if not matching:
        return NOTHING
    highest = max(map(_level, matching))
    counting = [rights for rights in matching if _level(rights) == highest]
    app_ids = {app_id for rights in counting for app_id in rights.app_ids}
    return Rights(
        role=counting[0].role,
        app_ids=tuple(sorted(app_ids)),
        may_edit_glue=counting[0].may_edit_glue,
    )


def _level(rights: Rights) -> int:
    order = (Role.VIEWER, Role.OPERATOR, Role.ADMINISTRATOR)
    return 2 * order.index(rights.role) + int(rights.may_edit_glue)


class RuleCommands:
    """Shows and changes the rules, and writes audit log entries."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def present(self) -> Rules:
        """Return the rules that hold."""
        self._context.actor.demand(Right.ADMINISTER)
        return self._context.database.read(identities.group_rules)

    def foresee(self, rules: Rules) -> RulesChange:
        """Return what these rules would change; nothing is locked or stored.

        Raises:
            Problem: a rule is invalid, or no administrator who can sign in would remain.

        """
        self._context.actor.demand(Right.ADMINISTER)
        return self._context.database.read(lambda session: _change(session, rules))

    def apply(self, rules: Rules, *, digest: str | None = None) -> RulesChange:
        """Make these the rules, and give all users with an identity their rights by them.

        Args:
            rules: all rules, by group.
            digest: that of the change that was shown; None = it was not.

        Raises:
            Problem: as `foresee`, or the change is no longer the one that was shown.

        """

        def unit(session: Session) -> RulesChange:
            users.lock_administrators(session)
            change = _change(session, rules)
            if digest not in (None, change.digest):
                raise Problem(Code.RULES_CHANGED)
            if not change.changed_groups and not change.users:
                return change
            identities.replace_group_rules(session, change.after)
            self._note(session, change)
            for changed in sorted(change.users, key=lambda user: user.user_id):
                self._give(session, changed)
            return change

        return self._context.write(Right.ADMINISTER, unit)

    def _give(self, session: Session, changed: ChangedUser) -> None:
        user = session.get(User, changed.user_id, with_for_update=True, populate_existing=True)
        if user is None:
            return
        users.set_rights(user, changed.after)
        if changed.after == NOTHING:
            users.set_access(user, sso_until=0, tokens_until=0)
        self._context.note(
            session,
            Action.USER_RIGHTS,
            user.name,
            user.id,
            self._context.now_ms(),
            before=rights_record(changed.before),
            after=rights_record(changed.after),
        )

    def _note(self, session: Session, change: RulesChange) -> None:
        records = [
            {
                group: rights_record(rules[group])
                for group in change.changed_groups
                if group in rules
            }
            for rules in (change.before, change.after)
        ]
        self._context.note(
            session,
            Action.RULES_APPLY,
            f"{len(change.after)} rules",
            0,
            self._context.now_ms(),
            before=records[0],
            after=records[1],
        )


def _change(session: Session, rules: Rules) -> RulesChange:
    """Return what rules would change, once they are found valid.

    Raises:
        Problem: they are not.

    """
    after = _checked(session, rules)
    changed = []
    administrators_left, leaving = 0, False
    for identity, user in identities.all_linked(session):
        groups = identities.groups_of(identity)
        if groups is None:
            continue  # nobody knows the groups before the first sign-in
        held, given = rights_of(user), rights_by(after, groups)
        administrators_left += given.role is Role.ADMINISTRATOR and not user.is_disabled
        leaving |= held.role is Role.ADMINISTRATOR and given.role is not Role.ADMINISTRATOR
        if held != given:
            changed.append(ChangedUser(user_id=user.id, name=user.name, before=held, after=given))
    if leaving and not administrators_left and not _have_password(session):
        raise Problem(Code.RULES_WITHOUT_ADMINISTRATOR)
    return RulesChange(before=identities.group_rules(session), after=after, users=changed)


def _have_password(session: Session) -> bool:
    """Return whether an administrator can sign in with a password."""
    return any(
        users.may_sign_in(user) and user.role == Role.ADMINISTRATOR
        for user in users.listing(session)
    )


def _checked(session: Session, rules: Rules) -> dict[str, Rights]:
    if len(rules) > MAX_GROUP_RULES:
        raise Problem(Code.RULES_TOO_MANY, most=MAX_GROUP_RULES, got=len(rules))
    checked = {}
    for group, rights in rules.items():
        if not group.strip() or not is_line(group, MAX_GROUP_LENGTH):
            raise Problem(Code.RULE_GROUP, "group", most=MAX_GROUP_LENGTH, got=group[:100])
        try:
            checked[group] = checked_rights(session, rights)
        except Problem as problem:
            raise Problem(
                Code.IN_RULE, problem.field, group=group[:100], why=problem.reason
            ) from problem
    return checked


#: How long access holds after the groups were read.
ACCESS_MS = 15 * 60_000
#: How long after they were read they are read again.
READ_AGAIN_MS = 5 * 60_000
#: Who changes rights because groups have changed, in the audit log; no user can have this name.
GROUPS = "sso:groups"
_SHORTEST_NAME, _LONGEST_NAME = 4, 44


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person as the provider describes them; the name is only a proposal for a new user's."""

    issuer: str
    subject: str
    groups: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """When groups were read, and what lets them be read again.

    `refresh_token` is encrypted; None = there is none. `tokens_ms` is how long the user's tokens
    hold then.
    """

    at_ms: int
    refresh_token: str | None
    tokens_ms: int


@dataclass(frozen=True, slots=True)
class Unmatched:
    """No rule matches the person's groups; `user` is whom the identity is linked to, if anybody."""

    user: User | None


@dataclass(frozen=True, slots=True)
class Disabled:
    """The user is disabled."""

    user: User


def admit(
    session: Session, person: Person, reading: Reading, *, origin: str
) -> User | Unmatched | Disabled:
    """Return the user of a person who has signed in at the provider, with the rights by the rules.

    A person without a user gets a new one if a rule matches, never one that is there.
    """
    user = _linked_user(session, person)
    if user is None:
        # Others who sign in for the first time wait here, so names and identities stay unique.
        users.lock_administrators(session)
        user = _linked_user(session, person)
    if user is None:
        rights = rights_by(identities.group_rules(session), person.groups)
        if rights == NOTHING:
            return Unmatched(None)
        user = _made(session, person, rights, reading, origin=origin)
    if user.is_disabled:
        return Disabled(user)
    identity = identities.of_user(session, user.id)
    assert identity is not None
    identity.signed_in_at = reading.at_ms
    audit_log = AuditLog(who=user.name, origin=origin)
    return (
        user
        if _settle(session, identity, user, person.groups, reading, audit_log=audit_log)
        else Unmatched(user)
    )


def renew(session: Session, due: DueIdentity, person: Person, reading: Reading) -> bool:
    """Give a user the rights by the groups that were read again; return whether they have any.

    Nothing is done if the person has signed in anew in the meantime.
    """
    user = _owner(session, due)
    identity = identities.lock_read(session, due)
    if user is None or identity is None:
        return True
    audit_log = AuditLog(who=GROUPS, origin=GROUPS)
    return _settle(session, identity, user, person.groups, reading, audit_log=audit_log)


def end_access(session: Session, due: DueIdentity, why: str, *, now_ms: int) -> None:
    """End the access of a user whose refresh token the provider no longer takes."""
    user = _owner(session, due)
    identity = identities.lock_read(session, due)
    if user is None or identity is None:
        return
    identity.refresh_token, identity.fault = None, why[:MAX_LENGTH]
    users.set_access(user, sso_until=0, tokens_until=0)
    AuditLog(who=GROUPS, origin=GROUPS).note(
        session, Action.IDENTITY_END, user.name, object_id=user.id, now_ms=now_ms
    )


def postpone(
    session: Session, due: DueIdentity, why: str, *, refresh_token: str, until_ms: int
) -> None:
    """Note that groups could not be read, and when to try again with which refresh token."""
    identity = identities.lock_read(session, due)
    if identity is not None:
        identity.fault, identity.next_read_at = why[:MAX_LENGTH], until_ms
        identity.refresh_token = refresh_token


def _linked_user(session: Session, person: Person) -> User | None:
    """Return the locked user of an identity; administrators are locked first."""
    identity = identities.find(session, person.issuer, person.subject)
    return None if identity is None else _locked(session, identity.user_id)


def _owner(session: Session, due: DueIdentity) -> User | None:
    identity = session.get(Identity, due.id)
    return None if identity is None else _locked(session, identity.user_id)


def _locked(session: Session, user_id: int) -> User | None:
    """Lock and return a user; all administrators first, if it is one, as every change of them."""
    user = session.get(User, user_id)
    if user is not None and user.role == Role.ADMINISTRATOR:
        users.lock_administrators(session)
    return session.get(User, user_id, with_for_update=True, populate_existing=True)


def _made(
    session: Session, person: Person, rights: Rights, reading: Reading, *, origin: str
) -> User:
    name = users.free_name(session, user_name(person.name))
    user_id = users.add(session, name, NO_SIGN_IN + dummy_hash(), rights)
    assert user_id is not None
    identities.add(session, user_id, person.issuer, person.subject, now_ms=reading.at_ms, by=GROUPS)
    audit_log = AuditLog(who=name, origin=origin)
    for action, after in (
        (Action.USER_ADD, rights_record(rights)),
        (Action.IDENTITY_LINK, {"issuer": person.issuer, "subject": person.subject}),
    ):
        audit_log.note(session, action, name, object_id=user_id, now_ms=reading.at_ms, after=after)
    return session.get_one(User, user_id)


def user_name(proposed: str) -> str:
    """Return a valid user name for what a provider calls a person, such as an e-mail address."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", proposed.partition("@")[0]).strip("-.")[:_LONGEST_NAME]
    if not name:
        return "user"
    return name if len(name) >= _SHORTEST_NAME else f"user-{name}"


def _settle(
    session: Session,
    identity: Identity,
    user: User,
    groups: Sequence[str],
    reading: Reading,
    *,
    audit_log: AuditLog,
) -> bool:
    """Store groups and refresh token, and give a locked user the rights by the rules.

    The rules are read under the user's lock, so that those that hold from now on count. Returns
    whether one matches.
    """
    identities.set_groups(identity, groups, read_at=reading.at_ms)
    identity.next_read_at = reading.at_ms + READ_AGAIN_MS
    rights = rights_by(identities.group_rules(session), groups)
    identity.refresh_token = reading.refresh_token if rights != NOTHING else None
    held = users.rights_of(user)
    leaves = held.role is Role.ADMINISTRATOR and rights.role is not Role.ADMINISTRATOR
    # The last administrator keeps the role, for whoever mends the rules, but has no access by it.
    is_last = leaves and not users.has_other_administrator(session, user.id)
    if held != rights and not is_last:
        users.set_rights(user, rights)
        audit_log.note(
            session,
            Action.USER_RIGHTS,
            user.name,
            object_id=user.id,
            now_ms=reading.at_ms,
            before=rights_record(held),
            after=rights_record(rights),
        )
    if rights == NOTHING or is_last:
        users.set_access(user, sso_until=0, tokens_until=0)
        return False
    tokens_ms = ACCESS_MS if reading.refresh_token else reading.tokens_ms
    users.set_access(
        user, sso_until=reading.at_ms + ACCESS_MS, tokens_until=reading.at_ms + tokens_ms
    )
    return True


class IdentityCommands:
    """Links users to identities, and writes audit log entries.

    A change of link ends all sessions of the user. From then on the password of a linked user is
    not accepted, and tokens hold only after a sign-in at the provider.
    """

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def link(
        self, user_id: int, issuer: str, subject: str, *, groups: Collection[str] | None = None
    ) -> None:
        """Link a user to an identity; users may link themselves, administrators everybody.

        Raises:
            Problem: the subject is invalid, one of the two is linked already, there is no such
                user, no administrator with a password would remain, or no rule matches `groups`.

        """
        if not subject.strip() or not is_line(subject, MAX_LENGTH):
            raise Problem(Code.SUBJECT, "subject", most=MAX_LENGTH, got=subject[:100])

        def unit(session: Session) -> None:
            administrators = users.lock_administrators(session)
            user = self._lock(session, user_id)
            if user.name != self._context.actor.who:
                self._context.actor.demand(Right.ADMINISTER)
            if identities.of_user(session, user.id) is not None:
                raise Problem(Code.USER_LINKED, name=user.name)
            if (known := identities.find(session, issuer, subject)) is not None:
                raise Problem(
                    Code.IDENTITY_TAKEN, "subject", name=users.by_id(session, known.user_id).name
                )
            if administrators == [user.name]:
                raise Problem(Code.LAST_PASSWORD, name=user.name)
            if groups is not None and rights_by(identities.group_rules(session), groups) == NOTHING:
                raise Problem(Code.LINK_WITHOUT_RULE, name=user.name)
            now_ms = self._context.now_ms()
            who = self._context.actor.who
            identities.add(session, user.id, issuer, subject, now_ms=now_ms, by=who)
            users.set_access(user, sso_until=0, tokens_until=0)
            user.must_change_password = 0
            user.generation += 1
            after = {"issuer": issuer, "subject": subject}
            self._context.note(
                session, Action.IDENTITY_LINK, user.name, user.id, now_ms, after=after
            )

        self._context.write(Right.ACCOUNT, unit)

    def unlink(self, user_id: int) -> None:
        """Make a user local again; the rights stay as they are, and all tokens are revoked.

        Raises:
            Problem: there is no such user, it is not linked, or it is the actor.

        """

        def unit(session: Session) -> None:
            users.lock_administrators(session)
            user = self._lock(session, user_id)
            if user.name.casefold() == self._context.actor.who.casefold():
                raise Problem(Code.OWN_USER, name=user.name)
            identity = identities.of_user(session, user.id)
            if identity is None:
                raise Problem(Code.USER_NOT_LINKED, name=user.name)
            now_ms = self._context.now_ms()
            before = {"issuer": identity.issuer, "subject": identity.subject}
            identities.remove(session, user.id)
            users.set_access(user, sso_until=None, tokens_until=None)
            user.generation += 1
            self._context.note(
                session, Action.IDENTITY_UNLINK, user.name, user.id, now_ms, before=before
            )
            who = self._context.actor.who
            for token in tokens.revoke_of(session, user.id, now_ms=now_ms, by=who):
                self._context.note(session, Action.TOKEN_REVOKE, token.name, token.id, now_ms)

        self._context.write(Right.ADMINISTER, unit)

    def _lock(self, session: Session, user_id: int) -> User:
        user = session.get(User, user_id, with_for_update=True, populate_existing=True)
        if user is None:
            raise Problem(Code.NO_USER, id=user_id)
        return user
