"""`warren console` and `warren api`: each runs one web process until it is stopped."""

import contextlib
from collections.abc import Callable, Iterator

import click

from warren.command_options import examples, takes_settings
from warren.errors import CommandError
from warren.executor.fork_server.confinement import keep_settings_secret
from warren.settings.settings import Settings, cluster_keys, needed_secret, needed_services
from warren.wiring.console import CONSOLE_POOL, make_console
from warren.wiring.processes import Signals, connect_broker, exempt_loaded, log_thread_failures
from warren.wiring.web import API_POOL, WebParts, api_url, console_url, make_api, web_parts

_WAIT_SECONDS = 60.0


@click.command(epilog=examples("warren console", "warren console --host 0.0.0.0 --port 8080"))
@takes_settings("database_url", "broker_url", "host", "port", "timezone", "log_level")
def console(settings: Settings) -> None:
    """Run a web console. Run as many as you like; they share users and sessions.

    The very first start creates an administrator and prints the password once. SIGTERM or Ctrl-C
    shuts it down cleanly.
    """

    def start(parts: WebParts) -> Callable[[], None]:
        with _names_address("", settings.host, settings.port):
            process = make_console(parts, settings.port)
        process.start()
        if process.password:
            print(f"admin password: {process.password}", flush=True)
        print(f"console: {console_url(settings, process.port)}", flush=True)
        return process.stop

    _serve(settings, CONSOLE_POOL, start)


@click.command(epilog=examples("warren api", "warren api --api-host 0.0.0.0 --api-port 8081"))
@takes_settings("database_url", "broker_url", "api_host", "api_port", "timezone", "log_level")
def api(settings: Settings) -> None:
    """Run the HTTP API. Run as many as you like; they share tokens and idempotency keys.

    `warren tokens add` creates a token. SIGTERM or Ctrl-C shuts it down cleanly.
    """

    def start(parts: WebParts) -> Callable[[], None]:
        with _names_address("API_", settings.api_host, settings.api_port):
            process = make_api(parts, settings.api_port)
        process.start()
        print(f"api: {api_url(settings, process.port)}", flush=True)
        return process.stop

    _serve(settings, API_POOL, start)


def _serve(
    settings: Settings, pool_size: int, start: Callable[[WebParts], Callable[[], None]]
) -> None:
    """Call `start`, wait for a signal, and call the function that `start` returned."""
    needed_services(settings, database=True)
    keep_settings_secret()
    log_thread_failures()
    with Signals() as signals, contextlib.ExitStack() as held:
        parts = web_parts(
            settings,
            url=settings.needed_database_url(),
            pool_size=pool_size,
            transport=connect_broker(settings),
            keys=cluster_keys(settings),
            secret=needed_secret(settings),
        )
        held.callback(start(held.enter_context(parts)))
        exempt_loaded()
        while not signals.wait(_WAIT_SECONDS):
            pass


@contextlib.contextmanager
def _names_address(prefix: str, host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CommandError(
            f"cannot listen at {host}:{port}: {error.strerror}; "
            f"set WARREN_{prefix}HOST and WARREN_{prefix}PORT"
        ) from error
