"""Executors and schedulers as the registry knows them."""

import json
from typing import Any

import pytest

from sql import presence
from sql.models import Registration
from warren.registry_view import (
    EXECUTOR_HEADERS,
    SCHEDULER_HEADERS,
    executor_json,
    executor_line,
    load_of,
    scheduler_json,
    scheduler_line,
    state,
)

NOW = 1_796_126_400_000


def executor(**columns: Any) -> Registration:
    row = {
        "registry_group": presence.EXECUTOR,
        "registry_key": "reports",
        "registry_value": "reports-1",
        "boot_id": "b00t",
        "boot_at": NOW - 60_000,
        "beat_at": NOW,
        "load": None,
        "draining": 0,
    }
    return Registration(**row | columns)


def scheduler(beat_at: int) -> Registration:
    return executor(registry_group=presence.ADMIN, registry_key="scheduler", beat_at=beat_at)


@pytest.mark.parametrize(
    ("silent_ms", "draining", "expected"),
    [(0, 0, "alive"), (15_000, 0, "alive"), (15_001, 0, "silent"), (0, 1, "draining")],
)
def test_executor_is_alive_for_three_heartbeats(
    silent_ms: int, draining: int, expected: str
) -> None:
    assert state(executor(beat_at=NOW - silent_ms, draining=draining), NOW) == expected


def test_silent_one_is_not_draining_any_more() -> None:
    assert state(executor(beat_at=NOW - 60_000, draining=1), NOW) == "silent"


@pytest.mark.parametrize(("silent_ms", "expected"), [(2_000, "alive"), (2_001, "silent")])
def test_scheduler_is_alive_for_two_seconds(silent_ms: int, expected: str) -> None:
    assert state(scheduler(NOW - silent_ms), NOW) == expected


def test_clock_ahead_of_ours_is_no_silence() -> None:
    assert state(executor(beat_at=NOW + 5_000), NOW) == "alive"


@pytest.mark.parametrize("load", [None, "", "{", "[]", "7", "null"])
def test_load_that_cannot_be_read_is_none(load: str | None) -> None:
    row = executor(load=load)

    assert load_of(row) == {}
    assert executor_json(row, NOW)["slots"] == 0
    assert len(executor_line(row, NOW)) == len(EXECUTOR_HEADERS)


def test_load_is_shown_in_words() -> None:
    load = {
        "cpu_percent": 12.4,
        "memory_percent": 40.6,
        "slots": 8,
        "running": 3,
        "waiting": 5,
        "handlers": ["a", "b"],
    }
    row = executor(load=json.dumps(load))

    assert executor_line(row, NOW) == (
        "reports",
        "reports-1",
        "alive",
        "60 s",
        "0 s ago",
        "3/8",
        "5",
        "12 %",
        "41 %",
    )
    assert executor_json(row, NOW) | load == executor_json(row, NOW)


def test_executor_that_its_app_does_not_list_is_told_apart() -> None:
    lists = {"reports": ("reports-2",), "mails": ("reports-1",)}

    assert executor_line(executor(), NOW, lists)[2] == "alive, not listed"
    assert executor_json(executor(), NOW, lists)["listed"] is False
    assert executor_json(executor(registry_value="reports-2"), NOW, lists)["listed"] is True
    assert executor_json(executor(registry_key="other"), NOW, lists)["listed"] is None


def test_executor_that_is_only_listed_is_absent() -> None:
    row = executor(boot_id="", boot_at=0, beat_at=0)

    assert executor_line(row, NOW) == ("reports", "reports-1", "absent", *[""] * 6)
    shown = executor_json(row, NOW, {"reports": ("reports-1",)})
    assert (shown["state"], shown["listed"], shown["beat_at"]) == ("absent", True, None)


def test_scheduler_is_shown_by_its_node() -> None:
    row = scheduler(NOW - 500)

    assert len(scheduler_line(row, NOW)) == len(SCHEDULER_HEADERS)
    assert scheduler_json(row, NOW)["node"] == "reports-1"
    assert scheduler_json(row, NOW)["state"] == "alive"
