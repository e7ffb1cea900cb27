"""Calendars: what they say, and new versions of them."""

from warren.errands.desk import Desk
from warren.jobfile.reader import read_job_files
from warren.jobfile.sources import Source
from warren.route_plugins import route_names
from warren.scheduler.commands.job_files.preview import (
    foresee_calendars,
    store_calendars,
)
from warren.scheduler.views.job_file_view import applied_view
from warren.terminal.changes import change_json, change_lines


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
    applied = applied_view(changes, dry_run=dry_run)
    for each in applied.changes:
        if as_json:
            desk.record(change_json(each, {}))
        else:
            for text, sign in change_lines(each, dry_run=dry_run):
                desk.line(text, sign)
    if not as_json:
        desk.line(f"{len(applied.changes)} changed, {applied.unchanged} unchanged")
    desk.output.facts["changes"] = len(applied.changes)
