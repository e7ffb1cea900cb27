"""Jobs: as rows of a table and in detail; starting, stopping and deleting them."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

from warren.errands.desk import Desk, visible_children, visible_spec
from warren.scheduler.commands.job_commands import OldRuleJob
from warren.scheduler.commands.job_edits import planned
from warren.scheduler.jobs.places import words_of
from warren.scheduler.jobs.spec import FIELDS
from warren.scheduler.schedules import registry
from warren.scheduler.schedules.calendar_rows import calendars_for
from warren.scheduler.schedules.clock_changes import clock_notes
from warren.scheduler.schedules.facts import ScheduleFacts
from warren.scheduler.schedules.reading import is_waiting, next_fires
from warren.scheduler.schedules.registry import has_schedule, shown_as
from warren.scheduler.schedules.why import Fate, fates
from warren.scheduler.schedules.working_days import Calendars
from warren.scheduler.views import blockers
from warren.scheduler.views.blockers import blocker_json
from warren.scheduler.views.job_view import JobView, job_json, job_view
from warren.scheduler.views.job_warnings import OLD_RULE
from warren.sql.instants import iso
from warren.sql.jobs import skips
from warren.sql.listings import backfills, job_search, recent
from warren.sql.listings.backfills import BackfillFilter
from warren.sql.listings.job_search import ListedJob
from warren.terminal.output import local, relative
from warren.terminal.run_lines import HEADERS as RUN_HEADERS
from warren.terminal.run_lines import SKIP_HEADERS, run_line, skip_json, skip_line

HEADERS = ("name", "app", "schedule", "next", "state", "last run", "last due")

#: Fields that have no line of their own, because other lines show them.
_SHOWN_ELSEWHERE = frozenset(
    {"name", "app", "handler", "children", "enabled"}
    | {name for name, field in FIELDS.items() if field.kind.group in ("schedule", "script")}
)
#: Runs and skips that are shown with a job.
_LAST_RUNS = 10
_LAST_SKIPS = 5
#: Changed due times of a job that are listed.
_SHOWN_TIMES = 2


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


def waits(job: ListedJob) -> str:
    """Return what a job waits for; empty if nothing."""
    return (
        shown_as(job.schedule_kind).waiting_for(job.schedule_value or "") if is_waiting(job) else ""
    )


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
    last = recent.RunFilter(job=f"{job.app}/{job.name}", limit=_LAST_RUNS)
    runs = database.read(lambda session: recent.runs(session, last))
    [view] = _views(desk, [job], now)
    missed = skips.SkipFilter(job_id=job.id, limit=_LAST_SKIPS)
    skipped = database.read(lambda session: skips.lines(session, missed))
    all_blockers = database.read(lambda session: blockers.read(session, [job.app_id], now_ms=now))
    why = all_blockers.of_spec(view.spec)
    if as_json:
        more = {"blocked_by": blocker_json(why), "skips": [skip_json(skip) for skip in skipped]}
        desk.record(job_json(view) | more)
        return
    facts = job_facts(view, now_ms=now, zone=desk.zone, waits=waits(job))
    desk.facts(facts | {"no new runs": "; ".join(map(str, why))})
    desk.line()
    desk.table(RUN_HEADERS, [run_line(run, now_ms=now) for run in runs], "no runs yet")
    if skipped:
        desk.line()
        desk.line("Due times that were skipped:")
        desk.table(SKIP_HEADERS, [skip_line(skip, desk.zone) for skip in skipped], "")


def next_fires_of(
    desk: Desk, *, name: str, count: int = 5, why: bool = False, as_json: bool = False
) -> None:
    """Show when a job fires next; with `why`, also what moved or left out each time."""
    now = desk.now_ms()
    job, zone_of_jobs = _job(desk, name, now), desk.zone_of_jobs()
    known = desk.database.read(lambda session: calendars_for(session, [job]))
    fires = next_fires(job, now_ms=now, count=count, timezone=zone_of_jobs, calendars=known)
    if not job.is_enabled:
        desk.warn(f"job {name!r} is stopped; these are its times if you start it now")
    if hint := registry.hint(job.schedule_kind, job.schedule_value):
        desk.warn(hint)
    zone = ZoneInfo(job.timezone or zone_of_jobs)
    facts = ScheduleFacts.of(job, zone.key)
    for note in clock_notes(facts, now_ms=now, calendars=known):
        desk.warn(str(note))
    if why:
        _say_why(desk, job, _fates(job, known, now, count, zone.key), zone, as_json=as_json)
        return
    if as_json:
        for fire in fires:
            desk.record({"job": job.name, "app": job.app, "fires_at": iso(fire)})
        return
    lines = [(local(fire, zone), relative(fire, now)) for fire in fires]
    desk.table(("fires at", "from now"), lines, waits(job) or "it never fires on its own")


def _fates(job: ListedJob, known: Calendars, now: int, count: int, zone: str) -> list[Fate]:
    anchor = job.next_tick_at if job.is_enabled else 0
    facts = ScheduleFacts.of(job, zone)
    return fates(facts, known, now_ms=now, anchor_ms=anchor or now, count=count)


def _say_why(
    desk: Desk, job: ListedJob, fates: Sequence[Fate], zone: ZoneInfo, *, as_json: bool
) -> None:
    if as_json:
        for fate in fates:
            why = (
                {"code": fate.why.code.name.lower(), "message": str(fate.why)} if fate.why else None
            )
            desk.record(
                {
                    "job": job.name,
                    "app": job.app,
                    "nominal_at": iso(fate.nominal_ms),
                    "fires_at": iso(fate.tick_ms),
                    "why": why,
                }
            )
        return
    alike = groupby(fates, lambda fate: (fate.tick_ms, str(fate.why or "").strip()))
    lines = [_fate_line(list(those), tick_ms, why, zone) for (tick_ms, why), those in alike]
    desk.table(("meant", "fires at", "why"), lines, "it never fires on its own")


def _fate_line(
    those: Sequence[Fate], tick_ms: int | None, why: str, zone: ZoneInfo
) -> tuple[str, str, str]:
    """Return the line of a time, or of times one after the other that are left out alike."""
    first, last = (local(fate.nominal_ms, zone) for fate in (those[0], those[-1]))
    if tick_ms is not None:
        return first, local(tick_ms, zone), why
    if len(those) == 1:
        return first, "left out", why
    return f"{first} to {last}", f"left out, {len(those)} times", why


def follow_rules(
    desk: Desk,
    *,
    names: list[str] = [],  # noqa: B006 - never changed
    app: str | None = None,
    dry_run: bool = False,
    as_json: bool = False,
) -> None:
    """Have schedules follow the newest rules, all or those of an app or of `names`.

    With `dry_run`, only list them. The output's `jobs` is how many they are.
    """
    wanted = {desk.ids.job(f"{app}/{name}" if app and "/" not in name else name) for name in names}
    found = desk.commands.jobs.with_old_rules(app)
    old = [job for job in found if not names or job.id in wanted]
    desk.output.facts["jobs"] = len(old)
    if not dry_run:
        moved = desk.commands.jobs.follow_rules([job.id for job in old])
        if as_json:
            desk.record({"moved": moved})
        else:
            desk.line(
                f"{moved} {'job follows' if moved == 1 else 'jobs follow'} the newest rule now"
            )
        return
    if as_json:
        for job in old:
            desk.record(_rule_json(job))
        return
    lines = [
        (
            f"{job.app}/{job.name}",
            job.schedule,
            _some(job.changed.before, ZoneInfo(job.timezone)),
            _some(job.changed.after, ZoneInfo(job.timezone)),
        )
        for job in old
    ]
    headers = ("job", "schedule", "no longer due", "newly due")
    desk.table(headers, lines, "every job follows the newest rule")


def _some(times: Sequence[int], zone: ZoneInfo) -> str:
    """Return the first of some times, and how many more there are."""
    shown = [local(at, zone) for at in times[:_SHOWN_TIMES]]
    more = len(times) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more else ())])


def _rule_json(job: OldRuleJob) -> dict[str, Any]:
    return {
        "job": job.name,
        "app": job.app,
        "schedule": job.schedule,
        "timezone": job.timezone,
        "no_longer_due": [iso(at) for at in job.changed.before],
        "newly_due": [iso(at) for at in job.changed.after],
    }


def start_jobs(desk: Desk, *, names: list[str]) -> None:
    """Start the schedules of jobs."""
    for name, job_id in _known(desk, names):
        changed = desk.commands.jobs.start(job_id)
        desk.line(f"{name} started" if changed else f"{name} is already started")


def stop_jobs(desk: Desk, *, names: list[str]) -> None:
    """Stop the schedules of jobs."""
    known = _known(desk, names)
    for name, job_id in known:
        stopped = desk.commands.jobs.stop(job_id)
        words = f"stopped{_also(stopped.cancelled)}" if stopped else "is already stopped"
        desk.line(f"{name} {words}")
    for name, job_id in known:
        going = BackfillFilter(app_ids=desk.actor.app_ids, job_id=job_id, is_going=True)
        for row in desk.database.read(partial(backfills.listing, wanted=going)):
            desk.warn(f"backfill {row.backfill.id} of {name} goes on")


def delete_job(desk: Desk, *, name: str) -> None:
    """Delete a job."""
    cancelled = desk.commands.jobs.delete([desk.ids.job(name)])
    desk.line(f"{name} deleted{_also(sum(cancelled.values()))}")


def _known(desk: Desk, names: Sequence[str]) -> list[tuple[str, int]]:
    """Return jobs with their ids; nothing happens to any of them if one does not exist."""
    return [(name, desk.ids.job(name)) for name in names]


def _also(cancelled: int) -> str:
    return f"; cancelled: {planned(cancelled)}" if cancelled else ""


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
