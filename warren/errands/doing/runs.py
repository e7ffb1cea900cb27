"""Listing and showing runs and skipped due times, and clearing runs."""

from warren.errands.desk import Desk, TimeIsOver
from warren.errors import CommandError
from warren.scheduler.retention.clearing_criteria import ClearingCriteria
from warren.scheduler.schedules.run_date import parse_date
from warren.scheduler.views import flow_view
from warren.scheduler.views.flow_view import node_json
from warren.scheduler.views.limit_view import in_words, waits_for
from warren.scheduler.views.to_json import run_json
from warren.sql.jobs.skips import SkipFilter, lines
from warren.sql.listings import recent
from warren.sql.listings.run_search import AHEAD_MS
from warren.sql.runs import calls
from warren.views.flow_tree import NODE_HEADERS, tree_rows
from warren.views.instants import read_instant
from warren.views.runs import HEADERS, SKIP_HEADERS, run_facts, run_line, skip_json, skip_line


def list_runs(
    desk: Desk,
    *,
    app: str | None = None,
    job: str | None = None,
    status: str | None = None,
    since: str | None = None,
    run_date: str | None = None,
    tick: int | None = None,
    unresolved: bool = False,
    outside_flows: bool = False,
    flow_run: int | None = None,
    backfill: int | None = None,
    limit: int = 50,
    as_json: bool = False,
) -> None:
    """List runs, the latest due time first; those far ahead only if asked for.

    They are with `status`, `run_date`, `tick`, `flow_run` or `backfill`.
    """
    now = desk.now_ms()
    wanted = recent.RunFilter(
        app=app,
        app_ids=desk.actor.app_ids,
        job=job,
        status=status.upper() if status else None,
        since_ms=_since_ms(desk, since, now),
        until_ms=None if status or tick or run_date or flow_run or backfill else now + AHEAD_MS,
        run_date=parse_date(run_date, "--run-date") if run_date else None,
        tick_of=tick,
        unresolved=unresolved,
        outside_flows=outside_flows,
        flow_run_id=flow_run,
        backfill_id=backfill,
        limit=limit,
    )
    rows = desk.database.read(lambda session: recent.runs(session, wanted))
    if as_json:
        why = desk.database.read(lambda session: waits_for(session, rows, desk.actor, now_ms=now))
        for row in rows:
            desk.record(run_json(row, in_words(why, row.id)))
        return
    desk.table(HEADERS, [run_line(row, now_ms=now) for row in rows], "no such runs")


def list_skips(
    desk: Desk,
    *,
    job: str | None = None,
    since: str | None = None,
    limit: int = 50,
    as_json: bool = False,
) -> None:
    """List due times that were skipped, and why."""
    wanted = SkipFilter(
        app_ids=desk.actor.app_ids,
        job_id=None if job is None else desk.ids.job(job),
        since_ms=_since_ms(desk, since, desk.now_ms()),
        limit=limit,
    )
    skips = desk.database.read(lambda session: lines(session, wanted))
    if as_json:
        for skip in skips:
            desk.record(skip_json(skip))
        return
    desk.table(SKIP_HEADERS, [skip_line(skip, desk.zone) for skip in skips], "no such skips")


def show_run(desk: Desk, *, run_id: int, as_json: bool = False) -> None:
    """Show everything about a run."""
    now, app_ids = desk.now_ms(), desk.actor.app_ids
    run = desk.database.read(lambda session: recent.run(session, run_id, app_ids))
    called = desk.database.read(lambda session: calls.of_run(session, run))
    flow = desk.database.read(lambda session: flow_view.read(session, run, desk.actor.knows_job))
    why = desk.database.read(lambda session: waits_for(session, [run], desk.actor, now_ms=now))
    waits = in_words(why, run.id)
    if as_json:
        nodes = {"nodes": [node_json(node) for node in flow.nodes]} if flow else {}
        desk.record(run_json(run, waits) | {"calls": called} | nodes)
        return
    facts = run_facts(run, now_ms=now, zone=desk.zone, is_flow=flow is not None)
    facts["waits for"] = "; ".join(waits)
    desk.facts(facts | {"called runs": ", ".join(map(str, called))})
    texts = {
        "message": run.message,
        "result": run.result if run.result and run.result[0] in "[{" else "",
        "how it was sent": run.trigger_message,
    }
    for title, text in texts.items():
        if text:
            desk.text(title, text)
    if flow:
        desk.line()
        desk.table(NODE_HEADERS, tree_rows(flow.nodes, now_ms=now), "no nodes")


def clear_runs(
    desk: Desk,
    *,
    job: str | None = None,
    app: str | None = None,
    older_than: str | None = None,
    keep: int | None = None,
    dry_run: bool = False,
) -> None:
    """Delete finished runs of a job, an app or all; the output's `count` is how many.

    `is_over` is false if the desk's time was over first: the rest is for another errand.
    """
    before_ms = None
    if older_than is not None:
        before_ms = read_instant(older_than, now_ms=desk.now_ms(), zone=desk.zone)
    whose: dict[str, int] = {}
    if job is not None:
        whose = {"job_id": desk.ids.job(job)}
    elif app is not None:
        whose = {"app_id": desk.ids.app(app)}
    criteria = ClearingCriteria(**whose, keep=keep, before_ms=before_ms)
    cleared = 0

    def go_on(count: int) -> None:
        nonlocal cleared
        cleared = count
        desk.on_progress(count)

    is_over = True
    try:
        cleared = desk.commands.clearing.clear(criteria, dry_run=dry_run, on_progress=go_on)
    except TimeIsOver:
        if dry_run:
            words = "counting them takes too long for one call; count those of a --job or --app"
            raise CommandError(words) from None
        is_over = False
    desk.output.facts.update(count=cleared, is_over=is_over)


def _since_ms(desk: Desk, since: str | None, now: int) -> int | None:
    return None if since is None else read_instant(since, now_ms=now, zone=desk.zone)
