"""Limits that jobs share, and the runs that wait."""

from typing import Any

from warren.errands.desk import Desk
from warren.scheduler.views.limit_view import in_words, waits_for
from warren.scheduler.views.to_json import run_json
from warren.sql.limits import usage
from warren.terminal.output import relative
from warren.terminal.run_lines import job_name

_QUEUE_HEADERS = ("id", "job", "app", "kind", "due", "waits for")


def list_queue(
    desk: Desk, *, app: str | None = None, limit: int = 50, as_json: bool = False
) -> None:
    """List due runs that are not sent yet, the longest waiting first, and what they wait for."""
    now = desk.now_ms()
    app_ids = desk.actor.app_ids if app is None else frozenset({desk.ids.app(app)})

    def read(session: Any) -> Any:
        rows = usage.queue(session, app_ids, desk.actor.job_ids, now_ms=now, most=limit)
        return rows, waits_for(session, rows, desk.actor, now_ms=now)

    rows, why = desk.database.read(read)
    if as_json:
        for row in rows:
            desk.record(run_json(row, in_words(why, row.id)))
        return
    lines = [
        (
            str(row.id),
            job_name(row),
            row.app or "",
            row.kind,
            relative(row.due_at, now),
            "; ".join(in_words(why, row.id)) or "a scheduler, or an executor with room",
        )
        for row in rows
    ]
    desk.table(_QUEUE_HEADERS, lines, "nothing waits")
