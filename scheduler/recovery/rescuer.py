"""Resends runs that were never confirmed: their scheduler died, or the broker was silent.

The same trigger, with the same id, goes to the same address and boot, so an executor that has the
first copy ignores this one. Runs of a boot that has ended are left to the reaper, or to the
reconciler if another boot has its address.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog
from sqlalchemy.orm import Session

from warren.broker.reasons import Why, Words
from warren.scheduler.completion.completion import RunEnder
from warren.scheduler.completion.end import End, lost
from warren.scheduler.jobs.script_cache import Script, Scripts, few_scripts
from warren.scheduler.membership.roster import Roster, Standing
from warren.scheduler.node_context import NodeContext
from warren.scheduler.triggers import BatchResult, RoutedTrigger, TriggerPublisher, routed_trigger
from warren.sql.instants import is_within
from warren.sql.jobs import job_rows
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.registry import presence
from warren.sql.run_status import RunStatus
from warren.sql.runs import queries, transitions
from warren.sql.runs.run_rows import RoutedRun


class Resending(NamedTuple):
    """The triggers of runs, and the runs that can no longer get one."""

    triggers: list[RoutedTrigger]
    orphans: list[RoutedRun]


@dataclass(frozen=True, slots=True)
class TriggerParts:
    """What triggers contain in addition to their runs, by id, and the database's epoch."""

    jobs: Mapping[int, JobToRun]
    apps: Mapping[int, str]
    scripts: Mapping[int, Script | None]
    epoch: int = 0

    def trigger(self, row: RoutedRun) -> RoutedTrigger | None:
        """Return the trigger of a run, marked as sent again.

        None if its job or script was deleted meanwhile, or no longer fits into a trigger.
        """
        if row.job_id not in self.jobs or row.app_id not in self.apps:
            return None
        script = None if row.script_version is None else self.scripts.get(row.script_version)
        if script is None and row.script_version is not None:
            return None
        try:
            return routed_trigger(
                row,
                self.jobs[row.job_id],
                app=self.apps[row.app_id],
                address=row.address,
                boot_id=row.boot_id,
                routed_at=row.routed_at,
                script=script,
                resent=True,
                epoch=self.epoch,
            )
        except ValueError as error:
            log.warning("trigger_not_made", run_id=row.id, job_id=row.job_id, error=str(error))
            return None


def made_again(context: NodeContext, rows: Sequence[RoutedRun]) -> Resending:
    """Return the triggers of routed runs, for rescuer and reconciler; publishes nothing."""
    database, apps = context.database, context.app_names.known()
    epoch = database.epoch
    parts = replace(database.read(lambda session: _parts(session, rows, apps)), epoch=epoch)
    made = [(row, parts.trigger(row)) for row in rows]
    return Resending(
        triggers=[trigger for _, trigger in made if trigger is not None],
        orphans=[row for row, trigger in made if trigger is None],
    )


def _parts(session: Session, rows: Sequence[RoutedRun], apps: Mapping[int, str]) -> TriggerParts:
    return TriggerParts(
        jobs=job_rows.for_runs(session, {row.job_id for row in rows}),
        apps=apps,
        scripts=Scripts().read(session, [row.script_version for row in rows]),
    )


#: Runs sent again in one round, and looked at: those of dead executors wait for the reaper.
BATCH = 500
LOOK = 10_000
#: Time between two looks while there is nothing to send again.
IDLE_SECONDS = 0.5
#: A younger unconfirmed run is still in transit from its owner to the broker.
YOUNGEST_MS = 100
#: Wait before a trigger of unknown fate is sent again, doubled each time, up to the longest: long
#: enough for other schedulers to try, in case only this one gets no confirms.
AGAIN_SECONDS = 0.5
LONGEST_SECONDS = 16.0

log = structlog.get_logger()


@dataclass(slots=True)
class _Unknown:
    """A trigger of this scheduler that the broker neither confirmed nor returned."""

    due_at: float
    wait_seconds: float = AGAIN_SECONDS


