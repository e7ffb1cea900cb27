"""`warren gateway`: serves executors of XXL-JOB until it is stopped."""

import contextlib

import click

from warren.command_options import examples, takes_settings
from warren.executor.fork_server.confinement import keep_settings_secret
from warren.settings.settings import Settings, needed_services
from warren.wiring.executor import make_log_cleaner
from warren.wiring.processes import Signals, connect_broker, log_thread_failures, serve


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
