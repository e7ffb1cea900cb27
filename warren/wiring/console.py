"""Makes the console from the settings; a separate module, so that only it loads Flask."""

from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.serving.broker_link import ConsoleConnections
from warren.admin_web.serving.console_process import Console
from warren.jobfile.export import job_file
from warren.route_plugins import route_names
from warren.scheduler.membership.self_health import ClusterZone
from warren.settings.settings import Settings
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database

#: Pooled connections of a console; half as many more are opened when needed.
POOL_SIZE = 8
#: Time limit of a page's statement, enforced by the server too: no snapshot is held for longer.
STATEMENT_SECONDS = 5
#: Seconds during which a failed transaction is tried again.
RETRY_SECONDS = 1.0


def open_console_database(
    url: str,
    share_writes_with: Database | None = None,
    *,
    statement_seconds: int = STATEMENT_SECONDS,
) -> Database:
    """Open a database with the limits of a console."""
    return Database(
        url,
        pool_size=POOL_SIZE,
        answer_seconds=statement_seconds + 1,
        statement_seconds=statement_seconds,
        retry_seconds=RETRY_SECONDS,
        fail_fast=True,
        share_writes_with=share_writes_with,
    )


def make_console(
    settings: Settings,
    database: Database,
    secret: str,
    clock: DatabaseClock,
    connections: ConsoleConnections,
    *,
    port: int | None = None,
) -> Console:
    """Return a console that is not started yet; `port` replaces that of the settings.

    The caller closes the connections afterwards.

    Raises:
        OSError: the port is taken.

    """
    zone = ClusterZone(database, settings.timezone)
    parts = ConsoleServices(
        database=database,
        now_ms=clock.now_ms,
        cluster_zone=zone.name,
        secret=secret,
        secret_previous=settings.secret_previous or "",
        is_broker_up=connections.is_ready,
        requester=connections.requester,
        added_routes=route_names(),
        job_file=job_file,
        host=settings.host,
        console_url=settings.console_url or "",
        trusted_proxies=settings.trusted_proxies,
        metrics_token=settings.metrics_token or "",
        metrics_jobs=settings.metrics_jobs,
    )
    return Console(parts, clock, zone, port=settings.port if port is None else port)


def address(settings: Settings, port: int) -> str:
    """Return the console's URL for people."""
    if settings.console_url:
        return settings.console_url
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{port}"
