"""Imports the past: day reports, and finished runs with their ids of the source."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.imports.import_outcomes import ImportAction, Outcome
from warren.scheduler.imports.items import ImportedDay, ImportedRun
from warren.sql.batch import chunks
from warren.sql.imports import past_runs
from warren.sql.instants import at, at_as_text
from warren.sql.run_status import Kind

DAY = "day"
#: Run ids that are skipped, so that no executor writes into the log of an imported run.
GAP = 1_000_000


class PastRunImport:
    """Imports days and runs on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def raise_run_ids(self, highest: int) -> None:
        """Make new runs get ids far above `highest`, the highest id of the source."""
        self._context.write(
            Right.ADMINISTER, lambda session: past_runs.raise_run_ids(session, highest + GAP)
        )

    def days(self, items: Sequence[ImportedDay], *, today: date, is_preview: bool) -> list[Outcome]:
        """Import the days before today of which no run is counted here; return what was done."""

        def unit(session: Session) -> list[Outcome]:
            counted = past_runs.counted_days(session, [one.day for one in items])
            kept = [_why_kept(one, counted.get(one.day), today) for one in items]
            if not is_preview:
                new = [one for one, why in zip(items, kept, strict=True) if not why]
                counts = {one.day: (one.succeeded, one.failed) for one in new}
                past_runs.add_days(session, counts, at=at(self._context.now_ms()))
            return [_day_outcome(one, why) for one, why in zip(items, kept, strict=True)]

        if is_preview:
            return self._context.database.read(unit)
        return self._context.write(Right.ADMINISTER, unit)

    def runs(
        self, items: Iterable[ImportedRun], job_ids: Mapping[int, int], app_ids: Mapping[int, int]
    ) -> tuple[int, int]:
        """Import runs whose ids are free; return how many, and how many ids were taken.

        `job_ids` and `app_ids` map the source's job ids to the ids here of the job and its app.
        """
        added = taken = 0
        free = self._context.database.read(past_runs.jumped_run_ids)
        for chunk in chunks(items):
            rows = [
                _row(one, job_ids[one.job_id], app_ids[one.job_id])
                for one in chunk
                if any(one.source_id in ids for ids in free)
            ]

            def unit(session: Session, rows: list[dict[str, object]] = rows) -> int:
                ids = [int(str(row["id"])) for row in rows]
                known = past_runs.known_run_ids(session, ids)
                past_runs.add_runs(session, [row for row in rows if row["id"] not in known])
                return len(known)

            known = self._context.write(Right.ADMINISTER, unit)
            added += len(rows) - known
            taken += len(chunk) - len(rows) + known
        return added, taken


def _row(item: ImportedRun, job_id: int, app_id: int) -> dict[str, object]:
    """Return the row of a run.

    Every run gets the kind MANUAL and is its own origin, because the source has the cause only as
    text.
    """
    due = at_as_text(item.triggered_ms)
    return {
        "id": item.source_id,
        "app_id": app_id,
        "job_id": job_id,
        "address": item.address or None,
        "handler": item.handler,
        "param": item.param,
        "sharding": item.sharding or None,
        "retries_left": 0,
        "due_second": due,
        "trigger_code": item.codes[0],
        "trigger_message": item.trigger_message,
        "finished_second": at_as_text(item.finished_ms),
        "handle_code": item.codes[1],
        "message": item.message,
        "alarm_status": 0,
        "status": item.status.value,
        "kind": Kind.MANUAL.value,
        "scheduled_at": item.triggered_ms,
        "due_at": item.triggered_ms,
        "origin_id": item.source_id,
        "shard_index": 0,
        "shard_total": 1,
        "attempt": 0,
        "redeliveries": 0,
        "started_at": item.triggered_ms,
        "finished_at": item.finished_ms,
    }


def _why_kept(item: ImportedDay, counted: int | None, today: date) -> str:
    """Return why a day's report stays as it is; empty if it is to be stored.

    `counted` is the number of runs in the report here; None = there is none.
    """
    if item.day >= today:
        return "it is not over"
    if counted is None or (counted == 0 and item.succeeded + item.failed):
        return ""
    return "it has a report here"


def _day_outcome(item: ImportedDay, why_not: str) -> Outcome:
    return Outcome(
        action=ImportAction.UNCHANGED if why_not else ImportAction.CREATE,
        what=DAY,
        source_id=item.source_id,
        target_id=0,
        name=item.day.isoformat(),
        words=why_not,
    )
