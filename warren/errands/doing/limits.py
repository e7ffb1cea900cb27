"""Limits that jobs share, and the runs that wait."""

from typing import Any

from warren.broker.durations import read_duration, shown
from warren.errands.desk import Desk
from warren.errors import CommandError
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.limits.specs import LimitSpec
from warren.scheduler.problems import Code, Problem
from warren.scheduler.views import limit_view
from warren.scheduler.views.limit_view import LimitView, in_words, waits_for
from warren.scheduler.views.to_json import run_json
from warren.sql.limits import usage
from warren.terminal.output import relative
from warren.terminal.run_lines import job_name

_HEADERS = ("name", "limit", "held", "left", "waiting", "jobs")
_QUEUE_HEADERS = ("id", "job", "app", "kind", "due", "waits for")
_DONE = {
    ChangeAction.CREATE: "created",
    ChangeAction.UPDATE: "updated",
    ChangeAction.UNCHANGED: "unchanged",
}


def list_limits(desk: Desk, *, as_json: bool = False) -> None:
    """List limits: how full they are, and how many runs wait for them."""
    views = _read(desk)
    if as_json:
        for view in views:
            desk.record(_json(view))
        return
    lines = [
        (
            view.spec.name,
            view.spec.words,
            "" if view.spec.at_once is None else f"{view.held} of {view.spec.at_once}",
            "" if view.left is None else str(view.left),
            str(sum(job.waiting for job in view.jobs)),
            str(len(view.jobs) + view.other_jobs),
        )
        for view in views
    ]
    desk.table(_HEADERS, lines, "there are no limits")


def show_limit(desk: Desk, *, name: str, as_json: bool = False) -> None:
    """Show a limit, the runs that hold it, and the jobs that take it."""
    views = _read(desk, name)
    if not views:
        raise Problem(Code.NO_LIMIT_NAMED, name=name[:100])
    [view] = views
    if as_json:
        desk.record(_json(view))
        return
    hidden = view.other_jobs
    desk.facts(
        {
            "limit": view.spec.name,
            "allows": view.spec.words,
            "held": "" if view.spec.at_once is None else f"{view.held} of {view.spec.at_once}",
            "left": "" if view.left is None else str(view.left),
            "held by": ", ".join(
                f"{holder.app}/{holder.job} #{holder.run_id}" if holder.run_id else "another app"
                for holder in view.holders
            ),
            "jobs": ", ".join(
                f"{job.app}/{job.job} ({job.weight} each, {job.waiting} waiting)"
                for job in view.jobs
            )
            + (f" and {hidden} of other apps" if hidden else ""),
        }
    )


def apply_limit(
    desk: Desk,
    *,
    name: str,
    at_once: int | None = None,
    rate: int | None = None,
    per: str | None = None,
) -> None:
    """Create a limit, or change it."""
    seconds = None if per is None else read_duration(per, "--per")
    if seconds is not None and seconds % 1:
        raise CommandError(f"expected --per to be whole seconds, got: {per!r}")
    whole = None if seconds is None else int(seconds)
    spec = LimitSpec(name=name, at_once=at_once, rate=rate, per=whole)
    done = desk.commands.limits.apply(spec)
    desk.line(f"{_DONE[done]} limit {name}: {spec.words}")
    [view] = _read(desk, name)
    if at_once is not None and view.held > at_once:
        desk.warn(f"{view.held} are held now; no run starts until fewer than {at_once} are")


def delete_limit(desk: Desk, *, name: str) -> None:
    """Delete a limit that no job names and no run holds."""
    desk.commands.limits.delete(name)
    desk.line(f"deleted limit {name}")


def list_queue(
    desk: Desk, *, app: str | None = None, limit: int = 50, as_json: bool = False
) -> None:
    """List due runs that are not sent yet, the longest waiting first, and what they wait for."""
    now = desk.now_ms()
    app_ids = desk.actor.app_ids if app is None else frozenset({desk.ids.app(app)})

    def read(session: Any) -> Any:
        rows = usage.queue(session, app_ids, desk.actor.job_ids, now_ms=now, most=limit)
        return rows, waits_for(session, rows, desk.actor, now_ms=now)

    rows, why = desk.database.read(read)
    if as_json:
        for row in rows:
            desk.record(run_json(row, in_words(why, row.id)))
        return
    lines = [
        (
            str(row.id),
            job_name(row),
            row.app or "",
            row.kind,
            relative(row.due_at, now),
            "; ".join(in_words(why, row.id)) or "a scheduler, or an executor with room",
        )
        for row in rows
    ]
    desk.table(_QUEUE_HEADERS, lines, "nothing waits")


def _read(desk: Desk, name: str | None = None) -> list[LimitView]:
    now = desk.now_ms()
    return desk.database.read(
        lambda session: limit_view.read(session, desk.actor, now_ms=now, name=name)
    )


def _json(view: LimitView) -> dict[str, Any]:
    return {
        "name": view.spec.name,
        "at_once": view.spec.at_once,
        "rate": view.spec.rate,
        "per": None if view.spec.per is None else shown(view.spec.per),
        "held": view.held,
        "left": view.left,
        "held_by": [
            {
                "run": holder.run_id,
                "app": holder.app,
                "job": holder.job,
                "status": holder.status,
                "weight": holder.weight,
            }
            for holder in view.holders
        ],
        "jobs": [
            {"app": job.app, "job": job.job, "weight": job.weight, "waiting": job.waiting}
            for job in view.jobs
        ],
        "other_jobs": view.other_jobs,
    }
