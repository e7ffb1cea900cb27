"""`warren scheduler`: runs one scheduler until it is stopped."""

import contextlib

import click

from warren.command_options import examples, takes_settings
from warren.executor.fork_server.confinement import keep_settings_secret
from warren.settings.home import lock_embedded_database
from warren.settings.settings import Settings, cluster_keys, needed_services
from warren.sql.engine import Database
from warren.wiring.processes import Signals, connect_broker, exempt_loaded, log_thread_failures
from warren.wiring.scheduler import make_scheduler

_WAIT_SECONDS = 60.0


@click.command(epilog=examples("warren scheduler", "warren scheduler --timezone Europe/Berlin"))
@takes_settings("database_url", "broker_url", "timezone", "log_level")
def scheduler(settings: Settings) -> None:
    """Run a scheduler. Run as many as you like; they share the work.

    SIGTERM or Ctrl-C shuts it down cleanly: it takes no new work and signs off.
    """
    needed_services(settings, database=True)
    keep_settings_secret()
    log_thread_failures()
    with Signals() as signals, contextlib.ExitStack() as held:
        lock = lock_embedded_database(settings.needed_database_url())
        if lock is not None:
            held.callback(lock.release)
        database = Database(settings.needed_database_url())
        held.callback(database.close)
        transport = connect_broker(settings)
        held.callback(transport.close)
        transport.check()
        node = make_scheduler(settings, database, transport, cluster_keys(settings))
        node.start()
        held.callback(node.stop)
        exempt_loaded()
        while not signals.wait(_WAIT_SECONDS):
            pass
