"""Making, listing, showing, pausing, resuming and cancelling backfills."""

from collections.abc import Sequence
from dataclasses import asdict
from zoneinfo import ZoneInfo

from warren.errands.desk import Desk
from warren.errands.doing.runs import DID_NOT_SUCCEED
from warren.resources.backfills import Backfill
from warren.resources.instant import to_builtins
from warren.scheduler.backfills.draft import BackfillRequest
from warren.scheduler.commands.backfill_commands import PreviewedTick
from warren.scheduler.schedules.run_date import parse_date
from warren.scheduler.views.backfill_view import backfill_view
from warren.scheduler.views.to_json import plain
from warren.sql.backfill_status import BackfillState, Selection
from warren.sql.listings import backfills
from warren.sql.listings.backfills import ListedBackfill
from warren.terminal.output import local

PREVIEW_HEADERS = ("run date", "due", "so far", "would run")


def outcome_line(view: Backfill) -> str:
    """Return how a backfill has ended, or why it waits, as one line."""
    counts = {"succeeded": view.succeeded, "failed": view.failed, "skipped": view.skipped}
    counts |= {"left out": view.left_out, "to come": view.to_come}
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    reason = f": {view.reason}" if view.reason else ""
    return f"backfill {view.id} {view.state}{reason}; {listed or 'no due times'}"


def preview_lines(ticks: Sequence[PreviewedTick], zone: ZoneInfo) -> list[tuple[str, ...]]:
    """Return due times of a backfill that is not made as rows with `PREVIEW_HEADERS`."""
    return [
        (tick.run_date, local(tick.scheduled_at, zone), tick.state, "yes" if tick.runs else "no")
        for tick in ticks
    ]


def make_backfill(
    desk: Desk,
    *,
    name: str,
    from_date: str,
    to_date: str,
    dates: bool = False,
    at_once: int = 1,
    newest_first: bool = False,
    only: str = Selection.MISSING.value,
    stop_on_failure: bool = False,
    no_children: bool = False,
    instead: bool = False,
    param: str | None = None,
    key: str | None = None,
    dry_run: bool = False,
    is_awaited: bool = False,
    as_json: bool = False,
) -> None:
    """Make a backfill of a job, or show what it would do; the output's `backfill_id` tells it."""
    request = BackfillRequest(
        from_date=parse_date(from_date, "--from"),
        to_date=parse_date(to_date, "--to"),
        dates=dates,
        at_once=at_once,
        newest_first=newest_first,
        selection=Selection(only),
        stop_on_failure=stop_on_failure,
        children=not no_children,
        instead=instead,
        param=param,
        key=key,
    )
    job_id = desk.ids.job(name)
    if dry_run:
        _show_preview(desk, job_id, request, as_json=as_json)
        return
    made = desk.commands.backfills.make(job_id, request, once=desk.once)
    for notice in made.notices:
        desk.warn(str(notice))
    desk.output.facts["backfill_id"] = made.id
    if as_json:
        if not is_awaited:
            desk.record({"id": made.id, "due_times": made.ticks, "is_new": made.is_new})
        return
    word = "planned" if made.is_new else "exists already"
    times = f"{made.ticks:,} due time{'' if made.ticks == 1 else 's'}"
    desk.line(f"backfill {made.id} of {times} {word}; to see it: warren backfills show {made.id}")


def show_outcome(desk: Desk, *, backfill_id: int, as_json: bool = False) -> None:
    """Show how a backfill ended; the output's `is_over` is whether it has, or waits for a person.

    The latter is one that is paused, with no open run.
    """
    view = backfill_view(_listed(desk, backfill_id), now_ms=desk.now_ms())
    is_over = view.ended_at is not None
    if view.state == BackfillState.PAUSED:
        is_over = not view.open
    desk.output.facts["is_over"] = is_over
    if not is_over:
        return
    is_fine = view.state == BackfillState.DONE and not view.failed
    desk.output.status = 0 if is_fine else DID_NOT_SUCCEED
    if as_json:
        desk.record(to_builtins(view))
        return
    desk.line(outcome_line(view))


def _listed(desk: Desk, backfill_id: int) -> ListedBackfill:
    actor = desk.actor
    return desk.database.read(
        lambda session: backfills.show(
            session, backfill_id, app_ids=actor.app_ids, job_ids=actor.job_ids
        )
    )


def _show_preview(desk: Desk, job_id: int, request: BackfillRequest, *, as_json: bool) -> None:
    preview = desk.commands.backfills.preview(job_id, request)
    for notice in preview.notices:
        desk.warn(str(notice))
    if as_json:
        for tick in preview.ticks:
            desk.record({name: plain(name, value) for name, value in asdict(tick).items()})
        return
    desk.table(PREVIEW_HEADERS, preview_lines(preview.ticks, desk.zone), "no due times")
    number = sum(tick.runs for tick in preview.ticks)
    desk.line(f"{number:,} of {len(preview.ticks):,} due times would run")
