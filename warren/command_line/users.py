"""`warren users …`: who may use the console."""

import sys
from getpass import getpass

import click

from warren.command_options import as_json, examples, takes_settings
from warren.database_access import open_database
from warren.errors import CommandError
from warren.local_client import open_client
from warren.scheduler.views.account_view import user_view
from warren.settings.settings import Settings
from warren.sql.accounts import identities
from warren.sql.accounts import users as users_table
from warren.sql.accounts.users import Rights, Role
from warren.sql.registry import apps
from warren.terminal.output import print_struct, print_table

HEADERS = ("name", "role", "apps", "scripts", "state", "single sign-on")
_ROLES = {role.name.lower(): role for role in (Role.ADMINISTRATOR, Role.OPERATOR, Role.VIEWER)}


@click.group()
def users() -> None:
    """Add users of the console, change their passwords, disable and enable them."""


@users.command(
    epilog=examples(
        "warren users add alice --role administrator",
        "warren users add bob --role operator --apps reports,mails --glue",
        "warren users add ci --role operator --apps reports --no-password",
    )
)
@click.argument("name")
@click.option("--role", type=click.Choice(list(_ROLES)), required=True, help="The user's role.")
@click.option("--apps", "app_list", default="", help="The user's apps, separated by commas.")
@click.option("--glue", is_flag=True, help="Let an operator change scripts too.")
@click.option("--no-password", is_flag=True, help="For a program that uses tokens only.")
@takes_settings("database_url")
def add(  # noqa: PLR0917 - click passes its parameters by name
    settings: Settings, name: str, role: str, app_list: str, glue: bool, no_password: bool
) -> None:
    """Add a user; asks for the password, or reads it from standard input."""
    named = tuple(part.strip() for part in app_list.split(",") if part.strip())
    with open_client(settings) as client:
        password = None if no_password else read_password()
        app_ids = tuple(client.ids.app(app) for app in named)
        rights = Rights(role=_ROLES[role], app_ids=app_ids, may_edit_glue=glue)
        client.commands.users.add(name, password, rights)
    print(f"added {role} {name}")


@users.command(epilog=examples("warren users passwd alice", "warren users passwd alice < file"))
@click.argument("name")
@takes_settings("database_url")
def passwd(settings: Settings, name: str) -> None:
    """Set a user's password, end their sessions and revoke their API tokens."""
    with open_client(settings) as client:
        client.commands.users.set_password(client.ids.user(name), read_password())
    print(f"changed the password of {name}")


@users.command(epilog=examples("warren users disable bob"))
@click.argument("name")
@takes_settings("database_url")
def disable(settings: Settings, name: str) -> None:
    """Disable a user, end their sessions and revoke their API tokens."""
    with open_client(settings) as client:
        client.commands.users.disable(client.ids.user(name))
    print(f"disabled {name}")


@users.command(epilog=examples("warren users enable bob"))
@click.argument("name")
@takes_settings("database_url")
def enable(settings: Settings, name: str) -> None:
    """Enable a disabled user."""
    with open_client(settings) as client:
        client.commands.users.enable(client.ids.user(name))
    print(f"enabled {name}")


@users.command("list", epilog=examples("warren users list", "warren users list --json"))
@as_json
@takes_settings("database_url")
def list_users(settings: Settings, as_json: bool) -> None:
    """Show the users and what they may do."""
    with open_database(settings) as database:
        rows, names = database.read(
            lambda session: (
                users_table.listing(session),
                {app_id: name for name, app_id in apps.ids_by_name(session).items()},
            )
        )
        user_ids = [user.id for user in rows]
        linked = database.read(lambda session: identities.subjects(session, user_ids))
    shown = [user_view(user, names, linked) for user in rows]
    if as_json:
        for user in shown:
            print_struct(user)
        return
    lines = [
        (
            user.name,
            user.role,
            "all" if user.role == "administrator" else ", ".join(user.apps),
            "yes" if user.may_edit_scripts else "",
            "disabled" if user.disabled else "",
            user.identity,
        )
        for user in shown
    ]
    print_table(HEADERS, lines, nothing="no users; add one: warren users add")


def read_password() -> str:
    """Return the password: typed twice on a terminal, else a line from standard input.

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
