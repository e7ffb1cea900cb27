"""Sends again what was routed but never confirmed: of a dead scheduler, or of unknown fate.

The same id goes to the same address and boot, so the executor's own memory makes it harmless when
the first copy did arrive. What was routed to a boot that is over is left to the undertaker, and to
the inquirer where another boot has its address.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy.orm import Session

from scheduler.aftermath import End
from scheduler.app_names import AppNames
from scheduler.completion import Completion
from scheduler.delivery import Delivery, Receipt, parcels_again
from scheduler.patience import Patience
from scheduler.roster import Roster, Standing
from scheduler.scripts import Script, Scripts, few_scripts
from sql import jobs, presence, run_queries, runs
from sql.engine import Database
from sql.ids import RunIds
from sql.rows import AnyRow
from sql.run_status import RunStatus

BATCH = 500
#: A younger unconfirmed run is on its owner's way to the broker, whoever that is.
YOUNGEST_MS = 100
#: Pause before a trigger of unknown fate is sent again, doubled each time, up to the longest: that
#: is long enough for others to try, in case that only this scheduler hears no confirms.
AGAIN_SECONDS = 0.5
LONGEST_SECONDS = 16.0

log = structlog.get_logger()


@dataclass(slots=True)
class _Unknown:
    """A trigger of this scheduler's own of which the broker did not say what became."""

    due_at: float
    pause_seconds: float = AGAIN_SECONDS


class Rescuer:
    """Takes over ROUTED runs, each guarded by who routed it and when.

    Args:
        patience: `owner_silent` and `take_over` are looked at.
        on_missing: told the app and address of an executor whose queue is not there.

    """

    def __init__(
        self,
        *,
        node: str,
        database: Database,
        ids: RunIds,
        completion: Completion,
        delivery: Delivery,
        roster: Roster,
        app_names: AppNames,
        patience: Patience,
        now_ms: Callable[[], int],
        on_missing: Callable[[str, str], None],
    ) -> None:
        self._node = node
        self._database = database
        self._ids = ids
        self._completion = completion
        self._delivery = delivery
        self._roster = roster
        self._app_names = app_names
        self._silent_ms = int(patience.owner_silent * 1000)
        self._take_over_ms = int(patience.take_over * 1000)
        self._now_ms = now_ms
        self._on_missing = on_missing
        self._lock = threading.Lock()
        self._unknown: dict[int, _Unknown] = {}

    def note_unknown(self, run_ids: Sequence[int]) -> None:
        """Note runs of this scheduler's own of whose trigger the broker did not say what became."""
        now = time.monotonic()
        with self._lock:
            for run_id in run_ids:
                known = self._unknown.get(run_id)
                pause = AGAIN_SECONDS if known is None else known.pause_seconds * 2
                pause = min(pause, LONGEST_SECONDS)
                self._unknown[run_id] = _Unknown(now + pause, pause)

    def tick(self, now_ms: int) -> float:
        """Send abandoned triggers again; return the seconds until the next look."""
        if not self._delivery.is_open:
            return 0.5
        rows = self._database.read(lambda session: self._abandoned(session, now_ms))
        alive = [row for row in rows if self._is_alive(row)]
        chosen = few_scripts(alive)
        if not chosen:
            return 0.5
        won = self._database.write(
            lambda session: runs.take_over(session, chosen, node=self._node, now_ms=now_ms)
        )
        if won:
            self._send(won)
        return 0 if len(alive) >= BATCH or len(chosen) < len(alive) else 0.5

    def _abandoned(self, session: Session, now_ms: int) -> list[AnyRow]:
        now = time.monotonic()
        with self._lock:
            noted = set(self._unknown)
            due = [run_id for run_id, unknown in self._unknown.items() if unknown.due_at <= now]
        own = run_queries.by_ids(session, due[:BATCH]) if due else ()
        unconfirmed = [row for row in own if self._is_own(row)]
        self._forget(set(due[:BATCH]) - {row.id for row in unconfirmed})
        others = run_queries.routed(
            session,
            before_ms=now_ms - YOUNGEST_MS,
            limit=BATCH,
            spared=self._awake(session, now_ms),
            spared_after_ms=now_ms - self._take_over_ms,
        )
        return unconfirmed + [row for row in others if row.id not in noted]

    def _is_own(self, row: AnyRow) -> bool:
        return bool(row.status == RunStatus.ROUTED and row.routed_by == self._node)

    def _awake(self, session: Session, now_ms: int) -> set[str]:
        listed = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        heard = {row.registry_value for row in listed if now_ms - row.beat_at <= self._silent_ms}
        return heard | {self._node}

    def _forget(self, run_ids: Iterable[int]) -> None:
        with self._lock:
            for run_id in run_ids:
                self._unknown.pop(run_id, None)

    def _is_alive(self, row: AnyRow) -> bool:
        app = self._app_names(row.job_group).get(row.job_group, "")
        return self._roster.standing(app, row.executor_address, row.boot_id) is Standing.ALIVE

    def _send(self, run_ids: Sequence[int]) -> None:
        taken_at = time.monotonic()
        rows, known, scripts = self._database.read(lambda session: _with_jobs(session, run_ids))
        parcels = parcels_again(rows, known, self._app_names(), scripts)
        sendable = {item.trigger.run_id for item in parcels}
        log.info("triggers_rescued", count=len(parcels))
        receipt = self._delivery.send(parcels, decided_at=taken_at).receipt()
        self._note(receipt, [row for row in rows if row.id not in sendable])

    def _note(self, receipt: Receipt, orphans: Sequence[AnyRow]) -> None:
        now_ms = self._now_ms()
        sent = [item.trigger.run_id for item in receipt.confirmed]
        ends = [_unsent(row.id, "its job was deleted or changed", now_ms) for row in orphans]
        ends += [_unsent(item.trigger.run_id, why, now_ms) for item, why in receipt.unsendable]

        def record(session: Session) -> None:
            if sent:
                runs.mark_sent(session, sent, node=self._node, now_ms=now_ms)
            if ends:
                self._completion.end(session, ends)

        # A returned copy proves nothing of the first one: the queue may have been there for that.
        open_ids = [item.trigger.run_id for item in (*receipt.unknown, *receipt.returned)]
        self.note_unknown(open_ids)
        for app, address in {(item.app, item.address) for item in receipt.returned}:
            self._on_missing(app, address)
        if sent or ends:
            self._ids.reserve()
            self._database.write(record)
        self._forget(sent)


def _with_jobs(
    session: Session, run_ids: Sequence[int]
) -> tuple[Sequence[AnyRow], dict[int, AnyRow], dict[int, Script | None]]:
    rows = run_queries.by_ids(session, run_ids)
    scripts = Scripts().read(session, [row.glue_id for row in rows])
    return rows, jobs.for_runs(session, {row.job_id for row in rows}), scripts


def _unsent(run_id: int, why: str, now_ms: int) -> End:
    """End a run of which a first copy may have arrived, and been started, all the same."""
    return End(
        run_id=run_id,
        status=RunStatus.LOST,
        message=f"its trigger was not confirmed and cannot be sent again: {why}",
        finished_at=now_ms,
        only_from=RunStatus.ROUTED,
    )
