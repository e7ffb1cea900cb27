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
