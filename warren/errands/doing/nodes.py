"""Executors, schedulers, apps, and pauses of dispatch."""

from zoneinfo import ZoneInfo

from warren.errands.desk import Desk
from warren.scheduler.commands.cluster_commands import NEVER, PauseOutcome
from warren.scheduler.jobs.spec import AppSpec
from warren.scheduler.views import blockers
from warren.scheduler.views.process_view import pause_facts
from warren.scheduler.views.to_json import to_json
from warren.sql.registry import pauses
from warren.sql.registry.pauses import EVERY_APP, ShownPause
from warren.terminal.node_lines import (
    EXECUTOR_HEADERS,
    SCHEDULER_HEADERS,
    blocker_lines,
    executor_facts,
    executor_json,
    executor_line,
    executor_with_blockers,
    handler_lines,
    registered_schedulers,
    scheduler_line,
)
from warren.terminal.output import local, read_moment, read_span, relative


def list_executors(desk: Desk, *, as_json: bool = False) -> None:
    """List the registered executors with their state and load."""
    now, app_ids = desk.now_ms(), desk.actor.app_ids
    all_blockers = desk.database.read(lambda session: blockers.read(session, app_ids, now_ms=now))
    if as_json:
        for executor in all_blockers.executors:
            desk.record(executor_json(executor, all_blockers.of_executor(executor)))
        return
    lines = [executor_line(executor, now) for executor in all_blockers.executors]
    desk.table(EXECUTOR_HEADERS, lines, "no executor has registered")
    for words in blocker_lines(all_blockers):
        desk.line(words)


def show_executor(desk: Desk, *, address: str, as_json: bool = False) -> None:
    """Show an executor, and why it gets no new runs if there is a reason."""
    now, executor_id = desk.now_ms(), desk.ids.executor(address)
    executor, why = desk.database.read(
        lambda session: executor_with_blockers(session, executor_id, now)
    )
    if as_json:
        desk.record(executor_json(executor, why))
        return
    desk.facts(executor_facts(executor, why, now))
    for line in handler_lines(executor):
        desk.line(f"  {line}")


def drain_executor(desk: Desk, *, address: str) -> None:
    """Drain an executor: it takes no new runs, finishes the running ones and exits."""
    changed = desk.commands.cluster.drain(desk.ids.executor(address))
    desk.line(f"{address} is draining" if changed else f"{address} is already draining")


def list_schedulers(desk: Desk, *, as_json: bool = False) -> None:
    """List the registered schedulers with their state, and what is paused, by whom and why."""
    app_ids = desk.actor.app_ids
    schedulers, now = registered_schedulers(desk.database)
    held = desk.database.read(lambda session: pauses.in_force(session, now, app_ids))
    if as_json:
        paused = pause_facts(next((pause for pause in held if pause.app is None), None))
        for node in schedulers:
            desk.record(to_json(node, without={"failing", "rejected"}) | paused)
        return
    lines = [scheduler_line(node, now) for node in schedulers]
    desk.table(SCHEDULER_HEADERS, lines, "no scheduler has registered")
    for pause in held:
        desk.line(_pause_line(pause, desk.zone, now))


def _pause_line(pause: ShownPause, zone: ZoneInfo, now: int) -> str:
    what = f"app {pause.app} is paused" if pause.app else "paused"
    since = f"{local(pause.since_at, zone)} ({relative(pause.since_at, now)})"
    until = f" until {local(pause.until_at, zone)}" if pause.until_at else ""
    why = f": {pause.reason}" if pause.reason else ""
    resume = f"warren resume --app {pause.app}" if pause.app else "warren resume"
    return f"{what} by {pause.paused_by} since {since}{until}{why}; to go on: {resume}"


def add_app(desk: Desk, *, name: str, title: str | None = None) -> None:
    """Add an app."""
    desk.commands.apps.add(AppSpec(name=name, title=title))
    desk.line(f"added app {name}; the key of its executors: warren secrets app {name}")


def pause_all(
    desk: Desk,
    *,
    reason: str = "",
    until: str | None = None,
    span: str | None = None,
    endless: bool = False,
) -> None:
    """Stop dispatching runs."""
    _pause(desk, EVERY_APP, reason, _end_ms(desk, until, span, endless=endless), "warren resume")


def pause_app(
    desk: Desk,
    *,
    app: str,
    reason: str = "",
    until: str | None = None,
    span: str | None = None,
    endless: bool = False,
) -> None:
    """Stop dispatching the runs of an app."""
    end_ms = _end_ms(desk, until, span, endless=endless)
    _pause(desk, desk.ids.app(app), reason, end_ms, f"warren resume --app {app}")


def resume_all(desk: Desk) -> None:
    """Resume dispatching runs."""
    _resume(desk, EVERY_APP)


def resume_app(desk: Desk, *, app: str) -> None:
    """Resume dispatching the runs of an app."""
    _resume(desk, desk.ids.app(app))


_PAUSED = {
    PauseOutcome.PAUSED: "paused; to go on: {resume}",
    PauseOutcome.CHANGED: "it was paused already; its reason or end has changed",
    PauseOutcome.ALREADY: "it was paused already",
}


def _pause(desk: Desk, app_id: int, reason: str, end_ms: int | None, resume: str) -> None:
    outcome = desk.commands.cluster.pause(app_id, reason=reason, until_ms=end_ms)
    desk.line(_PAUSED[outcome].format(resume=resume))


def _resume(desk: Desk, app_id: int) -> None:
    changed = desk.commands.cluster.resume(app_id)
    desk.line("resumed" if changed else "it was not paused")


def _end_ms(desk: Desk, until: str | None, span: str | None, *, endless: bool) -> int | None:
    if endless:
        return NEVER
    if until is not None:
        return read_moment(until, "--until", zone=desk.zone)
    return None if span is None else desk.now_ms() + read_span(span)
