"""Makes the API from the settings; a separate module, so that only it loads Flask."""

from warren import __version__
from warren.admin_web.api.api_services import ApiServices, JobFiles, Limits
from warren.admin_web.serving.api_process import THREADS, ApiProcess
from warren.admin_web.serving.broker_link import ConsoleConnections
from warren.jobfile.export import job_file
from warren.jobfile.upload import read_upload
from warren.route_plugins import route_names
from warren.scheduler.membership.self_health import ClusterZone
from warren.settings.settings import Settings
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database
from warren.sql.ids import RunIds
from warren.wiring.console import RETRY_SECONDS, STATEMENT_SECONDS

#: The bursts of requests and triggers, as multiples of their rates.
_BURST, _TRIGGER_BURST = 2.0, 5.0


def open_api_database(url: str, share_writes_with: Database | None = None) -> Database:
    """Open a database with the limits of an API process: a connection for two threads."""
    return Database(
        url,
        pool_size=THREADS // 2,
        answer_seconds=STATEMENT_SECONDS + 1,
        statement_seconds=STATEMENT_SECONDS,
        retry_seconds=RETRY_SECONDS,
        fail_fast=True,
        share_writes_with=share_writes_with,
    )


def make_api(
    settings: Settings,
    database: Database,
    clock: DatabaseClock,
    connections: ConsoleConnections,
    *,
    port: int | None = None,
) -> ApiProcess:
    """Return an API that is not started yet; `port` replaces that of the settings.

    The caller closes the connections afterwards.

    Raises:
        OSError: the port is taken.

    """
    rate, triggers = settings.api_rate, settings.api_trigger_rate
    zone = ClusterZone(database, settings.timezone)
    services = ApiServices(
        database=database,
        now_ms=clock.now_ms,
        run_ids=RunIds(database),
        cluster_zone=zone.name,
        job_files=JobFiles(read=read_upload, write=job_file),
        is_broker_up=connections.is_ready,
        requester=connections.requester,
        added_routes=route_names(),
        trusted_proxies=settings.trusted_proxies,
        limits=Limits(
            requests=rate,
            requests_at_once=rate * _BURST,
            triggers=triggers,
            triggers_at_once=triggers * _TRIGGER_BURST,
        ),
        version=__version__,
    )
    wanted = settings.api_port if port is None else port
    return ApiProcess(services, clock, zone, host=settings.api_host, port=wanted)


def api_address(settings: Settings, port: int) -> str:
    """Return the base URL of an API."""
    host = f"[{settings.api_host}]" if ":" in settings.api_host else settings.api_host
    return f"http://{host}:{port}"
