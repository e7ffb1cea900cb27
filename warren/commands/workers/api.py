"""`warren api`: runs one process of the HTTP API until it is stopped."""

import contextlib

import click

from warren.broker.boot import boot_seconds
from warren.command_options import examples, takes_settings
from warren.errors import CommandError
from warren.executor.fork_server.confinement import keep_settings_secret
from warren.settings.settings import Settings, cluster_keys, needed_services
from warren.sql.clock import DatabaseClock
from warren.sql.schema import version
from warren.wiring.broker import connect_broker
from warren.wiring.signals import Signals, log_thread_failures

_WAIT_SECONDS = 60.0


@click.command(epilog=examples("warren api", "warren api --api-host 0.0.0.0 --api-port 8081"))
@takes_settings("database_url", "broker_url", "api_host", "api_port", "timezone", "log_level")
def api(settings: Settings) -> None:
    """Run the HTTP API. Run as many as you like; they share tokens and idempotency keys.

    `warren tokens add` creates a token. SIGTERM or Ctrl-C shuts it down cleanly.
    """
    from warren.admin_web.serving.broker_link import ConsoleConnections  # noqa: PLC0415 - see below
    from warren.wiring.api import api_address, make_api, open_api_database  # noqa: PLC0415 - Flask

    needed_services(settings, database=True)
    keep_settings_secret()
    log_thread_failures()
    with Signals() as signals, contextlib.ExitStack() as held:
        database = open_api_database(settings.needed_database_url())
        held.callback(database.close)
        version.check(database)
        transport = connect_broker(settings)
        held.callback(transport.close)
        clock = DatabaseClock(database, monotonic=boot_seconds)
        connections = ConsoleConnections(transport, database, cluster_keys(settings), clock.now_ms)
        held.callback(connections.close)
        try:
            process = make_api(settings, database, clock, connections)
        except OSError as error:
            raise CommandError(
                f"cannot listen at {settings.api_host}:{settings.api_port}: {error.strerror}; "
                "set WARREN_API_HOST and WARREN_API_PORT"
            ) from error
        held.callback(process.stop)
        process.start()
        print(f"api: {api_address(settings, process.port)}/api/v1", flush=True)
        while not signals.wait(_WAIT_SECONDS):
            pass
