"""`warren scheduler`: one scheduler, until it is told to end."""

import contextlib

import click

from sql.engine import Database
from warren.file_lock import lock_embedded_database
from warren.options import examples, takes_settings
from warren.service import Signals, log_thread_failures
from warren.settings import Settings, needed_secret, needed_services
from warren.wiring import connect_broker, make_scheduler

_WAIT_SECONDS = 60.0


@click.command(epilog=examples("warren scheduler", "warren scheduler --timezone Europe/Berlin"))
@takes_settings("database_url", "broker_url", "timezone", "log_level")
def scheduler(settings: Settings) -> None:
    """Run a scheduler; run as many as you like, they share the work.

    SIGTERM and Ctrl-C end it in order: no new work, then the registration is taken back.
    """
    needed_services(settings, database=True)
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
        node = make_scheduler(settings, database, transport, needed_secret(settings))
        node.start()
        held.callback(node.stop)
        while not signals.wait(_WAIT_SECONDS):
            pass
