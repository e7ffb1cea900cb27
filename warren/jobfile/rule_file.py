"""Reads and writes files of rules for single sign-on: what the members of each group may do."""

from collections.abc import Iterable
from typing import NamedTuple

import yaml

from warren.errors import InvalidEntry, JobFileError, Line
from warren.jobfile.export import scalar
from warren.jobfile.yaml_reader import Entry, boolean, entries, items, line_of, text, tree_of
from warren.resources.spelling import did_you_mean
from warren.sql.accounts.users import Role

#: The fields of a rule.
GROUP, ROLE, APPS, SCRIPTS = "group", "role", "apps", "scripts"
_ROLES = {role.name.lower(): role for role in (Role.ADMINISTRATOR, Role.OPERATOR, Role.VIEWER)}


class FiledRule(NamedTuple):
    """A rule as a file has it, with the names of its apps."""

    group: str
    role: Role
    apps: tuple[str, ...]
    scripts: bool
    line: Line = Line(0, "")


def read_rules(content: str, name: str) -> list[FiledRule]:
    """Return the rules of a file, which is called `name` in messages.

    Raises:
        JobFileError: with each rule that is wrong, by line.

    """
    rules: dict[str, FiledRule] = {}
    problems: list[InvalidEntry] = []
    try:
        for node in _listed(tree_of(content, name)):
            try:
                rule = _rule(node)
            except InvalidEntry as problem:
                problems.append(problem)
                continue
            if rule.group in rules:
                words = f"duplicate rule for group {rule.group[:100]!r}"
                problems.append(InvalidEntry(rule.line, words))
            rules[rule.group] = rule
    except InvalidEntry as problem:
        problems.append(problem)
    if problems:
        raise JobFileError([str(problem) for problem in problems], problems)
    return list(rules.values())


def write_rules(rules: Iterable[FiledRule]) -> Iterable[str]:
    """Yield the lines of a file."""
    lines = [f"  - {{{', '.join(_fields(rule))}}}" for rule in rules]
    yield "rules:" if lines else "rules: []"
    yield from lines


def _fields(rule: FiledRule) -> Iterable[str]:
    yield f"{GROUP}: {scalar(rule.group, has_places=False)}"
    yield f"{ROLE}: {rule.role.name.lower()}"
    if rule.apps:
        yield f"{APPS}: [{', '.join(rule.apps)}]"
    if rule.scripts and rule.role is Role.OPERATOR:
        yield f"{SCRIPTS}: true"


def _listed(root: yaml.Node) -> list[yaml.Node]:
    found = _known(root, "the file", ("rules",))
    if "rules" not in found:
        raise InvalidEntry(line_of(root), "expected rules, a list; it is missing")
    return items(found["rules"].node, "rules")


def _rule(node: yaml.Node) -> FiledRule:
    found = _known(node, "a rule", (GROUP, ROLE, APPS, SCRIPTS))
    for name in (GROUP, ROLE):
        if name not in found:
            raise InvalidEntry(line_of(node), f"expected {name} of a rule, it is missing")
    role = text(found[ROLE].node, ROLE)
    if role not in _ROLES:
        words = f"unknown role {role[:100]!r}{did_you_mean(role, _ROLES)}"
        raise InvalidEntry(found[ROLE].line, f"{words}; expected one of {', '.join(_ROLES)}")
    listed = items(found[APPS].node, APPS) if APPS in found else []
    return FiledRule(
        group=text(found[GROUP].node, GROUP),
        role=_ROLES[role],
        apps=tuple(text(item, "an app") for item in listed),
        scripts=boolean(found[SCRIPTS].node, SCRIPTS) if SCRIPTS in found else False,
        line=line_of(node),
    )


def _known(node: yaml.Node, what: str, names: Iterable[str]) -> dict[str, Entry]:
    found = {}
    for entry in entries(node, what):
        if isinstance(entry, InvalidEntry):
            raise entry
        if entry.name not in names:
            words = f"unknown field {entry.name[:100]!r}{did_you_mean(entry.name, list(names))}"
            raise InvalidEntry(entry.line, words)
        found[entry.name] = entry
    return found
