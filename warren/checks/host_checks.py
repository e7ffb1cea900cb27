"""Checks of what every process needs: broker, secrets, folders, the jobs' user."""

import os
from pathlib import Path

from warren.errands.by_api import ApiSender
from warren.errands.sending import way_in_words, way_of
from warren.errors import CommandError
from warren.executor.state_folder import STALE_SECONDS, Signs, running
from warren.settings.secret_files import BROKER, in_plain_text
from warren.settings.setting_rules import MEMORY_BROKER
from warren.settings.settings import (
    DATABASE_FILE,
    MEMORY_BROKER_REFUSED,
    Settings,
    needed_secret,
    needed_services,
)
from warren.wiring.executor import make_confinement
from warren.wiring.processes import connect_broker


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
    with ApiSender(way.api, settings.timezone) as sender:
        names = sender.who_am_i()
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
