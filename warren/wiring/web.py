"""Makes the API from the settings, and the parts that a console has too; loads no page of it.

Among them is what both are given to read job files and flows.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from warren import __version__
from warren.admin_web.services import (
    ApiLimits,
    ApiServices,
    FlowSource,
    JobFiles,
)
from warren.admin_web.serving.web_process import API_THREADS, Api, ConsoleConnections
from warren.broker.messages import boot_seconds
from warren.broker.signing import ClusterKeys
from warren.broker.transport import Transport
from warren.errors import InvalidEntry
from warren.jobfile.export import braces, job_file, scalar
from warren.jobfile.grammar import line_at, plain
from warren.jobfile.uploads import check_upload, read_upload
from warren.jobfile.yaml_reader import tree_of
from warren.log_store import make_stored_logs
from warren.route_plugins import route_names
from warren.scheduler.membership.self_health import ClusterZone
from warren.settings.settings import Settings
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database
from warren.sql.ids import RunIds
from warren.sql.schema import version
from warren.wiring.sso import make_sso

#: Pooled connections of an API, one for two threads; half as many more are opened when needed.
API_POOL = API_THREADS // 2
#: Time limit of a page's statement, enforced by the server too: no snapshot is held for longer.
STATEMENT_SECONDS = 5
#: Seconds during which a failed transaction is tried again.
RETRY_SECONDS = 1.0
#: The bursts of requests and triggers of an API, as multiples of their rates.
_BURST, _TRIGGER_BURST = 2.0, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebParts:
    """What a console or an API is made of.

    Attributes:
        settings: where it listens, and how it serves.
        database: with time limits for statements and transactions.
        clock: the database's.
        link: to executors.
        secret: signs a console's cookies.

    """

    settings: Settings
    database: Database
    clock: DatabaseClock
    link: ConsoleConnections
    secret: str


@contextmanager
def web_parts(
    settings: Settings,
    *,
    url: str,
    pool_size: int,
    transport: Transport,
    keys: ClusterKeys,
    secret: str,
    beside: Database | None = None,
) -> Iterator[WebParts]:
    """Yield the parts of a console or an API; close them and the transport at the end.

    `url` is that of the database. `beside` is another `Database` of the same file in this process;
    their writes take turns.

    Raises:
        SchemaMismatch: the database has another version of the schema.
        SecretMismatch: the cluster's other processes have another secret.

    """
    with ExitStack() as held:
        database = Database(
            url,
            pool_size=pool_size,
            answer_seconds=STATEMENT_SECONDS + 1,
            statement_seconds=STATEMENT_SECONDS,
            retry_seconds=RETRY_SECONDS,
            fail_fast=True,
            share_writes_with=beside,
        )
        held.callback(database.close)
        held.callback(transport.close)
        version.check(database)
        clock = DatabaseClock(database, monotonic=boot_seconds)
        link = ConsoleConnections(
            transport, database, keys, clock.now_ms, quorum=settings.wants_quorum
        )
        held.callback(link.close)
        yield WebParts(settings=settings, database=database, clock=clock, link=link, secret=secret)


def make_api(parts: WebParts, port: int, console: str = "") -> Api:
    """Return an API that listens and is not started yet; port 0 = any free one.

    `console` is where people reach the console, if that is known better than by the settings.

    Raises:
        OSError: it cannot listen there.

    """
    settings, zone = parts.settings, ClusterZone(parts.database, parts.settings.timezone)
    rate, triggers = settings.api_rate, settings.api_trigger_rate
    services = ApiServices(
        database=parts.database,
        now_ms=parts.clock.now_ms,
        cluster_zone=zone.name,
        is_broker_up=parts.link.is_ready,
        requester=parts.link.requester,
        added_routes=route_names(),
        trusted_proxies=settings.trusted_proxies,
        stored_logs=make_stored_logs(settings),
        run_ids=RunIds(parts.database),
        sso=make_sso(settings, parts.secret, parts.clock.now_ms),
        job_files=JobFiles(read=read_upload, check=check_upload, write=job_file),
        limits=ApiLimits(
            requests=rate,
            requests_at_once=rate * _BURST,
            triggers=triggers,
            triggers_at_once=triggers * _TRIGGER_BURST,
        ),
        version=__version__,
        console_url=console or console_url(settings, settings.port),
    )
    return Api(services, parts.clock, zone, host=settings.api_host, port=port)


def console_url(settings: Settings, port: int) -> str:
    """Return the console's URL for people; empty if it is on any port."""
    own = http_url(settings.host, port) if port else ""
    return settings.console_url or own


def api_url(settings: Settings, port: int) -> str:
    """Return the base URL of an API's endpoints."""
    return f"{http_url(settings.api_host, port)}/api/v1"


def http_url(host: str, port: int) -> str:
    """Return the URL of a server; an IPv6 address is put into brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


_NAME = "flow"


def read_flow_text(text: str) -> FlowSource:
    """Return what a text says; what is no YAML, or has a key twice, is a problem with its line."""
    try:
        node = tree_of(text, _NAME)
        values = plain(node, _NAME)
    except InvalidEntry as fault:
        return FlowSource(values=None, line=lambda _field: 1, problem=(fault.line, fault.text))
    return FlowSource(values=values, line=lambda field: line_at(node, field))


def write_flow_text(flow: Mapping[str, Any]) -> str:
    """Return a graph as YAML with a line for each node."""
    return "".join(f"{scalar(name)}: {braces(node)}\n" for name, node in flow.items())
