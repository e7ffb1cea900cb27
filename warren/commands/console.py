"""`warren console`: runs one web console until it is stopped."""

import contextlib

import click

from warren.admin_web.serving.broker_link import ConsoleConnections
from warren.broker.boot import boot_seconds
from warren.command_options import examples, takes_settings
from warren.errors import CommandError
from warren.executor.fork_server.confinement import keep_settings_secret
from warren.settings.settings import Settings, cluster_keys, needed_secret, needed_services
from warren.sql.clock import DatabaseClock
from warren.sql.schema import version
from warren.wiring.broker import connect_broker
from warren.wiring.console import address, make_console, open_console_database
from warren.wiring.signals import Signals, log_thread_failures

_WAIT_SECONDS = 60.0


@click.command(epilog=examples("warren console", "warren console --host 0.0.0.0 --port 8080"))
@takes_settings("database_url", "broker_url", "host", "port", "timezone", "log_level")
def console(settings: Settings) -> None:
    """Run a web console. Run as many as you like; they share users and sessions.

    The very first start creates an administrator and prints the password once. SIGTERM or Ctrl-C
    shuts it down cleanly.
    """
    needed_services(settings, database=True)
    keep_settings_secret()
    log_thread_failures()
    with Signals() as signals, contextlib.ExitStack() as held:
        database = open_console_database(settings.needed_database_url())
        held.callback(database.close)
        version.check(database)
        transport = connect_broker(settings)
        held.callback(transport.close)
        secret, clock = needed_secret(settings), DatabaseClock(database, monotonic=boot_seconds)
        connections = ConsoleConnections(transport, database, cluster_keys(settings), clock.now_ms)
        held.callback(connections.close)
        try:
            node = make_console(settings, database, secret, clock, connections)
        except OSError as error:
            raise CommandError(
                f"cannot listen at {settings.host}:{settings.port}: {error.strerror}; "
                "set WARREN_HOST and WARREN_PORT"
            ) from error
        held.callback(node.stop)
        password = node.start()
        if password:
            print(f"admin password: {password}", flush=True)
        print(f"console: {address(settings, node.port)}", flush=True)
        while not signals.wait(_WAIT_SECONDS):
            pass
