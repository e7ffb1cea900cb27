"""Making, listing, showing, pausing, resuming and cancelling backfills."""

from collections.abc import Sequence
from dataclasses import asdict
from zoneinfo import ZoneInfo

from warren.errands.desk import Desk
from warren.errands.doing.runs import DID_NOT_SUCCEED
from warren.scheduler.backfills.draft import BackfillRequest
from warren.scheduler.commands.backfill_commands import PreviewedTick
from warren.scheduler.schedules.run_date import parse_date
from warren.scheduler.views.backfill_view import (
    BackfillView,
    FilledTick,
    backfill_view,
    filled_ticks,
)
from warren.scheduler.views.to_json import plain, to_json
from warren.sql.backfill_status import BackfillState, Selection
from warren.sql.listings import backfills
from warren.sql.listings.backfills import BackfillFilter, ListedBackfill
from warren.terminal.output import local, relative

HEADERS = ("id", "job", "app", "dates", "state", "done", "failed", "open", "made", "by")
TICK_HEADERS = ("run date", "due", "state", "run")
PREVIEW_HEADERS = ("run date", "due", "so far", "would run")


def backfill_line(view: BackfillView, *, now_ms: int) -> tuple[str, ...]:
    """Return a backfill as a row of a table with `HEADERS`."""
    return (
        str(view.id),
        view.job or "(deleted job)",
        view.app,
        dates_of(view),
        view.state,
        f"{view.done:,} of {view.due_times:,}",
        str(view.failed or ""),
        str(view.open or ""),
        relative(view.made_at, now_ms),
        view.made_by,
    )


def backfill_facts(view: BackfillView, *, now_ms: int, zone: ZoneInfo) -> dict[str, str]:
    """Return everything about a backfill except its due times."""
    counts = {
        "succeeded": view.succeeded,
        "failed": view.failed,
        "skipped": view.skipped,
        "open": view.open,
        "to come": view.to_come,
        "left out": view.left_out,
    }
    options = {
        "newest first": view.newest_first,
        f"only {view.only}": view.only != "all",
        "stops on failure": view.stop_on_failure,
        "no children": not view.children,
        "instead of the schedule": view.instead,
    }
    times = {"made": view.made_at, "expected": view.expected_at, "ended": view.ended_at}
    return {
        "backfill": str(view.id),
        "job": f"{view.app}/{view.job}" if view.job else "(deleted job)",
        "state": f"{view.state}: {view.reason}" if view.reason else view.state,
        "dates": dates_of(view),
        "due times": f"{view.due_times:,}",
        **{name: f"{count:,}" for name, count in counts.items() if count},
        "at once": str(view.at_once),
        "options": ", ".join(name for name, is_on in options.items() if is_on),
        "param": view.param or "",
        "key": view.key or "",
        "made by": view.made_by,
        **{n: f"{local(t, zone)}  ({relative(t, now_ms)})" if t else "" for n, t in times.items()},
    }


def outcome_line(view: BackfillView) -> str:
    """Return how a backfill has ended, or why it waits, as one line."""
    counts = {"succeeded": view.succeeded, "failed": view.failed, "skipped": view.skipped}
    counts |= {"left out": view.left_out, "to come": view.to_come}
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    reason = f": {view.reason}" if view.reason else ""
    return f"backfill {view.id} {view.state}{reason}; {listed or 'no due times'}"


def tick_lines(ticks: Sequence[FilledTick], zone: ZoneInfo) -> list[tuple[str, ...]]:
    """Return due times as rows of a table with `TICK_HEADERS`."""
    return [
        (tick.run_date, local(tick.scheduled_at, zone), tick.state, str(tick.run_id or ""))
        for tick in ticks
    ]


def preview_lines(ticks: Sequence[PreviewedTick], zone: ZoneInfo) -> list[tuple[str, ...]]:
    """Return due times of a backfill that is not made as rows with `PREVIEW_HEADERS`."""
    return [
        (tick.run_date, local(tick.scheduled_at, zone), tick.state, "yes" if tick.runs else "no")
        for tick in ticks
    ]


def dates_of(view: BackfillView) -> str:
    """Return the range of a backfill's run dates; empty if it was made for single due times."""
    if view.from_date is None:
        return ""
    return view.from_date if view.from_date == view.to_date else f"{view.from_date}..{view.to_date}"


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
