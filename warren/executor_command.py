"""`warren executor`: one executor of one app, until it is told to end."""

import contextlib
import re
import socket

import click

from broker.topology import check_address, check_app
from executor.agent import Executor
from executor.runlog import RunLogs
from warren.errors import CommandError
from warren.options import examples, takes_settings
from warren.service import Signals, log_thread_failures
from warren.settings import Settings, needed_secret, needed_services
from warren.wiring import connect_broker, make_executor, make_log_cleaner, make_slots

_LOOK_SECONDS = 0.25


@click.command(
    epilog=examples(
        "warren executor --app reports handlers.py",
        "warren executor --app reports --address reports-7 company.jobs company.mails",
    )
)
@click.option("--app", required=True, help="The app whose jobs it runs.")
@click.option("--address", help="Its unique name; <hostname>-<app> by default.")
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
    """Run an executor with the handlers of modules and files.

    SIGTERM and Ctrl-C end it in order: running jobs get the drain time, then they are stopped. A
    second one stops them at once.
    """
    check_app(app)
    name = check_address(address or default_address(app))
    needed_services(settings, database=False)
    log_thread_failures()
    with Signals() as signals, contextlib.ExitStack() as held:
        transport = connect_broker(settings)
        held.callback(transport.close)
        transport.check()
        cleaner = make_log_cleaner(settings)
        cleaner.start()
        held.callback(cleaner.stop)
        one = make_executor(
            settings,
            app=app,
            address=name,
            transport=transport,
            secret=needed_secret(settings),
            slots=make_slots(settings, sources, RunLogs(settings.log_dir)),
        )
        one.start()
        serve(one, signals)
    if one.failure:
        raise CommandError(one.failure)
    return one.exit_status


def serve(one: Executor, signals: Signals) -> None:
    """Wait for an executor's end: by itself, or in order after a signal, or at once after two."""
    told = 0
    while not one.join(0):
        signals.wait(_LOOK_SECONDS)
        if signals.count > told:
            told = signals.count
            one.stop(hurry=told > 1)


def default_address(app: str) -> str:
    """Return `<hostname>-<app>` in the characters that an address may have."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).strip("-.") or "host"
    return f"{host[:60]}-{app}"
