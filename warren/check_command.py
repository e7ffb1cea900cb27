"""`warren check`: whether a scheduler and an executor could start here."""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import click

from broker.errors import BrokerError
from scheduler.alarms.mail_server import MailServer
from sql import presence, schema
from sql.engine import Database
from sql.errors import SqlError
from sql.liveness import state
from warren.access import open_database
from warren.added_routes import look_for_routes
from warren.errors import WarrenError
from warren.options import examples, takes_settings
from warren.registry_view import registrations
from warren.setting_rules import MEMORY_BROKER
from warren.settings import DATABASE_FILE, Settings, needed_secret
from warren.wiring import connect_broker

FOUND_PROBLEMS = 1

#: What each kind of process needs; without a kind everything is checked.
NEEDED = {
    "scheduler": ("settings", "database", "broker", "secret", "routes", "mail server"),
    "executor": ("settings", "broker", "secret", "log folder", "state folder"),
    "console": ("settings", "database", "broker", "secret"),
}


@click.command(epilog=examples("warren check", "warren check --for executor"))
@click.option(
    "--for", "kind", type=click.Choice(list(NEEDED)), help="Only what this kind of process needs."
)
@click.option(
    "--alive", is_flag=True, help="Only whether a scheduler, or the console, of this host lives."
)
@takes_settings("database_url", "broker_url", "log_dir", "state_dir")
def check(settings: Settings, kind: str | None, alive: bool) -> int:
    """Check settings, database, broker, routes, folders and secret; status 1 when one is wrong."""
    checks: dict[str, Callable[[], str]] = {
        "settings": lambda: "valid",
        "database": lambda: check_database(settings),
        "broker": lambda: check_broker(settings),
        "secret": lambda: check_secret(settings),
        "mail server": lambda: check_mail_server(settings),
        "routes": check_routes,
        "log folder": lambda: check_folder(settings.log_dir),
        "state folder": lambda: check_folder(settings.state_dir),
    }
    if kind is not None:
        checks = {name: checks[name] for name in NEEDED[kind]}
    if alive:
        key = presence.CONSOLE if kind == "console" else presence.SCHEDULER
        checks = {key: lambda: check_alive(settings, key)}
    outcomes = [_say(name, one) for name, one in checks.items()]
    return 0 if all(outcomes) else FOUND_PROBLEMS


def check_database(settings: Settings) -> str:
    """Return which database answers with which schema, or raise what is wrong."""
    with open_database(settings, for_writing=True) as database:
        return f"{_shown(database)}, schema {schema.newest_version()}"


def check_broker(settings: Settings) -> str:
    """Return where a broker answers, or raise what is wrong."""
    if settings.broker_url == MEMORY_BROKER or is_embedded(settings):
        return "in memory, inside `warren up`"
    if settings.broker_url is None:
        raise ValueError("WARREN_BROKER_URL is not set")
    transport = connect_broker(settings)
    try:
        transport.check()
    finally:
        transport.close()
    return "it answers and lets us in"


def check_secret(settings: Settings) -> str:
    """Return that there is a secret, or raise what is wrong."""
    if is_embedded(settings):
        return "`warren up` makes its own"
    return f"{len(needed_secret(settings))} characters"


def check_mail_server(settings: Settings) -> str:
    """Return that the mail server lets us in, or that there is none, or raise what is wrong."""
    if settings.smtp_url is None:
        return "none is set, no e-mail is sent"
    from scheduler.alarms.mail import Mailer  # noqa: PLC0415 - smtplib is slow to import

    server = MailServer.parse(settings.smtp_url)
    Mailer(server, domain="check").check()
    return f"{server.host} answers and lets us in"


def check_routes() -> str:
    """Return which routes there are, or raise what is wrong with those that are installed."""
    routers, faults = look_for_routes()
    if faults:
        raise ValueError("; ".join(f"{point.name} ({point.value}): {why}" for point, why in faults))
    return " and ".join(["XXL-JOB's ten", ", ".join(routers)]) if routers else "XXL-JOB's ten"


def check_alive(settings: Settings, key: str) -> str:
    """Return the name of a living scheduler or console of this host, or raise."""
    host = socket.gethostname()
    with open_database(settings) as database:
        rows, now_ms = registrations(database, presence.ADMIN, key)
    living = [row.registry_value for row in rows if state(row, now_ms) != "silent"]
    here = next((name for name in living if name.startswith(f"{host[:48]}-")), None)
    if here is None:
        raise ValueError(f"no {key} of {host} lives")
    return f"{here} lives"


def check_folder(path: Path) -> str:
    """Return that a folder, or the nearest one above it, can be written to, or raise."""
    there = path.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{there} cannot be written to")
    return f"{path} can be written to"


def is_embedded(settings: Settings) -> bool:
    """Return whether everything is left to `warren up` in this folder."""
    unset = settings.database_url is None and settings.broker_url is None
    return unset and DATABASE_FILE.exists()


def _say(name: str, one: Callable[[], str]) -> bool:
    try:
        print(f"ok     {name}: {one()}")
    except WarrenError as error:
        print(f"error: {name}: {'; '.join(error.lines)}", file=sys.stderr)
    except (SqlError, BrokerError, OSError, ValueError) as error:
        print(f"error: {name}: {' '.join(str(error).split())}", file=sys.stderr)
    else:
        return True
    return False


def _shown(database: Database) -> str:
    return database.url.render_as_string(hide_password=True)
