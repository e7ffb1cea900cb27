"""Runs and skips on a terminal: as rows of a table, a run in detail, a flow as a tree."""

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from warren.resources.runs import Condition, Join, Node, Run, RunProgress, Skip
from warren.terminal.output import (
    duration,
    milliseconds,
    print_json,
    print_line,
    shown_ago,
    shown_time,
)

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
#: The outcome of a node that is not run again with its flow.
_KEPT = "KEPT"
NODE_HEADERS = ("node", "state", "shards", "duration", "run", "after", "reason")


def run_line(run: Run, *, now_ms: int) -> tuple[str, ...]:
    """Return a run as a row of a table with `HEADERS`; while it runs, it says how far it is."""
    progress = _progress(run, now_ms)
    share = f" {progress.percent} %" if progress and progress.percent is not None else ""
    return (
        str(run.id),
        job_name(run.job, run.job_id),
        run.app or "",
        run.kind,
        f"{run.status}{share}",
        shown_ago(run.due_at, now_ms),
        lasted(run, now_ms),
        run.address or "",
        "" if run.shard_total <= 1 else f"{run.shard_index}/{run.shard_total}",
        str(run.starts + 1),
        run.message.strip().partition("\n")[0],
    )


def print_planned(run_id: int, *, as_json: bool, word: str = "queued") -> None:
    """Print that a run is planned."""
    if as_json:
        print_json({"id": run_id})
    else:
        print_line(f"run {run_id} {word}; to see it: warren runs show {run_id}")


def run_facts(run: Run, *, now_ms: int, zone: ZoneInfo, is_flow: bool = False) -> dict[str, str]:
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
        "job": f"{run.app}/{job_name(run.job, run.job_id)}",
        "kind": run.kind,
        "run date": run.run_date.isoformat() if run.run_date else "",
        "repeats run": str(run.rerun_of or ""),
        "called by run": str(run.called_by or ""),
        "backfill": str(run.backfill_id or ""),
        "flow": f"run {run.flow_run_id}" if run.flow_run_id else "",
        "status": run.status,
        "progress": str(_progress(run, now_ms) or ""),
        "reported later": _reported_later(run),
        "shard": f"{run.shard_index}/{run.shard_total}" if run.shard_total else "not known yet",
        "attempt": str(run.starts + 1),
        "address": run.address or "",
        "handler": run.handler or "",
        "graph" if is_flow else "script": _script(run),
        "code version": run.code_version or "",
        "param": run.param,
        "duration": lasted(run, now_ms),
    } | {
        name: f"{shown_time(at, zone)}  ({shown_ago(at, now_ms)})" if at else ""
        for name, at in times.items()
    }


def _reported_later(run: Run) -> str:
    return "it never started" if run.late_status == "NEVER_STARTED" else run.late_status or ""


def _script(run: Run) -> str:
    if run.script_version is None:
        return ""
    return f"version {run.script_number}" if run.script_number else "version no longer kept"


def job_name(job: str | None, job_id: int) -> str:
    """Return the name of a job, which may be deleted."""
    return job or f"(deleted job {job_id})"


def _progress(run: Run, now_ms: int) -> RunProgress | None:
    """Return how far a run is; None if it is not running, or has not said."""
    if run.status != "RUNNING" or run.progress is None:
        return None
    return run.progress.after(now_ms - milliseconds(run.started_at) if run.started_at else 0)


def lasted(run: Run, now_ms: int) -> str:
    """Return how long a run has been running, or ran; empty if unknown."""
    began, ended = milliseconds(run.started_at), milliseconds(run.finished_at)
    if not began or (ended and ended < began):
        return ""
    if not ended and run.status != "RUNNING":
        return ""
    return _span((ended or now_ms) - began) if (ended or now_ms) > began else "<1 ms"


def _span(span_ms: int) -> str:
    seconds = span_ms / 1_000
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)  # noqa: PLR2004 - finer below ten


SKIP_HEADERS = ("job", "app", "first due", "last due", "skipped", "reason")


def skip_line(skip: Skip, zone: ZoneInfo) -> tuple[str, ...]:
    """Return skipped due times as a row of a table with `SKIP_HEADERS`."""
    return (
        job_name(skip.job, skip.job_id),
        skip.app or "",
        shown_time(skip.from_at, zone),
        shown_time(skip.to_at, zone),
        str(skip.count),
        f"{skip.reason}{_made_good(skip)}",
    )


def _made_good(skip: Skip) -> str:
    """Return by which run skipped due times were made good; empty if none was."""
    if not skip.made_good:
        return ""
    share = f"{skip.made_good} of {skip.count} " if skip.count > 1 else ""
    return f"; {share}made good by run {skip.made_good_by}"


def tree_rows(nodes: Sequence[Node], *, now_ms: int) -> list[tuple[str, ...]]:
    """Return the nodes as rows of a table with `NODE_HEADERS`.

    Each is below the last node before it, and names all of them if these are several, or if it
    runs after something else than a success.
    """
    place = {node.node: number for number, node in enumerate(nodes)}
    below: dict[str, list[Node]] = {}
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


def _facts(node: Node, now_ms: int) -> tuple[str, ...]:
    return (
        node.state,
        _shards(node),
        _lasted(node, now_ms),
        str(node.run_id or ""),
        _after(node),
        _reason(node).partition("\n")[0],
    )


def _shards(node: Node) -> str:
    if node.shards is None or node.shards == 1:
        return ""
    ended = node.succeeded + node.skipped + node.failed
    return f"{ended}/{node.shards}" if not node.outcome else str(node.shards)


def _lasted(node: Node, now_ms: int) -> str:
    if not node.begun_at or node.outcome == _KEPT:
        return ""
    return _span(max(0, (milliseconds(node.ended_at) or now_ms) - milliseconds(node.begun_at)))


def _after(node: Node) -> str:
    if len(node.after) <= 1 and set(node.after.values()) <= {Condition.SUCCESS}:
        return ""
    named = [
        name if condition is Condition.SUCCESS else f"{name}: {condition}"
        for name, condition in node.after.items()
    ]
    words = ", ".join(named)
    return f"any of {words}" if node.join is Join.ANY and len(named) > 1 else words


def _reason(node: Node) -> str:
    if node.outcome != _KEPT:
        return node.reason
    place = f" in run {node.kept_run_id}" if node.kept_run_id else ""
    became = node.kept_outcome or "SUCCEEDED"
    return f"{became}{place}" + (f": {node.reason}" if node.reason else "")
