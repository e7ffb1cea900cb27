"""`warren users …`: who may use the console."""

import sys
from getpass import getpass
from typing import Any

import click

from scheduler.user_commands import UserCommands
from sql import apps
from sql import users as users_table
from sql.models import User
from sql.users import Role
from warren.access import open_database
from warren.acting import operator
from warren.errors import CommandError
from warren.options import as_json, examples, takes_settings
from warren.settings import Settings
from warren.terminal import print_json, print_table

HEADERS = ("name", "role", "apps", "scripts", "state")
_ROLES = {role.name.lower(): role for role in (Role.ADMINISTRATOR, Role.OPERATOR, Role.VIEWER)}


@click.group()
def users() -> None:
    """Add users of the console, change their passwords, disable and enable them."""


@users.command(
    epilog=examples(
        "warren users add alice --role administrator",
        "warren users add bob --role operator --apps reports,mails --glue",
    )
)
@click.argument("name")
@click.option("--role", type=click.Choice(list(_ROLES)), required=True, help="What they may do.")
@click.option("--apps", "app_list", default="", help="With which apps; commas between.")
@click.option("--glue", is_flag=True, help="An operator may also change scripts.")
@takes_settings("database_url")
def add(settings: Settings, name: str, role: str, app_list: str, glue: bool) -> None:
    """Add a user; the password is asked for, or read from standard input."""
    named = tuple(part.strip() for part in app_list.split(",") if part.strip())
    with open_database(settings, for_writing=True) as database:
        UserCommands(database, who=operator()).add(
            name, read_password(), role=_ROLES[role], app_names=named, may_edit_glue=glue
        )
    print(f"added {role} {name}")


@users.command(epilog=examples("warren users passwd alice", "warren users passwd alice < file"))
@click.argument("name")
@takes_settings("database_url")
def passwd(settings: Settings, name: str) -> None:
    """Give a user another password, and end their sessions."""
    with open_database(settings, for_writing=True) as database:
        database.read(lambda session: users_table.find(session, name))
        UserCommands(database, who=operator()).set_password(name, read_password())
    print(f"changed the password of {name}")


@users.command(epilog=examples("warren users disable bob"))
@click.argument("name")
@takes_settings("database_url")
def disable(settings: Settings, name: str) -> None:
    """Let a user sign in no longer, and end their sessions."""
    with open_database(settings, for_writing=True) as database:
        UserCommands(database, who=operator()).disable(name)
    print(f"disabled {name}")


@users.command(epilog=examples("warren users enable bob"))
@click.argument("name")
@takes_settings("database_url")
def enable(settings: Settings, name: str) -> None:
    """Let a disabled user sign in again."""
    with open_database(settings, for_writing=True) as database:
        UserCommands(database, who=operator()).enable(name)
    print(f"enabled {name}")


@users.command("list", epilog=examples("warren users list", "warren users list --json"))
@as_json
@takes_settings("database_url")
def list_users(settings: Settings, as_json: bool) -> None:
    """Show the users and what they may do."""
    with open_database(settings) as database:
        found, names = database.read(
            lambda session: (
                users_table.listing(session),
                {app_id: name for name, app_id in apps.ids_by_name(session).items()},
            )
        )
    shown = [_json(user, names) for user in found]
    if as_json:
        for user in shown:
            print_json(user)
        return
    lines = [
        (
            user["name"],
            user["role"],
            "all" if user["role"] == "administrator" else ", ".join(user["apps"]),
            "yes" if user["may_edit_scripts"] else "",
            "disabled" if user["disabled"] else "",
        )
        for user in shown
    ]
    print_table(HEADERS, lines, nothing="no user; add one: warren users add")


def read_password() -> str:
    """Return the password: asked for twice on a terminal, else one line of standard input.

    Raises:
        CommandError: the two differ, or there is no line.

    """
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        if not line:
            raise CommandError("expected a password on standard input, got nothing")
        return line.rstrip("\r\n")
    password = getpass("Password: ")
    if getpass("Again: ") != password:
        raise CommandError("the two passwords differ")
    return password


def _json(user: User, app_names: dict[int, str]) -> dict[str, Any]:
    rights = users_table.rights_of(user)
    return {
        "name": user.username,
        "role": rights.role.name.lower(),
        "apps": [app_names[app_id] for app_id in rights.app_ids if app_id in app_names],
        "may_edit_scripts": rights.may_edit_glue,
        "disabled": bool(user.is_disabled),
    }
