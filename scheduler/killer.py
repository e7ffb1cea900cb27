"""Carries kill requests, which are rows first, to executors until the run is final."""

import time

import structlog

from broker import topology
from broker.messages import Kill
from broker.signing import Direction, Sealer
from broker.transport import Outgoing, Publisher
from scheduler.app_names import AppNames
from sql import run_queries
from sql.engine import Database
from sql.rows import AnyRow

#: Pause between two orders to kill the same run.
AGAIN_SECONDS = 2.0
#: How long an order is good for.
VALID_SECONDS = 60.0
#: Requests older than this are not looked for; their runs have ended some other way long ago.
LOOK_BACK_MS = 24 * 3600 * 1000

log = structlog.get_logger()


class Killer:
    """Sends `Kill` for runs in flight that somebody asked to kill."""

    def __init__(
        self, *, database: Database, publisher: Publisher, sealer: Sealer, app_names: AppNames
    ) -> None:
        self._database = database
        self._publisher = publisher
        self._sealer = sealer
        self._app_names = app_names
        self._sent_at: dict[int, float] = {}

    def tick(self, now_ms: int) -> float:
        """Send what is asked for; return the seconds until the next look."""
        rows = self._database.read(
            lambda session: run_queries.wanted_dead(session, since_ms=now_ms - LOOK_BACK_MS)
        )
        now = time.monotonic()
        wanted = {row.id for row in rows}
        self._sent_at = {
            run_id: at
            for run_id, at in self._sent_at.items()
            if run_id in wanted and now - at < AGAIN_SECONDS
        }
        due = [row for row in rows if row.id not in self._sent_at]
        messages = [message for row in due if (message := self._order(row))]
        if messages and self._publisher.is_ready:
            self._publisher.publish(messages)
            self._sent_at.update((row.id, now) for row in due)
            log.info("kills_sent", run_ids=[row.id for row in due][:20])
        return 0.5

    def _order(self, row: AnyRow) -> Outgoing | None:
        app = self._app_names(row.job_group).get(row.job_group)
        if app is None:
            return None
        return self._sealer.seal(
            Kill(run_id=row.id, reason="killed by request"),
            exchange=topology.TRIGGER_EXCHANGE,
            routing_key=topology.command_queue(app, row.executor_address, row.boot_id).name,
            address=row.executor_address,
            direction=Direction.TO_EXECUTOR,
            valid_seconds=VALID_SECONDS,
            durable=False,
        )
