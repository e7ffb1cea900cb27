"""`warren sso …`: the rules of single sign-on, and the identities of users.

A file of rules says what the members of each group may do.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import click
import yaml

from warren.command_options import examples, takes_settings
from warren.errors import CommandError, InvalidEntry, JobFileError, Line
from warren.jobfile.export import scalar
from warren.jobfile.sources import Source, read_sources
from warren.jobfile.yaml_reader import Entry, boolean, entries, items, line_of, text, tree_of
from warren.local_client import LocalClient, open_client
from warren.resources.spelling import did_you_mean
from warren.scheduler.commands.identity_commands import NOTHING, RulesChange
from warren.scheduler.problems import lookup_problem
from warren.settings.settings import Settings
from warren.sql.accounts.users import Rights, Role
from warren.sql.errors import NotFound
from warren.sql.registry import apps
from warren.terminal.output import print_line

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


@click.group()
def sso() -> None:
    """Apply and export the rules of single sign-on, link and unlink users."""


@sso.command(
    epilog=examples(
        "warren sso apply rules.yaml --dry-run",
        "warren sso apply rules.yaml",
        "warren sso apply rules.yaml --yes",
    )
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@takes_settings("database_url")
def apply(settings: Settings, file: Path, dry_run: bool, yes: bool) -> int:
    """Make the rules match the FILE: what the members of each group of the provider may do.

    Rules that are not in the FILE are removed. Before it asks, it lists the users whose rights
    change. FILE - is standard input.
    """
    [source] = read_sources([file])
    with open_client(settings) as client:
        rules = _rules(client, source)
        seen = client.commands.rules.foresee(rules)
        names = {app_id: name for name, app_id in client.database.read(apps.ids_by_name).items()}
        for line in _shown(seen, names):
            print_line(line)
        if dry_run or not (seen.changed_groups or seen.users):
            return 0
        if not yes and not click.confirm("Apply this?", default=False, err=True):
            return 1
        client.commands.rules.apply(rules, digest=seen.digest)
    print("applied")
    return 0


@sso.command(epilog=examples("warren sso export > rules.yaml"))
@takes_settings("database_url")
def export(settings: Settings) -> None:
    """Print the rules as a file for `warren sso apply`."""
    with open_client(settings) as client:
        names = {app_id: name for name, app_id in client.database.read(apps.ids_by_name).items()}
        rules = client.commands.rules.present()
    filed = [
        FiledRule(
            group=group,
            role=rights.role,
            apps=tuple(sorted(names[app_id] for app_id in rights.app_ids if app_id in names)),
            scripts=rights.may_edit_glue,
        )
        for group, rights in rules.items()
    ]
    for line in write_rules(filed):
        print_line(line)


@sso.command(epilog=examples("warren sso link olga 8a1c6c2e-3b0f-4d1e-9a55-0c7b1f6f2d11"))
@click.argument("name")
@click.argument("subject")
@takes_settings("database_url")
def link(settings: Settings, name: str, subject: str) -> None:
    """Link a user to an identity: the claim `sub` that the provider of WARREN_OIDC_ISSUER sends.

    The user's sessions end, the password is no longer accepted, and from the next sign-in on, the
    rules decide the rights.
    """
    if settings.oidc_issuer is None:
        raise CommandError("WARREN_OIDC_ISSUER: expected the URL of the provider, it is not set")
    with open_client(settings) as client:
        client.commands.identities.link(client.ids.user(name), settings.oidc_issuer, subject)
    print(f"linked {name}")


@sso.command(epilog=examples("warren sso unlink olga"))
@click.argument("name")
@takes_settings("database_url")
def unlink(settings: Settings, name: str) -> None:
    """Make a linked user local again: sessions end, tokens are revoked, rights stay as they are."""
    with open_client(settings) as client:
        client.commands.identities.unlink(client.ids.user(name))
    print(f"unlinked {name}")


def _rules(client: LocalClient, source: Source) -> dict[str, Rights]:
    """Return the rules of a file.

    Raises:
        JobFileError: it is not valid, or names an app that does not exist.

    """
    rules, problems = {}, []
    for rule in read_rules(source.text, source.name):
        try:
            app_ids = tuple(client.ids.app(app) for app in rule.apps)
        except NotFound as error:
            problems.append(InvalidEntry(rule.line, str(lookup_problem(error))))
            continue
        glue = rule.scripts or rule.role is Role.ADMINISTRATOR
        rules[rule.group] = Rights(role=rule.role, app_ids=app_ids, may_edit_glue=glue)
    if problems:
        raise JobFileError([str(problem) for problem in problems], problems)
    return rules


def _shown(change: RulesChange, names: Mapping[int, str]) -> list[str]:
    """Return the lines of a change: rules, then users."""
    lines = []
    for group in change.changed_groups:
        before, after = change.before.get(group), change.after.get(group)
        if before is None and after is not None:
            lines.append(f"new      {group}: {_words(after, names)}")
        elif after is None and before is not None:
            lines.append(f"gone     {group}: {_words(before, names)}")
        elif before is not None and after is not None:
            lines.append(f"changed  {group}: {_words(before, names)} -> {_words(after, names)}")
    lines += [
        f"user     {user.name}: {_words(user.before, names)} -> {_words(user.after, names)}"
        for user in change.users
    ]
    if not lines:
        return ["nothing changes"]
    return lines if change.users else [*lines, "no user's rights change"]


def _words(rights: Rights, names: Mapping[int, str]) -> str:
    if rights == NOTHING:
        return "no rights"
    if rights.role is Role.ADMINISTRATOR:
        return "administrator"
    listed = ", ".join(sorted(names.get(app_id, str(app_id)) for app_id in rights.app_ids))
    words = f"{rights.role.name.lower()} of {listed}"
    return f"{words}, with scripts" if rights.may_edit_glue else words
