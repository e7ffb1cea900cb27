"""What consoles and APIs have in common: HTTP server, housekeeping, broker; and the API process.

Any number of them can share a database. An API process needs nothing of the console's pages.
"""

import re
import secrets
import socket
import time
from collections.abc import Callable

import structlog

from warren.admin_web.access import group_reader
from warren.admin_web.access.group_reader import GroupReader
from warren.admin_web.access.sign_ins import SignIns
from warren.admin_web.api.application import create_api
from warren.admin_web.api.run_answers import LongPolling
from warren.admin_web.services import ApiServices, WebServices
from warren.admin_web.serving.http_server import ConnectionLimits, ConsoleServer
from warren.broker import topology
from warren.broker.rpc import Requester
from warren.broker.signing import ClusterKeys, Sealer
from warren.broker.transport import Transport
from warren.resources.job_files import JOB_FILE_BYTES
from warren.scheduler.commands.command_context import KEY_MS
from warren.scheduler.commands.command_logins import CommandLogins
from warren.scheduler.membership.self_health import ClusterZone
from warren.scheduler.rounds import Loop, Role
from warren.sql.accounts import idempotency
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database
from warren.sql.registry import cluster

#: Answers in memory at a time; each has up to 1 MB.
ANSWER_PREFETCH = 20


class ConsoleConnections:
    """A publisher for requests and this console's own answer queue, opened at once.

    Without a broker they keep trying to connect.

    Args:
        transport: makes the connections; the caller closes it.
        database: identifies the cluster.
        keys: derived from the master secret; they sign requests and verify answers.
        now_ms: the database's clock.
        quorum: whether the answer queue is a quorum queue.

    Raises:
        SecretMismatch: the cluster's other processes have another secret.

    """

    def __init__(
        self,
        transport: Transport,
        database: Database,
        keys: ClusterKeys,
        now_ms: Callable[[], int],
        *,
        quorum: bool = False,
    ) -> None:
        host = re.sub(r"[^A-Za-z0-9]", "-", socket.gethostname())[:40]
        node = f"console-{host}-{secrets.token_hex(4)}"
        cluster_id = database.read(cluster.cluster_id)
        database.write(lambda session: cluster.join(session, keys.fingerprints(cluster_id)))
        sealer = Sealer(keys, cluster_id, now_ms)
        self._publisher = transport.publisher("console", only_asks=True)
        answered = topology.answer_queue(node, quorum=quorum)
        answers = transport.consumer("console", [answered], prefetch=ANSWER_PREFETCH)
        self.requester = Requester(self._publisher, answers, sealer, node)

    def is_ready(self) -> bool:
        """Return whether messages can be sent now."""
        return self._publisher.is_ready

    def close(self) -> None:
        self.requester.close()
        self._publisher.close()


#: How often the clock is adjusted and a console's registration renewed, and how often expired
#: sign-ins and idempotency keys are deleted.
ROUND_SECONDS = 5.0
CLEANING_SECONDS = 600.0
_ENDING_SECONDS = 8.0

#: Requests that an API serves at a time; held requests need no thread.
API_THREADS = 24
#: More than a console has: waiting clients all reconnect at the same time.
API_CONNECTIONS = ConnectionLimits(total=400, of_one_address=360)
#: A bit more than a job file may have, so that the API can answer what is too large.
API_BODY_BYTES = JOB_FILE_BYTES + 1_000_000

log = structlog.get_logger()


class WebProcess:
    """What consoles and APIs have in common.

    Args:
        services: what the process needs.
        clock: the one behind `services.now_ms`; adjusted here.
        zone: the one behind `services.cluster_zone`; read again here.
        server: not started yet.

    """

    def __init__(
        self, services: WebServices, clock: DatabaseClock, zone: ClusterZone, server: ConsoleServer
    ) -> None:
        self._services = services
        self._clock = clock
        self.zone = zone
        self._server = server
        self.port = server.port
        self._sign_ins = SignIns(services.database, services.now_ms)
        self._logins = CommandLogins(services.database, services.now_ms)
        self._cleaned_at = float("-inf")
        self._loops = [Loop(Role("web housekeeping", self._round, longest_seconds=ROUND_SECONDS))]
        if services.sso is not None:
            reader = GroupReader(services.sso, services.database, services.now_ms)
            role = Role(
                "group reader", reader.run_round, longest_seconds=group_reader.ROUND_SECONDS
            )
            self._loops.append(Loop(role))

    def start(self) -> None:
        self._server.start()
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """Stop serving, then end the housekeeping."""
        self._server.stop()
        for loop in self._loops:
            loop.stop()
        for loop in self._loops:
            loop.join(_ENDING_SECONDS)

    def _round(self) -> float:
        self._clock.run_round()
        self.zone.run_round()
        self._beat()
        if time.monotonic() - self._cleaned_at > CLEANING_SECONDS:
            self._sign_ins.clean()
            self._logins.clean()
            before_ms = self._services.now_ms() - KEY_MS
            while self._services.database.write(
                lambda session: idempotency.clean(session, before_ms=before_ms)
            ):
                pass  # Each turn is a short transaction.
            self._cleaned_at = time.monotonic()
        return ROUND_SECONDS

    def _beat(self) -> None:
        """Renew the registration of a process that has one."""


class Api(WebProcess):
    """An API process.

    Raises:
        OSError: the port is taken; 0 = any free one.

    """

    def __init__(
        self,
        services: ApiServices,
        clock: DatabaseClock,
        zone: ClusterZone,
        *,
        host: str,
        port: int,
    ) -> None:
        app = create_api(services)
        self._polling: LongPolling = app.extensions["warren_polling"]
        server = ConsoleServer(
            app,
            host=host,
            port=port,
            threads=API_THREADS,
            body_bytes=API_BODY_BYTES,
            limits=API_CONNECTIONS,
        )
        super().__init__(services, clock, zone, server)

    def start(self) -> None:
        super().start()
        log.info("api_started", port=self.port)

    def stop(self) -> None:
        """Answer held requests, then stop serving."""
        self._polling.stop(_ENDING_SECONDS)
        super().stop()
        log.info("api_stopped")
