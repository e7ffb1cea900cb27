"""Sends again what was routed but never confirmed: of a dead scheduler, or of unknown fate.

The same id goes to the same address and boot, so the executor's own memory makes it harmless when
the first copy did arrive. What was routed to a boot that is over is left to the undertaker.
"""

import threading
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy.orm import Session

from scheduler.aftermath import End
from scheduler.app_names import AppNames
from scheduler.completion import Completion
from scheduler.delivery import Delivery, Receipt, parcels_again
from scheduler.roster import Roster, Standing
from sql import jobs, presence, run_queries, runs
from sql.engine import Database
from sql.rows import AnyRow, Rows
from sql.run_status import RunStatus

#: An owner that has not renewed its registration for this long is silent.
SILENT_MS = 1_500
#: Longer than this nobody may need between commit and confirm.
TAKE_OVER_MS = 10_000
BATCH = 500

log = structlog.get_logger()


class Rescuer:
    """Takes over ROUTED runs, each guarded by who routed it and when."""

    def __init__(
        self,
        *,
        node: str,
        database: Database,
        completion: Completion,
        delivery: Delivery,
        roster: Roster,
        app_names: AppNames,
        now_ms: Callable[[], int],
    ) -> None:
        self._node = node
        self._database = database
        self._completion = completion
        self._delivery = delivery
        self._roster = roster
        self._app_names = app_names
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._unknown: set[int] = set()

    def note_unknown(self, run_ids: Sequence[int]) -> None:
        """Note runs of this scheduler's own of whose trigger the broker did not say what became."""
        with self._lock:
            self._unknown.update(run_ids)

    def tick(self, now_ms: int) -> float:
        """Send abandoned triggers again; return the seconds until the next look."""
        if not self._delivery.is_open:
            return 0.5
        rows = self._database.read(lambda session: self._abandoned(session, now_ms))
        alive = [row for row in rows if self._is_alive(row)]
        if not alive:
            return 0.5
        won = self._database.write(
            lambda session: runs.take_over(session, alive, node=self._node, now_ms=now_ms)
        )
        self._send([row for row in alive if row.id in set(won)])
        with self._lock:
            self._unknown.difference_update(won)
        return 0 if len(rows) == BATCH else 0.5

    def _abandoned(self, session: Session, now_ms: int) -> list[AnyRow]:
        with self._lock:
            unknown = set(self._unknown)
        # A younger one is on its owner's way to the broker, unless its owner is silent.
        rows = run_queries.routed(session, before_ms=now_ms - 100, limit=BATCH)
        awake = {
            row.registry_value
            for row in presence.listing(session, presence.ADMIN)
            if now_ms - row.beat_at <= SILENT_MS
        } | {self._node}
        with self._lock:
            self._unknown &= {row.id for row in rows} | (self._unknown - unknown)
        return [
            row
            for row in rows
            if row.id in unknown
            or row.routed_by not in awake
            or now_ms - row.routed_at > TAKE_OVER_MS
        ]

    def _is_alive(self, row: AnyRow) -> bool:
        app = self._app_names(row.job_group).get(row.job_group, "")
        return self._roster.standing(app, row.executor_address, row.boot_id) is Standing.ALIVE

    def _send(self, rows: Rows) -> None:
        if not rows:
            return
        known = self._database.read(
            lambda session: jobs.for_runs(session, {row.job_id for row in rows})
        )
        orphans = [row for row in rows if row.job_id not in known]
        log.info("triggers_rescued", count=len(rows))
        shipment = self._delivery.send(parcels_again(rows, known, self._app_names()))
        self._note(shipment.receipt(), orphans)

    def _note(self, receipt: Receipt, orphans: Sequence[AnyRow]) -> None:
        # A returned copy proves nothing of the first one: such a run waits for the undertaker.
        now_ms = self._now_ms()
        sent = [item.trigger.run_id for item in receipt.confirmed]
        ends = [
            End(
                run_id=row.id,
                status=RunStatus.UNDELIVERED,
                message="its job was deleted before its trigger was confirmed",
                finished_at=now_ms,
            )
            for row in orphans
        ]

        def record(session: Session) -> None:
            if sent:
                runs.mark_sent(session, sent, node=self._node, now_ms=now_ms)
            if ends:
                self._completion.end(session, ends)

        self._database.write(record)
        self.note_unknown([item.trigger.run_id for item in receipt.unknown])
