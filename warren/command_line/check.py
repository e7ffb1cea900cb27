"""`warren check`: checks whether a process could start here.

A check returns a line for the terminal, or raises what is wrong. Here are those of what every
process needs: broker, secrets, folders, the jobs' user; `server_checks` has the others.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from warren.broker.errors import BrokerError
from warren.broker.log_folder import MARK, is_store, shared_folder
from warren.command_options import examples, takes_settings
from warren.connect import way_in_words, way_of, who_am_i
from warren.errors import CommandError, WarrenError
from warren.executor.state_folder import STALE_SECONDS, Signs, running
from warren.settings.secret_files import BROKER, in_plain_text
from warren.settings.setting_rules import EVERYBODY, MEMORY_BROKER
from warren.settings.settings import (
    DATABASE_FILE,
    MEMORY_BROKER_REFUSED,
    Settings,
    needed_secret,
    needed_services,
)
from warren.sql.errors import SqlError
from warren.terminal.output import visible
from warren.wiring.executor import make_confinement
from warren.wiring.processes import connect_broker

FOUND_PROBLEMS = 1
EXECUTOR, API, GATEWAY, COMMANDS = "executor", "api", "gateway", "commands"
#: Checked only where one is set.
LOG_STORE, SIGN_ON = "log store", "single sign-on"

#: The checks for each kind of process.
NEEDED = {
    "scheduler": ("settings", "database", "broker", "secret", "routes", "mail server", LOG_STORE),
    EXECUTOR: (
        *("settings", "broker", "app secret", "log folder", "state folder", LOG_STORE, "job user"),
        "executor",
    ),
    "console": ("settings", "database", "broker", "secret", SIGN_ON, LOG_STORE),
    API: ("settings", "database", "broker", "secret", SIGN_ON, LOG_STORE),
    GATEWAY: ("settings", "broker", "gateway", "log folder", "state folder", LOG_STORE),
    COMMANDS: ("settings", COMMANDS),
}
#: Kinds that may be installed without SQLAlchemy.
_WITHOUT_DATABASE = {EXECUTOR, GATEWAY, COMMANDS}
#: The checks without `--for`.
EVERYTHING = (
    *("settings", "database", "broker", "secret", SIGN_ON, "mail server", "routes"),
    *("log folder", "state folder", LOG_STORE, "job user", COMMANDS),
)

Checks = dict[str, Callable[[], str]]


def check_broker(settings: Settings, *, inside_up: bool = True) -> str:
    """Return the state of the broker, or raise what is wrong.

    `inside_up`: whether it may be the broker inside `warren up`, which no other process can reach.
    """
    if settings.broker_url == MEMORY_BROKER and not inside_up:
        raise ValueError(MEMORY_BROKER_REFUSED)
    if settings.broker_url == MEMORY_BROKER or (inside_up and is_embedded(settings)):
        return "in memory, inside `warren up`"
    if settings.broker_url is None:
        raise ValueError("WARREN_BROKER_URL is not set")
    transport = connect_broker(settings)
    try:
        transport.check()
    finally:
        transport.close()
    return "reachable, login accepted" + in_plain_text(settings, BROKER)


def check_commands(settings: Settings) -> str:
    """Return where short commands go and why, or raise that they cannot go anywhere."""
    way = way_of(settings)
    if way.api is None:
        settings.needed_database_url()
        return way_in_words(way)
    names = who_am_i(way.api)
    return f"{way_in_words(way)}, with the token {names.token} of {names.owner}"


def check_secret(settings: Settings) -> str:
    """Return the length of the secret, or raise what is wrong."""
    if is_embedded(settings):
        return "created by `warren up`"
    return f"{len(needed_secret(settings))} characters"


def check_app_secret(settings: Settings) -> str:
    """Return where an executor's key comes from, or raise what is wrong."""
    if settings.app_secret is not None:
        return f"{len(settings.app_secret)} characters"
    if settings.secret is None:
        needed_services(settings, database=False)
    return "derived from WARREN_SECRET, which executors should not have: warren secrets app NAME"


def check_gateway(settings: Settings) -> str:
    """Return which apps a gateway would serve, or raise what is missing."""
    from warren.wiring.gateway import keys_by_app, needed  # noqa: PLC0415 - it needs the extra

    tokens, _ = needed(settings)
    return f"serves {', '.join(sorted(keys_by_app(settings, tokens)))}"


