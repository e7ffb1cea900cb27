"""Job files: apply them, check them without what is stored, and export jobs as one."""

import time
from collections.abc import Sequence

from sqlalchemy.orm import Session

from warren.errands.desk import Desk, visible_children
from warren.errors import JobFileError
from warren.jobfile.apply import apply, change_parts, changed_of, warnings_about
from warren.jobfile.check import check
from warren.jobfile.export import job_file
from warren.jobfile.reader import read_job_files
from warren.jobfile.sources import NO_VALUES, GivenValues, Source
from warren.route_plugins import route_names
from warren.scheduler.commands.job_files.job_file import FileParts, stored_parts
from warren.scheduler.jobs.past_spec import job_spec
from warren.scheduler.jobs.places import IN_FILE, JOB_FILE_BYTES, Origin, in_code
from warren.scheduler.jobs.rules import sound_specs
from warren.scheduler.views.job_warnings import warning_lines
from warren.sql.instants import moment
from warren.sql.jobs import job_file_rows


def apply_files(
    desk: Desk,
    *,
    files: list[Source],
    values: GivenValues = NO_VALUES,
    dry_run: bool = False,
    prune: bool = False,
    take_over: bool = False,
    module: str = "",
    app: str = "",
    as_json: bool = False,
) -> None:
    """Apply job files together; if anything is wrong, nothing is changed.

    `module`: the jobs are declared in its code; then `prune` deletes what it declared before, in
    all apps, or only in those of the jobs and in `app`. `take_over`: jobs that are declared
    elsewhere are declared here from now on. The output's `changes` is how many apps and jobs were
    changed, or would be.
    """
    file = read_job_files(files, values, now_ms=_now_ms(), added_routes=route_names())
    place = in_code(module) if module else IN_FILE
    origin = Origin(place=place, take_over=take_over, app=app)
    changes = apply(desk.context, file, dry_run=dry_run, prune=prune, origin=origin)
    warnings = warnings_about(desk.database, file, changes)
    for line in file.over_lines():
        desk.warn(line)
    desk.output.parts += change_parts(changes, warnings, dry_run=dry_run, as_json=as_json)
    desk.output.facts["changes"] = len(changed_of(changes))


def check_files(
    desk: Desk,
    *,
    files: list[Source],
    values: GivenValues = NO_VALUES,
    handlers: list[str] | None = None,
    schemas: dict[str, str] | None = None,
) -> None:
    """Say what applying job files together would say, were nothing stored.

    `handlers` are all that the jobs may name; None = any. `schemas` are the JSON Schemas of the
    params of those that have some.
    """
    checked = check(
        files, values, timezone=desk.context.timezone, handlers=handlers, schemas=schemas
    )
    if checked.problems:
        raise JobFileError(checked.problems)
    for line in (*checked.over, *warning_lines(checked.warnings)):
        desk.warn(line)
    count = len(checked.specs)
    desk.line(f"{count} {'job' if count == 1 else 'jobs'}, no problems")


def export_jobs(desk: Desk, *, names: list[str] = [], app: str | None = None) -> None:  # noqa: B006 - never changed
    """Export jobs as a job file, and warn about what it leaves out."""
    stored, past = desk.database.read(lambda session: _read(desk, session, app, names))
    specs, left_out = sound_specs(stored.specs, now_ms=desk.now_ms(), added_routes=route_names())
    left_out += past
    lines = job_file(stored.apps, specs, stored.limits, stored.calendars)
    text = "".join(f"{line}\n" for line in lines)
    desk.document(text)
    if len(text.encode()) > JOB_FILE_BYTES:
        left_out.append(
            f"this is over the {JOB_FILE_BYTES} bytes of a job file; export each --app alone"
        )
    for words in left_out:
        desk.warn(words)


def _read(
    desk: Desk, session: Session, app: str | None, names: Sequence[str]
) -> tuple[FileParts, list[str]]:
    """Return apps, limits, calendars and jobs to export: all, of one app, or the named ones.

    Apps come with their webhooks, so they are left out for who may not change them; so are limits
    and calendars.

    Raises:
        NotFound: there is no such app or job.

    """
    rows = job_file_rows.jobs(session, app=app, names=names, app_ids=desk.actor.app_ids)
    children = visible_children(desk, session, [job.id for job, _ in rows])
    specs = [job_spec(job, owner, children.get(job.id, ())) for job, owner in rows]
    if desk.actor.app_ids is not None:
        return FileParts(specs=specs), []
    wanted = {owner for _, owner in rows} | ({app} if app else set())
    stored_apps = job_file_rows.apps(session)
    shown = [stored for stored in stored_apps if stored.name in wanted or not (app or names)]
    return stored_parts(session, shown, specs, moment(desk.now_ms()).date())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