class Rescuer:
    """Takes over ROUTED runs, each guarded by who routed it and when.

    Args:
        on_missing: called with the app and address of an executor whose queue is missing.

    """

    def __init__(
        self,
        *,
        context: NodeContext,
        ender: RunEnder,
        publisher: TriggerPublisher,
        roster: Roster,
        on_missing: Callable[[str, str], None],
    ) -> None:
        self._context = context
        self._ender = ender
        self._publisher = publisher
        self._roster = roster
        self._silent_ms = int(context.timeouts.owner_silent * 1000)
        self._take_over_ms = int(context.timeouts.take_over * 1000)
        self._on_missing = on_missing
        self._lock = threading.Lock()
        self._unknown: dict[int, _Unknown] = {}

    def note_unknown(self, run_ids: Sequence[int]) -> None:
        """Record own runs whose triggers the broker neither confirmed nor returned."""
        now = self._context.monotonic()
        with self._lock:
            for run_id in run_ids:
                known = self._unknown.get(run_id)
                wait_seconds = AGAIN_SECONDS if known is None else known.wait_seconds * 2
                wait_seconds = min(wait_seconds, LONGEST_SECONDS)
                self._unknown[run_id] = _Unknown(now + wait_seconds, wait_seconds)

    def run_round(self, now_ms: int) -> float:
        """Send abandoned triggers again; return the seconds until the next look."""
        if not self._publisher.is_open:
            return IDLE_SECONDS
        rows = self._context.database.read(lambda session: self._abandoned(session, now_ms))
        alive = [row for row in rows if self._is_alive(row)][:BATCH]
        chosen = few_scripts(alive)
        if not chosen:
            return IDLE_SECONDS
        won = self._context.database.write(
            lambda session: transitions.take_over(
                session, chosen, node=self._context.node, now_ms=now_ms
            )
        )
        if won:
            self._send(won)
        return 0 if len(alive) >= BATCH or len(chosen) < len(alive) else IDLE_SECONDS

    def _abandoned(self, session: Session, now_ms: int) -> list[RoutedRun]:
        now = self._context.monotonic()
        with self._lock:
            noted = set(self._unknown)
            due = [run_id for run_id, unknown in self._unknown.items() if unknown.due_at <= now]
        due = due[:LOOK]
        own = queries.by_ids(session, due) if due else ()
        unconfirmed = [row for row in own if self._is_own(row)]
        self._forget(set(due) - {row.id for row in unconfirmed})
        others = queries.routed(
            session,
            before_ms=now_ms - YOUNGEST_MS,
            now_ms=now_ms,
            limit=LOOK,
            except_nodes=self._awake(session, now_ms),
            except_since_ms=now_ms - self._take_over_ms,
        )
        return unconfirmed + [row for row in others if row.id not in noted]

    def _is_own(self, row: RoutedRun) -> bool:
        return bool(row.status == RunStatus.ROUTED and row.routed_by == self._context.node)

    def _awake(self, session: Session, now_ms: int) -> set[str]:
        listed = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        heard = {row.address for row in listed if is_within(row.beat_at, now_ms, self._silent_ms)}
        return heard | {self._context.node}

    def _forget(self, run_ids: Iterable[int]) -> None:
        with self._lock:
            for run_id in run_ids:
                self._unknown.pop(run_id, None)

    def _is_alive(self, row: RoutedRun) -> bool:
        app = self._context.app_names.name_of(row.app_id) or ""
        return self._roster.standing(app, row.address, row.boot_id) is Standing.ALIVE

    def _send(self, run_ids: Sequence[int]) -> None:
        taken_at = self._context.monotonic()
        rows = self._context.database.read(lambda session: queries.by_ids(session, run_ids))
        triggers, orphans = made_again(self._context, rows)
        log.info("triggers_rescued", count=len(triggers))
        result = self._publisher.send(triggers, decided_at=taken_at).result()
        self._note(result, orphans)

    def _note(self, result: BatchResult, orphans: Sequence[RoutedRun]) -> None:
        now_ms = self._context.now_ms()
        sent = [item.trigger.run_id for item in result.confirmed]
        ends = [_unsent(row.id, Why.JOB_GONE(), now_ms) for row in orphans]
        ends += [_unsent(item.trigger.run_id, why, now_ms) for item, why in result.unsendable]

        def mark_sent(session: Session) -> None:
            if sent:
                transitions.mark_sent(session, sent, node=self._context.node, now_ms=now_ms)

        # A returned copy proves nothing about the first: its queue may have existed then.
        open_ids = [item.trigger.run_id for item in (*result.unknown, *result.returned)]
        self.note_unknown(open_ids)
        for app, address in {(item.app, item.address) for item in result.returned}:
            self._on_missing(app, address)
        if sent or ends:
            self._ender.end(ends, first=mark_sent)
        self._forget(sent)


def _unsent(run_id: int, why: Words, now_ms: int) -> End:
    """End a run that cannot be sent again; its first copy may have arrived and started."""
    return lost(run_id, Why.TRIGGER_UNCONFIRMED(why=why), now_ms, only_from=RunStatus.ROUTED)
