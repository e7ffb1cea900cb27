"""`warren check`: checks whether a process could start here."""

import sys
from collections.abc import Callable

import click

from warren.broker.errors import BrokerError
from warren.checks import host_checks
from warren.command_options import examples, takes_settings
from warren.errors import WarrenError
from warren.settings.settings import Settings
from warren.sql.errors import SqlError
from warren.views.terminal import visible

FOUND_PROBLEMS = 1
EXECUTOR, API, GATEWAY, COMMANDS = "executor", "api", "gateway", "commands"

#: The checks for each kind of process.
NEEDED = {
    "scheduler": ("settings", "database", "broker", "secret", "routes", "mail server"),
    EXECUTOR: (
        *("settings", "broker", "app secret", "log folder", "state folder", "job user"),
        "executor",
    ),
    "console": ("settings", "database", "broker", "secret"),
    API: ("settings", "database", "broker", "secret"),
    GATEWAY: ("settings", "broker", "gateway", "log folder", "state folder"),
    COMMANDS: ("settings", COMMANDS),
}
#: Kinds that may be installed without SQLAlchemy.
_WITHOUT_DATABASE = {EXECUTOR, GATEWAY, COMMANDS}
#: The checks without `--for`.
EVERYTHING = (
    *("settings", "database", "broker", "secret", "mail server", "routes"),
    *("log folder", "state folder", "job user", COMMANDS),
)

Checks = dict[str, Callable[[], str]]


@click.command(epilog=examples("warren check", "warren check --for executor"))
@click.option(
    "--for",
    "kind",
    type=click.Choice(list(NEEDED)),
    help="Check only what this kind of process needs, or where short commands go.",
)
@click.option(
    "--alive",
    is_flag=True,
    help="Only check that a scheduler, executor, console or API is alive on this host.",
)
@takes_settings("database_url", "broker_url", "log_dir", "state_dir")
def check(settings: Settings, kind: str | None, alive: bool) -> int:
    """Check settings, database, broker, routes, folders and secret; exit with 1 on a problem."""
    if alive and kind in (GATEWAY, COMMANDS):
        raise click.UsageError(
            f"expected --alive for scheduler, executor, console or api, got: {kind}"
        )
    if alive:
        checks = _alive(settings, kind)
    else:
        checks_of = _of_host if kind in _WITHOUT_DATABASE else _of_all
        known = checks_of(settings, inside_up=kind is None)
        checks = {name: known[name] for name in NEEDED.get(kind or "", EVERYTHING)}
    outcomes = [_run_check(name, item) for name, item in checks.items()]
    return 0 if all(outcomes) else FOUND_PROBLEMS


def _of_host(settings: Settings, *, inside_up: bool) -> Checks:
    return {
        "settings": lambda: "valid",
        "broker": lambda: host_checks.check_broker(settings, inside_up=inside_up),
        "secret": lambda: host_checks.check_secret(settings),
        "app secret": lambda: host_checks.check_app_secret(settings),
        "gateway": lambda: host_checks.check_gateway(settings),
        "log folder": lambda: host_checks.check_folder(settings.log_dir),
        "state folder": lambda: host_checks.check_folder(settings.state_dir),
        "job user": lambda: host_checks.check_job_user(settings),
        EXECUTOR: lambda: host_checks.check_executors(settings, must_run=False),
        COMMANDS: lambda: host_checks.check_commands(settings),
    }


def _of_all(settings: Settings, *, inside_up: bool) -> Checks:
    # Imported here, as SQLAlchemy is missing where only an executor is installed.
    from warren.checks import server_checks  # noqa: PLC0415

    return _of_host(settings, inside_up=inside_up) | {
        "database": lambda: server_checks.check_database(settings),
        "secret": lambda: server_checks.check_secret(settings),
        "mail server": lambda: server_checks.check_mail_server(settings),
        "routes": server_checks.check_routes,
    }


def _alive(settings: Settings, kind: str | None) -> Checks:
    if kind == EXECUTOR:
        return {EXECUTOR: lambda: host_checks.check_executors(settings, must_run=True)}
    from warren.checks import server_checks  # noqa: PLC0415
    from warren.sql.registry import presence  # noqa: PLC0415 - see above

    if kind == API:
        return {API: lambda: server_checks.check_api(settings)}
    app = presence.CONSOLE if kind == "console" else presence.SCHEDULER
    return {app: lambda: server_checks.check_alive(settings, app)}


def _run_check(name: str, test: Callable[[], str]) -> bool:
    try:
        print(f"ok     {name}: {test()}")
    except WarrenError as error:
        print(visible(f"error: {name}: {'; '.join(error.lines)}"), file=sys.stderr)
    except (SqlError, BrokerError, OSError, ValueError) as error:
        print(visible(f"error: {name}: {' '.join(str(error).split())}"), file=sys.stderr)
    else:
        return True
    return False
