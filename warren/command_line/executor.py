"""`warren executor` and `warren gateway`: each runs until it is stopped."""

import contextlib
import itertools
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import click
import structlog

from warren.broker.topology import check_address, check_app
from warren.command_options import examples, takes_settings
from warren.errors import CommandError
from warren.executor.container import raise_file_limit
from warren.executor.fork_server.confinement import keep_settings_secret
from warren.executor.handlers.handler_registry import HandlersError
from warren.executor.state_folder import StateFolder, free_folders
from warren.settings.settings import Settings, app_keys, needed_services
from warren.wiring.executor import make_executor, make_log_cleaner, make_run_logs, make_slots
from warren.wiring.processes import (
    ServiceManager,
    Signals,
    connect_broker,
    log_thread_failures,
    serve,
)

log = structlog.get_logger()

#: How many default addresses to try if the schedulers refuse each.
_TRIES = 20


@click.command(
    epilog=examples(
        "warren executor --app reports handlers.py",
        "warren executor --app reports --address reports-7 company.jobs company.mails",
    )
)
@click.option("--app", required=True, help="The app whose jobs it runs.")
@click.option(
    "--address", help="Its unique name. Default: <hostname>-<app>, or the next free -2, -3, …"
)
@click.argument("sources", metavar="MODULE_OR_FILE…", nargs=-1, required=True)
@takes_settings(
    "broker_url",
    "log_dir",
    "state_dir",
    "slots",
    "grace_seconds",
    "drain_seconds",
    "cpu_limit",
    "memory_limit",
    "glue",
    "log_level",
)
def executor(settings: Settings, app: str, address: str | None, sources: tuple[str, ...]) -> int:
    """Run an executor with the handlers in the given modules and files.

    Each job runs in processes of its own, one run after another. A process ends after 90 s without
    a run, or after 1,000 runs.

    SIGTERM or Ctrl-C drains it: running jobs get the drain time to finish, then they are stopped.
    A second signal stops them at once.
    """
    check_app(app)
    if address is not None:
        check_address(address)
    needed_services(settings, database=False)
    manager = ServiceManager.from_environment()
    keep_settings_secret()
    raise_file_limit()
    log_thread_failures()
    if os.geteuid() == 0 and not settings.job_user:
        log.warning("jobs_unconfined", user="root", setting="WARREN_JOB_USER")
    with Signals() as signals, contextlib.ExitStack() as held:
        transport = connect_broker(settings)
        held.callback(transport.close)
        transport.check()
        folders = state_folders(settings.state_dir, app, address)
        cleaner = make_log_cleaner(settings)
        cleaner.start()
        held.callback(cleaner.stop)
        keys = app_keys(settings, app)
        for folder in folders:
            process = make_executor(
                settings,
                app=app,
                address=folder.address,
                transport=transport,
                keys=keys,
                slots=make_slots(settings, sources, make_run_logs(settings), signals=signals),
                folder=folder,
            )
            try:
                process.start(manager.beat)
            except HandlersError:
                if signals.count:
                    return 0
                raise
            manager.ready()
            serve(process, signals)
            if not process.was_refused or signals.count:
                break
    if process.failure:
        raise CommandError(process.failure)
    return process.exit_status


def state_folders(state_dir: Path, app: str, address: str | None) -> Iterator[StateFolder]:
    """Yield the locked state folder of the address; without one, of each default address.

    The next default address is needed if the schedulers refuse one because an executor with another
    state folder uses it on this host.
    """
    if address is not None:
        return iter([StateFolder(state_dir, address)])
    return itertools.islice(free_folders(state_dir, default_address(app)), _TRIES)


def default_address(app: str) -> str:
    """Return `<hostname>-<app>` in characters allowed in addresses, short enough for a suffix."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).strip("-.") or "host"
    return f"{host[:56]}-{app}"


@click.command(
    epilog=examples(
        "warren gateway --gateway-allow 10.2.0.0/16",
        "warren gateway --gateway-host 10.2.0.9 --gateway-allow 10.2.0.0/16,jobs.internal:9999",
    )
)
@takes_settings(
    "broker_url",
    "gateway_allow",
    "gateway_host",
    "gateway_port",
    "gateway_slots",
    "log_dir",
    "state_dir",
    "grace_seconds",
    "drain_seconds",
    "glue",
    "log_level",
)
def gateway(settings: Settings) -> int:
    """Serve executors of XXL-JOB that register here as if they were Warren's own.

    On SIGTERM or Ctrl-C, runs get the drain time to finish; the next start takes over the rest. A
    second signal does not wait.
    """
    from warren.wiring.gateway import make_gateway  # noqa: PLC0415 - it needs the extra

    needed_services(settings, database=False, keys=False)
    keep_settings_secret()
    log_thread_failures()
    with Signals() as signals, contextlib.ExitStack() as held:
        transport = connect_broker(settings)
        held.callback(transport.close)
        process = make_gateway(settings, transport)
        transport.check()
        cleaner = make_log_cleaner(settings)
        cleaner.start()
        held.callback(cleaner.stop)
        process.start()
        serve(process, signals)
    return process.exit_status
