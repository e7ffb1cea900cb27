"""`warren sso …`: the rules of single sign-on, and the identities of users."""

from collections.abc import Mapping
from pathlib import Path

import click

from warren.command_options import examples, takes_settings
from warren.errors import CommandError, InvalidEntry, JobFileError
from warren.jobfile.rule_file import FiledRule, read_rules, write_rules
from warren.jobfile.sources import Source, read_sources
from warren.local_client import LocalClient, open_client
from warren.scheduler.commands.identity_commands import NOTHING, RulesChange
from warren.scheduler.problems import lookup_problem
from warren.settings.settings import Settings
from warren.sql.accounts.users import Rights, Role
from warren.sql.errors import NotFound
from warren.sql.registry import apps
from warren.terminal.output import print_line


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
