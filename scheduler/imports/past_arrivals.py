"""Imports the past: day reports, and finished runs with their ids of the source."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from sqlalchemy.orm import Session

from scheduler.actor import Right
from scheduler.commands.command_context import CommandContext
from scheduler.imports.arrivals import DayArrival, RunArrival
from scheduler.imports.import_outcomes import ImportAction, Outcome
from sql.batch import chunks
from sql.imports import past
from sql.instants import at, at_as_text
from sql.run_status import Kind

DAY = "day"
#: Run ids that are skipped, so that no executor writes into the log of an imported run.
GAP = 1_000_000


class PastArrivals:
    """Imports days and runs on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def raise_run_ids(self, highest: int) -> None:
        """Make new runs get ids far above `highest`, the highest id of the source."""
        self._context.write(
            Right.ADMINISTER, lambda session: past.raise_run_ids(session, highest + GAP)
        )

    def days(
        self, arrivals: Sequence[DayArrival], *, today: date, is_preview: bool
    ) -> list[Outcome]:
        """Import the days before today that have no report here; return what was done."""

        def unit(session: Session) -> list[Outcome]:
            known = past.known_days(session, [one.day for one in arrivals])
            new = [one for one in arrivals if one.day not in known and one.day < today]
            if not is_preview:
                counts = {one.day: (one.succeeded, one.failed) for one in new}
                past.add_days(session, counts, at=at(self._context.now_ms()))
            return [_day_outcome(one, is_new=one in new) for one in arrivals]

        if is_preview:
            return self._context.database.read(unit)
        return self._context.write(Right.ADMINISTER, unit)

    def runs(
        self, arrivals: Iterable[RunArrival], job_ids: Mapping[int, int], app_ids: Mapping[int, int]
    ) -> tuple[int, int]:
        """Import runs whose ids are free; return how many, and how many ids were taken.

        `job_ids` and `app_ids` map the source's job ids to the ids here of the job and its app.
        """
        added = taken = 0
        free = self._context.database.read(past.jumped_run_ids)
        for chunk in chunks(arrivals):
            rows = [
                _row(one, job_ids[one.job_id], app_ids[one.job_id])
                for one in chunk
                if any(one.source_id in ids for ids in free)
            ]

            def unit(session: Session, rows: list[dict[str, object]] = rows) -> int:
                ids = [int(str(row["id"])) for row in rows]
                known = past.known_run_ids(session, ids)
                past.add_runs(session, [row for row in rows if row["id"] not in known])
                return len(known)

            known = self._context.write(Right.ADMINISTER, unit)
            added += len(rows) - known
            taken += len(chunk) - len(rows) + known
        return added, taken


def _row(arrival: RunArrival, job_id: int, app_id: int) -> dict[str, object]:
    """Return the row of a run.

    Every run gets the kind MANUAL and is its own origin, because the source has the cause only as
    text.
    """
    due = at_as_text(arrival.triggered_ms)
    return {
        "id": arrival.source_id,
        "app_id": app_id,
        "job_id": job_id,
        "address": arrival.address or None,
        "handler": arrival.handler,
        "param": arrival.param,
        "sharding": arrival.sharding or None,
        "retries_left": 0,
        "due_second": due,
        "trigger_code": arrival.codes[0],
        "trigger_message": arrival.trigger_message,
        "finished_second": at_as_text(arrival.finished_ms),
        "handle_code": arrival.codes[1],
        "message": arrival.message,
        "alarm_status": 0,
        "status": arrival.status.value,
        "kind": Kind.MANUAL.value,
        "scheduled_at": arrival.triggered_ms,
        "due_at": arrival.triggered_ms,
        "origin_id": arrival.source_id,
        "shard_index": 0,
        "shard_total": 1,
        "attempt": 0,
        "redeliveries": 0,
        "started_at": arrival.triggered_ms,
        "finished_at": arrival.finished_ms,
    }


def _day_outcome(arrival: DayArrival, *, is_new: bool) -> Outcome:
    return Outcome(
        action=ImportAction.CREATE if is_new else ImportAction.UNCHANGED,
        what=DAY,
        source_id=arrival.source_id,
        target_id=0,
        name=arrival.day.isoformat(),
        words="" if is_new else "its runs are already counted here",
    )
