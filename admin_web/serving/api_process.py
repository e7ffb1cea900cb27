"""One API process: its HTTP server and its housekeeping. It does not register itself."""

import time

import structlog

from warren.admin_web.api.api_services import ApiServices
from warren.admin_web.api.application import create_api
from warren.admin_web.api.runs.long_polling import LongPolling
from warren.admin_web.serving import idempotency_keys
from warren.admin_web.serving.http_connections import ConnectionLimits
from warren.admin_web.serving.http_server import ConsoleServer
from warren.scheduler.commands.job_files.job_file import JOB_FILE_BYTES
from warren.scheduler.membership.self_health import ClusterZone
from warren.scheduler.rounds.loop import Loop
from warren.sql.accounts import sign_in_attempts
from warren.sql.clock import DatabaseClock

#: Requests at a time; held requests need no thread.
THREADS = 24
#: More than the console has: waiting clients all reconnect at the same time.
CONNECTIONS = ConnectionLimits(total=400, of_one_address=360)
#: A bit more than a job file may have, so that the application can answer what is too large.
BODY_BYTES = JOB_FILE_BYTES + 1_000_000
#: How often the clock is adjusted, and how often old idempotency keys are deleted.
ROUND_SECONDS = 5.0
CLEANING_SECONDS = 600.0
_ENDING_SECONDS = 8.0

log = structlog.get_logger()


class ApiProcess:
    """An API process; any number of them can share a database.

    Args:
        services: what the API needs.
        clock: the one behind `services.now_ms`; adjusted here.
        zone: the one behind `services.cluster_zone`; read again here.
        host: the address to listen on.
        port: 0 = any free one.

    Raises:
        OSError: the port is taken.

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
        self._services = services
        self._clock = clock
        self.zone = zone
        self._cleaned_at = float("-inf")
        app = create_api(services)
        self._polling: LongPolling = app.extensions["warren_polling"]
        self._server = ConsoleServer(
            app, host=host, port=port, threads=THREADS, body_bytes=BODY_BYTES, limits=CONNECTIONS
        )
        self._loop = Loop("api housekeeping", self._tick, longest_seconds=ROUND_SECONDS)
        self.port = self._server.port

    def start(self) -> None:
        """Start serving."""
        self._server.start()
        self._loop.start()
        log.info("api_started", port=self.port)

    def stop(self) -> None:
        """Answer held requests, stop serving, then end the housekeeping."""
        self._polling.stop(_ENDING_SECONDS)
        self._server.stop()
        self._loop.stop()
        self._loop.join(_ENDING_SECONDS)
        log.info("api_stopped")

    def _tick(self) -> float:
        self._clock.run_round()
        self.zone.run_round()
        if time.monotonic() - self._cleaned_at > CLEANING_SECONDS:
            now_ms, database = self._services.now_ms(), self._services.database
            idempotency_keys.delete_expired(database, now_ms)
            database.write(lambda session: sign_in_attempts.clean(session, now_ms=now_ms))
            self._cleaned_at = time.monotonic()
        return ROUND_SECONDS
