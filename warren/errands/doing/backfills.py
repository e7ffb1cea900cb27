"""Making, listing, showing, pausing, resuming and cancelling backfills."""

from dataclasses import asdict

from warren.errands.desk import Desk
from warren.errands.doing.job_runs import DID_NOT_SUCCEED
from warren.scheduler.backfills.draft import BackfillRequest
from warren.scheduler.schedules.run_date import parse_date
from warren.scheduler.views.backfill_view import backfill_view, filled_ticks
from warren.scheduler.views.to_json import plain, to_json
from warren.sql.backfill_status import BackfillState, Selection
from warren.sql.listings import backfills
from warren.sql.listings.backfills import BackfillFilter, ListedBackfill
from warren.views.backfills import (
    HEADERS,
    PREVIEW_HEADERS,
    TICK_HEADERS,
    backfill_facts,
    backfill_line,
    outcome_line,
    preview_lines,
    tick_lines,
)


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
        desk.record(to_json(view))
        return
    desk.line(outcome_line(view))


def list_backfills(
    desk: Desk,
    *,
    job: str | None = None,
    going: bool = False,
    limit: int = 50,
    as_json: bool = False,
) -> None:
    """List backfills, newest first."""
    wanted = BackfillFilter(
        app_ids=desk.actor.app_ids,
        job_ids=desk.actor.job_ids,
        job_id=None if job is None else desk.ids.job(job),
        is_going=going,
        limit=limit,
    )
    now = desk.now_ms()
    rows = desk.database.read(lambda session: backfills.listing(session, wanted))
    views = [backfill_view(row, now_ms=now) for row in rows]
    if as_json:
        for view in views:
            desk.record(to_json(view))
        return
    desk.table(HEADERS, [backfill_line(view, now_ms=now) for view in views], "no such backfills")


def show_backfill(desk: Desk, *, backfill_id: int, as_json: bool = False) -> None:
    """Show a backfill and its due times."""
    now = desk.now_ms()
    listed = _listed(desk, backfill_id)
    ticks = desk.database.read(lambda session: filled_ticks(session, listed.backfill))
    view = backfill_view(listed, now_ms=now, ticks=ticks)
    if as_json:
        desk.record(to_json(view) | {"ticks": [to_json(tick) for tick in ticks]})
        return
    desk.facts(backfill_facts(view, now_ms=now, zone=desk.zone))
    desk.table(TICK_HEADERS, tick_lines(ticks, desk.zone), "no due times")


def _listed(desk: Desk, backfill_id: int) -> ListedBackfill:
    actor = desk.actor
    return desk.database.read(
        lambda session: backfills.show(
            session, backfill_id, app_ids=actor.app_ids, job_ids=actor.job_ids
        )
    )


def pause_backfill(desk: Desk, *, backfill_id: int) -> None:
    """Let a backfill plan no more runs until it is resumed."""
    desk.commands.backfills.pause(backfill_id)
    desk.line(f"backfill {backfill_id} is paused; its open runs continue")


def resume_backfill(desk: Desk, *, backfill_id: int) -> None:
    """Let a paused backfill go on."""
    desk.commands.backfills.resume(backfill_id)
    desk.line(f"backfill {backfill_id} goes on")


def cancel_backfill(desk: Desk, *, backfill_id: int, kill: bool = False) -> None:
    """Let a backfill plan no more runs; with `kill`, end its open ones."""
    killed = desk.commands.backfills.cancel(backfill_id, kill=kill)
    rest = f"; {killed} open runs are killed" if kill else "; its open runs continue"
    desk.line(f"backfill {backfill_id} is cancelled{rest}")


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
