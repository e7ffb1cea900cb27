"""Makes the triggers of runs again that were routed before: the same ids, addresses and boots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import structlog
from sqlalchemy.orm import Session

from warren.scheduler.jobs.script_cache import Script, Scripts
from warren.scheduler.node_context import NodeContext
from warren.scheduler.triggers.building import routed_trigger
from warren.scheduler.triggers.messages import RoutedTrigger
from warren.sql.jobs import jobs
from warren.sql.jobs.jobs import JobToRun
from warren.sql.runs.run_rows import RoutedRun

log = structlog.get_logger()


class Resending(NamedTuple):
    """The triggers of runs, and the runs that get none any more."""

    triggers: list[RoutedTrigger]
    orphans: list[RoutedRun]


@dataclass(frozen=True, slots=True)
class TriggerParts:
    """What triggers are made of besides their runs, by id."""

    jobs: Mapping[int, JobToRun]
    apps: Mapping[int, str]
    scripts: Mapping[int, Script | None]

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
            )
        except ValueError as error:
            log.warning("trigger_not_made", run_id=row.id, job_id=row.job_id, error=str(error))
            return None


class Resender:
    """Makes triggers again for rescuer and reconciler; it publishes nothing."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context

    def again(self, rows: Sequence[RoutedRun]) -> Resending:
        """Return the triggers of routed runs, and the runs that get none any more."""
        apps = self._context.app_names.known()
        parts = self._context.database.read(lambda session: _parts(session, rows, apps))
        made = [(row, parts.trigger(row)) for row in rows]
        return Resending(
            triggers=[trigger for _, trigger in made if trigger is not None],
            orphans=[row for row, trigger in made if trigger is None],
        )


def _parts(session: Session, rows: Sequence[RoutedRun], apps: Mapping[int, str]) -> TriggerParts:
    return TriggerParts(
        jobs=jobs.for_runs(session, {row.job_id for row in rows}),
        apps=apps,
        scripts=Scripts().read(session, [row.script_version for row in rows]),
    )
