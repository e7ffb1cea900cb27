"""Makes the console from the settings."""

from warren.admin_web.services import ConsoleServices, FlowTexts
from warren.admin_web.serving.console_process import Console
from warren.jobfile.export import job_file
from warren.log_store import make_stored_logs
from warren.route_plugins import route_names
from warren.scheduler.membership.self_health import ClusterZone
from warren.wiring.sso import local_names, make_sso
from warren.wiring.web import WebParts, read_flow_text, write_flow_text

#: Pooled connections of a console; half as many more are opened when needed.
CONSOLE_POOL = 8


def make_console(parts: WebParts, port: int) -> Console:
    """Return a console that listens and is not started yet; port 0 = any free one.

    Raises:
        OSError: it cannot listen there.

    """
    settings, zone = parts.settings, ClusterZone(parts.database, parts.settings.timezone)
    services = ConsoleServices(
        database=parts.database,
        now_ms=parts.clock.now_ms,
        cluster_zone=zone.name,
        is_broker_up=parts.link.is_ready,
        requester=parts.link.requester,
        added_routes=route_names(),
        trusted_proxies=settings.trusted_proxies,
        stored_logs=make_stored_logs(settings),
        secret=parts.secret,
        secret_previous=settings.secret_previous or "",
        job_file=job_file,
        flow_texts=FlowTexts(read=read_flow_text, write=write_flow_text),
        host=settings.host,
        console_url=settings.console_url or "",
        metrics_token=settings.metrics_token or "",
        metrics_jobs=settings.metrics_jobs,
        sso=make_sso(settings, parts.secret, parts.clock.now_ms),
        local_names=local_names(settings),
    )
    return Console(services, parts.clock, zone, port=port)
