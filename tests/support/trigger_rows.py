"""Rows of a run and its job, as far as a test needs them."""

from datetime import date
from types import SimpleNamespace
from typing import Any

from warren.sql.runs.run_rows import RunFacts


def run(**values: Any) -> Any:
    facts = {"id": 7, "job_id": 2, "app_id": 1, "kind": "CRON", "handler": "h"}
    more = {"param": "p", "starts": 1, "shard_index": 0, "shard_total": 1}
    routed = {"address": "one", "boot_id": "b1", "routed_at": 55}
    times = {"scheduled_at": 900, "due_at": 950, "run_date": date(2026, 12, 1)}
    rest = times | {"script_version": None, "traceparent": None, "backfill_id": None}
    return SimpleNamespace(**(facts | more | routed | rest | values))


def run_facts(**values: Any) -> RunFacts:
    blank: dict[str, Any] = dict.fromkeys(RunFacts._fields)
    return RunFacts(**blank | {"origin_id": 0, "shard_index": 0, "attempt": 0} | values)


def job(**values: Any) -> Any:
    facts = {"block": "COVER_EARLY", "concurrency": 2, "timeout": 9, "priority": "high"}
    return SimpleNamespace(**(facts | {"process": "fresh", "schedule_kind": "CRON"} | values))
