"""Triggering jobs and what is done to runs: repeat, move, cancel, kill."""

from typing import Any

from warren.broker.messages.values import result_value
from warren.errands.desk import Desk
from warren.scheduler.commands.bulk.reruns import RerunOptions
from warren.scheduler.commands.bulk.triggers import NOW, Trigger, When
from warren.scheduler.completion.end import tick_end
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.run_date import parse_date
from warren.sql.listings import recent
from warren.sql.run_status import FINE
from warren.sql.runs.ticks import tick_of
from warren.views.instants import local, read_moment
from warren.views.nodes import is_scheduler_alive

DID_NOT_SUCCEED = 1


def trigger_job(
    desk: Desk,
    *,
    name: str,
    param: str | None = None,
    addresses: list[str] = [],  # noqa: B006 - never changed
    at: str | None = None,
    after: str | None = None,
    late: bool = False,
    run_date: str | None = None,
    is_awaited: bool = False,
    as_json: bool = False,
) -> None:
    """Plan a run of a job; if it is awaited, the output has nothing but its `run_id`."""
    at_ms = None if at is None else read_moment(at, "--at", zone=desk.zone)
    when = When(at_ms=at_ms, after=after, late=late)
    day = parse_date(run_date, "--run-date") if run_date else None
    asked = Trigger(param=param, addresses=addresses, when=when, run_date=day)
    made = desk.commands.runs.trigger_once(desk.ids.job(name), asked, once=desk.once)
    run_id = desk.output.facts["run_id"] = made.run_id
    if made.unchecked:
        desk.warn(str(made.unchecked))
    if not is_awaited:
        _show_planned(desk, run_id, as_json=as_json, word="queued" if when == NOW else "planned")
    elif not is_scheduler_alive(desk.database):
        desk.warn(f"run {run_id} is queued, but no scheduler is online to dispatch it")


def show_outcome(desk: Desk, *, run_id: int, as_json: bool = False) -> None:
    """Show how a run's tick ended; the output's `is_over` is whether it has."""
    app_ids = desk.actor.app_ids
    rows = desk.database.read(lambda session: recent.tick(session, run_id, app_ids))
    end = tick_end(tick_of(rows[0]), rows)
    desk.output.facts["is_over"] = end is not None
    if end is None:
        return
    run = next(row for row in rows if row.id == end.deciding_id)
    status = end.status.value
    desk.output.status = 0 if end.status in FINE else DID_NOT_SUCCEED
    if as_json:
        run_ids = [row.id for row in rows]
        outcome: dict[str, Any] = {"id": run_id, "status": status, "message": run.message or ""}
        outcome["result"] = result_value(run.result or "")
        desk.record(outcome | {"run_ids": run_ids, "deciding_id": run.id})
        return
    tries = f" after {run.starts + 1} attempts" if run.starts else ""
    words = f": {run.message}" if run.message else ""
    for line in f"run {run.id} {status}{tries}{words}".split("\n"):
        desk.line(line.expandtabs())


def rerun_runs(
    desk: Desk,
    *,
    run_ids: list[int],
    current: bool = False,
    children: bool | None = None,
    failed: bool = False,
    from_node: str = "",
    only_node: str = "",
    as_json: bool = False,
) -> None:
    """Run runs again for their due times.

    If their children have already run and nothing is said of them, nothing is done, and the
    output's `question` is what to ask.
    """
    options = RerunOptions(
        current=current,
        children=children,
        failed=failed,
        from_node=from_node,
        only_node=only_node,
    )
    try:
        planned, _ = desk.commands.runs.rerun(run_ids, options, once=desk.once)
    except Problem as problem:
        if problem.code is not Code.RERUN_CHILDREN:
            raise
        facts = problem.facts
        ran = f"children of run {facts['id']} have already run for its due time"
        desk.output.facts["question"] = f"{ran}: {facts['children']}"
        return
    for run_id in planned:
        _show_planned(desk, run_id, as_json=as_json)


def move_run(desk: Desk, *, run_id: int, at: str | None = None, after: str | None = None) -> None:
    """Give a planned run another due time."""
    at_ms = None if at is None else read_moment(at, "--at", zone=desk.zone)
    due_ms = desk.commands.runs.move(run_id, When(at_ms=at_ms, after=after))
    desk.line(f"run {run_id} is due at {local(due_ms, desk.zone)}")


def cancel_runs(desk: Desk, *, run_ids: list[int]) -> None:
    """Cancel planned runs that somebody triggered, one after another."""
    for run_id in run_ids:
        desk.commands.runs.cancel(run_id)
        desk.line(f"run {run_id} is cancelled")


def kill_run(desk: Desk, *, run_id: int) -> None:
    """Kill a run, wherever it is."""
    desk.line(f"run {run_id}: {desk.commands.runs.kill(run_id).value}")


def _show_planned(desk: Desk, run_id: int, *, as_json: bool, word: str = "queued") -> None:
    if as_json:
        desk.record({"id": run_id})
    else:
        desk.line(f"run {run_id} {word}; to see it: warren runs show {run_id}")
