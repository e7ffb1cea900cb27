"""What the members of each group of the provider of single sign-on may do."""

import hashlib
from collections.abc import Mapping

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from warren.sql.accounts.users import Rights, rights_of, stored_apps
from warren.sql.batch import modify
from warren.sql.models import GroupRule

#: The most characters of a group's name, and the most rules.
MAX_LENGTH, MAX_RULES = 255, 500


def all_rules(session: Session) -> dict[str, Rights]:
    """Return the rights of each group that has a rule, by name."""
    rules = session.execute(select(GroupRule)).scalars()
    return {rule.group_name: rights_of(rule) for rule in sorted(rules, key=lambda r: r.group_name)}


def replace_all(session: Session, rules: Mapping[str, Rights]) -> None:
    """Make these the rules."""
    modify(session, delete(GroupRule))
    for group, rights in rules.items():
        session.add(
            GroupRule(
                key_hash=hashlib.sha256(group.encode()).hexdigest(),
                group_name=group,
                role=int(rights.role),
                permission=stored_apps(rights),
                may_edit_glue=int(rights.may_edit_glue),
            )
        )
    session.flush()


def remove_app(session: Session, app_id: int) -> None:
    """Remove an app that is being deleted from all rules; a rule without any goes too."""
    for rule in session.execute(select(GroupRule).with_for_update()).scalars():
        listed = (rule.permission or "").split(",")
        remaining = [each for each in listed if each.strip() != str(app_id)]
        if rule.permission is None or len(remaining) == len(listed):
            continue
        if remaining:
            rule.permission = ",".join(remaining)
        else:
            session.delete(rule)
    session.flush()
