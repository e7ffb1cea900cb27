"""Runs and skips on a terminal: as rows of a table, a run in detail, a flow as a tree."""

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from warren.scheduler.flows.graph import Condition, Join
from warren.scheduler.flows.judge import Outcome
from warren.scheduler.views.flow_view import NodeState, NodeView
from warren.scheduler.views.to_json import run_progress, to_json
from warren.sql.jobs.skips import SkipLine
from warren.sql.runs.run_rows import DetailedRun
from warren.terminal.output import duration, local, relative

HEADERS = (
    "id",
    "job",
    "app",
    "kind",
    "status",
    "due",
    "duration",
    "address",
    "shard",
    "try",
    "message",
)
NODE_HEADERS = ("node", "state", "shards", "duration", "run", "after", "reason")


def run_line(run: DetailedRun, *, now_ms: int) -> tuple[str, ...]:
    """Return a run as a row of a table with `HEADERS`; while it runs, it says how far it is."""
    progress = run_progress(run, now_ms)
    share = f" {progress.percent} %" if progress and progress.percent is not None else ""
    return (
        str(run.id),
        job_name(run),
        run.app or "",
        run.kind,
        f"{run.status}{share}",
        relative(run.due_at, now_ms),
        lasted(run, now_ms),
        run.address or "",
        "" if run.shard_total <= 1 else f"{run.shard_index}/{run.shard_total}",
        str(run.starts + 1),
        run.message.strip().partition("\n")[0],
    )


def run_facts(
    run: DetailedRun, *, now_ms: int, zone: ZoneInfo, is_flow: bool = False
) -> dict[str, str]:
    """Return everything about a run except its multi-line texts; a flow's version is its graph."""
    times = {
        "scheduled": run.scheduled_at,
        "due": run.due_at,
        "routed": run.routed_at,
        "sent": run.sent_at,
        "started": run.started_at,
        "finished": run.finished_at,
        "kill requested": run.kill_requested_at,
    }
    return {
        "run": str(run.id),
        "job": f"{run.app}/{job_name(run)}",
        "kind": run.kind,
        "run date": run.run_date.isoformat() if run.run_date else "",
        "repeats run": str(run.rerun_of or ""),
        "called by run": str(run.called_by or ""),
        "backfill": str(run.backfill_id or ""),
        "flow": f"run {run.flow_run_id}" if run.flow_run_id else "",
        "status": run.status,
        "progress": str(run_progress(run, now_ms) or ""),
        "reported later": run.late_status or "",
        "shard": f"{run.shard_index}/{run.shard_total}" if run.shard_total else "not known yet",
        "attempt": str(run.starts + 1),
        "address": run.address or "",
        "handler": run.handler or "",
        "graph" if is_flow else "script": _script(run),
        "code version": run.code_version or "",
        "param": run.param,
        "duration": lasted(run, now_ms),
    } | {
        name: f"{local(at, zone)}  ({relative(at, now_ms)})" if at else ""
        for name, at in times.items()
    }


def _script(run: DetailedRun) -> str:
    if run.script_version is None:
        return ""
    return f"version {run.script_number}" if run.script_number else "version no longer kept"


def job_name(run: DetailedRun) -> str:
    """Return the name of a run's job, which may be deleted."""
    return run.job or f"(deleted job {run.job_id})"


def lasted(run: DetailedRun, now_ms: int) -> str:
    """Return how long a run has been running, or ran; empty if unknown."""
    if not run.started_at or (run.finished_at and run.finished_at < run.started_at):
        return ""
    if not run.finished_at and run.status != "RUNNING":
        return ""
    seconds = ((run.finished_at or now_ms) - run.started_at) / 1000
    if seconds <= 0:
        return "<1 ms"
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)  # noqa: PLR2004 - finer below ten


SKIP_HEADERS = ("job", "app", "first due", "last due", "skipped", "reason")


def skip_json(skip: SkipLine) -> dict[str, Any]:
    """Return a skip as a JSON object; a deleted job's has no `job`."""
    values = to_json(skip, without=("timezone", "why", "number", "reason"))
    return values | {"count": skip.number, "reason": skip.reason}


def skip_line(skip: SkipLine, zone: ZoneInfo) -> tuple[str, ...]:
    """Return skipped due times as a row of a table with `SKIP_HEADERS`."""
    return (
        skip.job or f"(deleted job {skip.job_id})",
        skip.app or "",
        local(skip.from_at, zone),
        local(skip.to_at, zone),
        str(skip.number),
        f"{skip.reason}{_made_good(skip)}",
    )


def _made_good(skip: SkipLine) -> str:
    """Return by which run skipped due times were made good; empty if none was."""
    if not skip.made_good:
        return ""
    share = f"{skip.made_good} of {skip.number} " if skip.number > 1 else ""
    return f"; {share}made good by run {skip.made_good_by}"


def tree_rows(nodes: Sequence[NodeView], *, now_ms: int) -> list[tuple[str, ...]]:
    """Return the nodes as rows of a table with `NODE_HEADERS`.

    Each is below the last node before it, and names all of them if these are several, or if it
    runs after something else than a success.
    """
    place = {node.node: number for number, node in enumerate(nodes)}
    below: dict[str, list[NodeView]] = {}
    for node in nodes:
        parent = max(node.after, key=lambda name: place.get(name, -1), default="")
        below.setdefault(parent if parent in place else "", []).append(node)
    rows: list[tuple[str, ...]] = []
    open_branches = [(node, "", "", "") for node in reversed(below.get("", []))]
    while open_branches:
        node, indent, branch, trunk = open_branches.pop()
        rows.append((f"{indent}{branch}{node.node}", *_facts(node, now_ms)))
        inner = below.get(node.node, [])
        for follower in reversed(inner):
            is_last = follower is inner[-1]
            look = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            open_branches.append((follower, indent + trunk, *look))
    return rows


def _facts(node: NodeView, now_ms: int) -> tuple[str, ...]:
    return (
        node.state,
        _shards(node),
        _lasted(node, now_ms),
        str(node.run_id or ""),
        _after(node),
        _reason(node).partition("\n")[0],
    )


def _shards(node: NodeView) -> str:
    if node.shards is None or node.shards == 1:
        return ""
    return f"{node.ended_shards}/{node.shards}" if not node.outcome else str(node.shards)


def _lasted(node: NodeView, now_ms: int) -> str:
    if not node.begun_at or node.outcome == NodeState.KEPT:
        return ""
    seconds = max(0, (node.ended_at or now_ms) - node.begun_at) / 1000
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)  # noqa: PLR2004 - finer below ten


def _after(node: NodeView) -> str:
    if len(node.after) <= 1 and set(node.after.values()) <= {Condition.SUCCESS}:
        return ""
    named = [
        name if condition is Condition.SUCCESS else f"{name}: {condition}"
        for name, condition in node.after.items()
    ]
    words = ", ".join(named)
    return f"any of {words}" if node.join is Join.ANY and len(named) > 1 else words


def _reason(node: NodeView) -> str:
    if node.outcome != NodeState.KEPT:
        return node.reason
    place = f" in run {node.kept_run_id}" if node.kept_run_id else ""
    became = node.kept_outcome or Outcome.SUCCEEDED
    return f"{became}{place}" + (f": {node.reason}" if node.reason else "")