def check_folder(path: Path) -> str:
    """Return a line saying that a folder, or its nearest existing parent, is writable, or raise."""
    existing = path.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise NotADirectoryError(f"{existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(f"{existing} is not writable")
    return f"{path} is writable"


def check_log_folder(settings: Settings) -> str:
    """Return whether an executor can store logs in the shared folder, or raise what is wrong."""
    folder = shared_folder(settings.log_store or "")
    if folder is None:
        return "in S3, which schedulers tell executors; set it for them, not here"
    if not is_store(folder):
        raise FileNotFoundError(
            f"{folder} has no {MARK}: it is not mounted, or no scheduler has used it yet"
        )
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    if not any(os.access(place, os.W_OK | os.X_OK) for place in places):
        raise PermissionError(f"neither {folder} nor an app's folder there is writable")
    return f"{folder} is there and writable"


def check_job_user(settings: Settings) -> str:
    """Return the user that jobs run as, or raise why they cannot."""
    user = make_confinement(settings).user
    if user is not None:
        return f"jobs run as {user.name}"
    return "jobs run as root: set WARREN_JOB_USER" if os.geteuid() == 0 else "jobs run as this user"


def check_executors(settings: Settings, *, must_run: bool) -> str:
    """Return the state of the executors that use the state folder, or raise what is wrong.

    `must_run`: whether it is an error if none is running.
    """
    running_now = list(running(settings.state_dir))
    problems = [
        text for signs, age_seconds in running_now if (text := _problem(signs, age_seconds))
    ]
    if not running_now and must_run:
        problems = [f"none runs with the state folder {settings.state_dir}"]
    if problems:
        raise CommandError("; ".join(problems))
    states = (
        f"{signs.address} {'drains' if signs.is_draining else 'takes runs'}"
        for signs, _ in running_now
    )
    return ", ".join(states) or "none runs here"


def _problem(signs: Signs, age_seconds: float) -> str:
    """Return why an executor takes no runs; empty if it takes some, or is ending."""
    if age_seconds > STALE_SECONDS:
        silent = f"has shown no sign of life for {age_seconds:.0f} s: it is stopped or hangs"
        return f"{signs.address} (process {signs.pid}) {silent}"
    if not signs.was_welcomed:
        return f"{signs.address} has not been welcomed by a scheduler; its log says why"
    if signs.obstacle and not signs.is_draining:
        return f"{signs.address} starts no runs: {signs.obstacle}"
    return ""


def is_embedded(settings: Settings) -> bool:
    """Return whether `warren up` provides database and broker in this folder."""
    unset = settings.database_url is None and settings.broker_url is None
    return unset and DATABASE_FILE.exists()


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
        names, unused = NEEDED.get(kind or "", EVERYTHING), _unused(settings)
        checks = {name: known[name] for name in names if name not in unused}
    outcomes = [_run_check(name, item) for name, item in checks.items()]
    return 0 if all(outcomes) else FOUND_PROBLEMS


def _unused(settings: Settings) -> set[str]:
    """Return the checks of what is not set up, which need no line."""
    has_sign_on = settings.oidc_issuer is not None or settings.local_sign_in != EVERYBODY
    return {
        name
        for name, is_used in ((LOG_STORE, settings.log_store is not None), (SIGN_ON, has_sign_on))
        if not is_used
    }


def _of_host(settings: Settings, *, inside_up: bool) -> Checks:
    return {
        "settings": lambda: "valid",
        "broker": lambda: check_broker(settings, inside_up=inside_up),
        "secret": lambda: check_secret(settings),
        "app secret": lambda: check_app_secret(settings),
        "gateway": lambda: check_gateway(settings),
        "log folder": lambda: check_folder(settings.log_dir),
        "state folder": lambda: check_folder(settings.state_dir),
        LOG_STORE: lambda: check_log_folder(settings),
        "job user": lambda: check_job_user(settings),
        EXECUTOR: lambda: check_executors(settings, must_run=False),
        COMMANDS: lambda: check_commands(settings),
    }


def _of_all(settings: Settings, *, inside_up: bool) -> Checks:
    # Imported here, as SQLAlchemy is missing where only an executor is installed.
    from warren.command_line import server_checks  # noqa: PLC0415

    def secret() -> str:
        words = check_secret(settings)
        return words if is_embedded(settings) else server_checks.check_secret(settings, words)

    def broker() -> str:
        words = check_broker(settings, inside_up=inside_up)
        is_apart = settings.broker_url not in (None, MEMORY_BROKER)
        return words + server_checks.look_at_queues(settings) if is_apart else words

    return _of_host(settings, inside_up=inside_up) | {
        "broker": broker,
        "database": lambda: server_checks.check_database(settings),
        "secret": secret,
        SIGN_ON: lambda: server_checks.check_single_sign_on(settings),
        "mail server": lambda: server_checks.check_mail_server(settings),
        "routes": server_checks.check_routes,
        LOG_STORE: lambda: server_checks.check_log_store(settings),
    }


def _alive(settings: Settings, kind: str | None) -> Checks:
    if kind == EXECUTOR:
        return {EXECUTOR: lambda: check_executors(settings, must_run=True)}
    from warren.command_line import server_checks  # noqa: PLC0415
    from warren.sql.registry import presence  # noqa: PLC0415 - see above

    if kind == API:
        return {API: lambda: server_checks.check_api(settings)}
    app = presence.CONSOLE if kind == "console" else presence.SCHEDULER
    return {app: lambda: server_checks.check_alive(settings, app)}


def _run_check(name: str, test: Callable[[], str]) -> bool:
    try:
        found = test()
    except WarrenError as error:
        print(visible(f"error: {name}: {'; '.join(error.lines)}"), file=sys.stderr)
        return False
    except (SqlError, BrokerError, OSError, ValueError) as error:
        print(visible(f"error: {name}: {' '.join(str(error).split())}"), file=sys.stderr)
        return False
    print(f"ok     {name}: {found}")
    return True
