"""Jobs: as rows of a table and in detail."""

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from warren.errands.desk import Desk, visible_children, visible_spec
from warren.resources.instant import to_builtins
from warren.scheduler.jobs.places import words_of
from warren.scheduler.jobs.spec import FIELDS
from warren.scheduler.schedules.calendar_rows import calendars_for
from warren.scheduler.schedules.reading import waits_for
from warren.scheduler.schedules.registry import has_schedule
from warren.scheduler.views import blockers
from warren.scheduler.views.blockers import blocker_json
from warren.scheduler.views.job_view import JobView, job_json, job_view
from warren.scheduler.views.job_warnings import OLD_RULE
from warren.scheduler.views.run_view import run_of, skip_of
from warren.sql.jobs import skips
from warren.sql.listings import job_search, recent, run_search
from warren.sql.listings.job_search import ListedJob
from warren.sql.listings.run_search import RunSearch
from warren.sql.runs.run_rows import DetailedRun
from warren.terminal.output import local, relative
from warren.terminal.run_lines import HEADERS as RUN_HEADERS
from warren.terminal.run_lines import SKIP_HEADERS, run_line, skip_line

HEADERS = ("name", "app", "schedule", "next", "state", "last run", "last due")

#: Fields that have no line of their own, because other lines show them.
_SHOWN_ELSEWHERE = frozenset(
    {"name", "app", "handler", "children", "enabled"}
    | {name for name, field in FIELDS.items() if field.kind.group in ("schedule", "script")}
)
#: Runs and skips that are shown with a job.
_LAST_RUNS = 10
_LAST_SKIPS = 5


def job_line(job: JobView, *, now_ms: int) -> tuple[str, ...]:
    """Return a job as a row of a table with `HEADERS`."""
    return (
        job.spec.name,
        job.spec.app,
        job.schedule,
        relative(job.next_fire_at, now_ms),
        _state(job),
        job.last_status or "",
        relative(job.last_due_at, now_ms),
    )


def job_facts(job: JobView, *, now_ms: int, zone: ZoneInfo, waits: str) -> dict[str, str]:
    """Return everything about a job; `waits` is what it waits for, if anything."""
    tick = job.next_fire_at
    return {
        "job": f"{job.spec.app}/{job.spec.name}",
        "id": str(job.id),
        "state": _state(job),
        "stopped because": job.stop_reason,
        "schedule": f"{job.schedule}  ({job.timezone})",
        "rule": OLD_RULE if job.spec.follows_old_rule else "",
        "next fire": f"{local(tick, zone)}  ({relative(tick, now_ms)})" if tick else waits,
        "handler": job.spec.handler,
        "script": _script(job),
        **{
            field.title: field.kind.shown(getattr(job.spec, name))
            for name, field in FIELDS.items()
            if name not in _SHOWN_ELSEWHERE
        },
        "children": ", ".join(job.children),
        "declared in": words_of(job.declared_in),
    }


def _state(job: JobView) -> str:
    if job.enabled:
        return "enabled"
    is_on_demand = not (has_schedule(job.spec.schedule_kind) or job.stop_reason)
    return "on demand" if is_on_demand else "stopped"


def _script(job: JobView) -> str:
    if job.script_number is None or job.spec.flow is not None:
        return ""
    remark = f": {job.spec.script_remark}" if job.spec.script_remark else ""
    return f"{job.spec.script_language}, version {job.script_number}{remark}"


def list_jobs(desk: Desk, *, app: str | None = None, as_json: bool = False) -> None:
    """List jobs: when each fires next and how its last run went."""
    now, database, app_ids = desk.now_ms(), desk.database, desk.actor.app_ids
    if app is not None:
        desk.ids.app(app)
    most = desk.max_lines
    limit = None if most is None else most + 1
    rows = database.read(
        lambda session: job_search.jobs(session, now_ms=now, app=app, app_ids=app_ids, limit=limit)
    )
    if most is not None and len(rows) > most:
        rows = rows[:most]
        desk.warn(f"there are more than {most} jobs; --app lists those of one app")
    views = _views(desk, rows, now)
    if as_json:
        for view in views:
            desk.record(job_json(view))
        return
    lines = [job_line(view, now_ms=now) for view in views]
    desk.table(HEADERS, lines, "no jobs yet; try: warren jobs apply FILE.yaml")


def show_job(desk: Desk, *, name: str, as_json: bool = False) -> None:
    """Show everything about a job, its last runs and skips."""
    now, database = desk.now_ms(), desk.database
    job = _job(desk, name, now)
    runs = database.read(lambda session: _last_runs(session, job.id))
    [view] = _views(desk, [job], now)
    missed = skips.SkipFilter(job_id=job.id, limit=_LAST_SKIPS)
    skipped = database.read(lambda session: skips.lines(session, missed))
    all_blockers = database.read(lambda session: blockers.read(session, [job.app_id], now_ms=now))
    why = all_blockers.of_spec(view.spec)
    if as_json:
        more = {"blocked_by": blocker_json(why)}
        skipped_json = [to_builtins(skip_of(skip)) for skip in skipped]
        desk.record(job_json(view) | more | {"skips": skipped_json})
        return
    facts = job_facts(view, now_ms=now, zone=desk.zone, waits=waits_for(job))
    desk.facts(facts | {"no new runs": "; ".join(map(str, why))})
    desk.line()
    desk.table(RUN_HEADERS, [run_line(run_of(run), now_ms=now) for run in runs], "no runs yet")
    if skipped:
        desk.line()
        desk.line("Due times that were skipped:")
        desk.table(SKIP_HEADERS, [skip_line(skip_of(skip), desk.zone) for skip in skipped], "")


def _last_runs(session: Session, job_id: int) -> list[DetailedRun]:
    last = run_search.page(session, RunSearch(job_id=job_id, limit=_LAST_RUNS)).runs
    runs = recent.by_ids(session, [run.id for run in last])
    return sorted(runs, key=lambda run: (run.due_at, run.id), reverse=True)


def _job(desk: Desk, name: str, now: int) -> ListedJob:
    app_ids = desk.actor.app_ids
    return desk.database.read(
        lambda session: job_search.job(session, name, now_ms=now, app_ids=app_ids)
    )


def _views(desk: Desk, rows: Sequence[ListedJob], now: int) -> list[JobView]:
    ids = [row.id for row in rows]
    kin = desk.database.read(lambda session: visible_children(desk, session, ids))
    zone = desk.zone_of_jobs()
    known = desk.database.read(lambda session: calendars_for(session, rows))
    views = [
        job_view(row, now_ms=now, timezone=zone, children=kin.get(row.id, ()), calendars=known)
        for row in rows
    ]
    return [view._replace(spec=visible_spec(desk, view.spec)) for view in views]
