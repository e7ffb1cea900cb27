"""Calendars: what they say, and new versions of them."""

from warren.errands.desk import Desk
from warren.jobfile.apply import change_parts, changed_of
from warren.jobfile.reader import read_job_files
from warren.jobfile.sources import Source
from warren.route_plugins import route_names
from warren.scheduler.commands.job_files.preview import (
    foresee_calendars,
    store_calendars,
)
from warren.scheduler.views.calendar_view import (
    calendar_json,
    calendar_views,
    read_year,
    year_json,
)
from warren.sql.instants import moment
from warren.terminal.output import local

_HEADERS = ("name", "version", "weekend", "known until", "from", "jobs", "made by", "counts from")


def apply_calendars(
    desk: Desk, *, files: list[Source], dry_run: bool = False, as_json: bool = False
) -> None:
    """Apply the calendars of job files, and nothing else of them.

    The output's `changes` is how many calendars were changed, or would be.
    """
    file = read_job_files(files, now_ms=desk.now_ms(), added_routes=route_names())
    file.refuse_over()
    foreseen = foresee_calendars(desk.context, file.calendars)
    for change in foreseen.of:
        if change.not_taken and not change.number:  # of one that changes, its change says so
            desk.warn(f"calendar {change.name}: {change.not_taken}")
    changes = foreseen.changes if dry_run else store_calendars(desk.context, foreseen)
    desk.output.parts += change_parts(changes, [], dry_run=dry_run, as_json=as_json)
    desk.output.facts["changes"] = len(changed_of(changes))


def list_calendars(desk: Desk, *, as_json: bool = False) -> None:
    """List the calendars."""
    views = desk.database.read(lambda session: calendar_views(session, desk.actor.app_ids))
    if as_json:
        for view in views:
            desk.record(calendar_json(view))
        return
    rows = [
        (
            view.name,
            str(view.version),
            ",".join(view.weekend),
            view.until,
            view.source,
            str(len(view.jobs)),
            view.made_by,
            local(view.effective_at, desk.zone),
        )
        for view in views
    ]
    nothing = "no calendars yet; try: warren calendars apply --name cn --from holidays:CN"
    desk.table(_HEADERS, rows, nothing)


def show_calendar(
    desk: Desk,
    *,
    name: str,
    year: int | None = None,
    version: int | None = None,
    as_json: bool = False,
) -> None:
    """Show the days of a year that are not as their weekday says."""
    year = year or moment(desk.now_ms(), desk.zone).year
    shown = desk.database.read(
        lambda session: read_year(session, name, year, version=version, app_ids=desk.actor.app_ids)
    )
    if as_json:
        desk.record(year_json(shown))
        return
    view = shown.calendar
    desk.facts(
        {
            "calendar": f"{view.name}, version {view.version} of {shown.versions}",
            "weekend": ", ".join(view.weekend) or "none",
            "known until": view.until,
            "from": view.source or "the job file",
            "working days": f"{shown.working_days} in {shown.year}",
            "jobs": ", ".join(view.jobs) or "none",
        }
        | ({"in its feed": view.not_taken} if view.not_taken else {})
    )
    desk.line()
    rows = [
        (day.date, day.weekday, "work" if day.is_working else "off", day.name)
        for day in shown.special
    ]
    desk.table(("day", "weekday", "", "name"), rows, "every day is as its weekday says")
