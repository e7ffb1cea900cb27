"""`warren console`: one web console, until it is told to end."""

import contextlib

import click

from admin_web.connections import ConsoleConnections
from sql import schema
from sql.clock import DatabaseClock
from warren.console_wiring import address, make_console, open_console_database
from warren.errors import CommandError
from warren.options import examples, takes_settings
from warren.service import Signals, log_thread_failures
from warren.settings import Settings, needed_secret, needed_services
from warren.wiring import connect_broker

_WAIT_SECONDS = 60.0


@click.command(epilog=examples("warren console", "warren console --host 0.0.0.0 --port 8080"))
@takes_settings("database_url", "broker_url", "host", "port", "timezone", "log_level")
def console(settings: Settings) -> None:
    """Run a web console; run as many as you like, they share users and sign-ins.

    The first start of all makes an administrator and prints the password, once. SIGTERM and Ctrl-C
    end it in order.
    """
    needed_services(settings, database=True)
    log_thread_failures()
    with Signals() as signals, contextlib.ExitStack() as held:
        database = open_console_database(settings.needed_database_url())
        held.callback(database.close)
        schema.check(database)
        transport = connect_broker(settings)
        held.callback(transport.close)
        secret, clock = needed_secret(settings), DatabaseClock(database)
        connections = ConsoleConnections(transport, database, secret, clock.now_ms)
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
