"""Backfills on a terminal: as rows of a table, in detail, and their due times."""

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from warren.scheduler.commands.business_day.backfills import PreviewedTick
from warren.scheduler.views.backfill_view import BackfillView, FilledTick
from warren.views.instants import local
from warren.views.terminal import relative

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
