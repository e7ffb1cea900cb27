"""Rules that give the members of a provider's groups their rights, and what changing them does."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.app_names import is_line
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.user_commands import checked_rights, rights_record
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import identities, users
from warren.sql.accounts.identities import MAX_GROUP_LENGTH, MAX_GROUP_RULES
from warren.sql.accounts.users import Rights, Role, rights_of
from warren.sql.models import User

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
