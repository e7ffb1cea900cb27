"""Executors and schedulers as the registry knows them."""

import json
from typing import Any

import pytest

from warren.command_line.nodes import (
    EXECUTOR_HEADERS,
    SCHEDULER_HEADERS,
    executor_line,
    scheduler_line,
)
from warren.resources.cluster import Executor
from warren.resources.instant import to_builtins
from warren.scheduler.views.process_view import (
    Lists,
    executor_of,
    executor_view,
    executor_views,
    node_view,
    scheduler_of,
)
from warren.sql.models import Registration
from warren.sql.registry import presence
from warren.sql.registry.presence import state

NOW = 1_796_126_400_000


def executor(**columns: Any) -> Registration:
    row = {
        "kind": presence.EXECUTOR,
        "app": "reports",
        "address": "reports-1",
        "boot_id": "b00t",
        "boot_at": NOW - 60_000,
        "beat_at": NOW,
        "load": None,
        "draining": 0,
    }
    return Registration(**row | columns)


def scheduler(beat_at: int) -> Registration:
    return executor(kind=presence.ADMIN, app="scheduler", beat_at=beat_at)


def shown(row: Registration, lists: Lists | None = None) -> Executor:
    return executor_of(executor_view(row, NOW, lists or {}), [], handler_facts=True)


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

    unread = executor_view(row, NOW, {})
    assert unread[9:] == (0, 0, 0, 0, 0, (), (), "", None, 0, "")
    assert len(executor_line(shown(row), NOW)) == len(EXECUTOR_HEADERS)


def test_load_is_shown_in_words() -> None:
    load = {
        "cpu_percent": 12.4,
        "memory_percent": 40.6,
        "slots": 8,
        "running": 3,
        "waiting": 5,
    }
    row = executor(load=json.dumps(load))

    assert executor_line(shown(row), NOW) == (
        "reports",
        "reports-1",
        "online",
        "60 s",
        "0 s ago",
        "3/8",
        "5",
        "12 %",
        "41 %",
    )
    assert to_builtins(shown(row)) | load == to_builtins(shown(row))


def test_executor_that_its_app_does_not_list_is_told_apart() -> None:
    lists = {"reports": ("reports-2",), "mails": ("reports-1",)}

    assert executor_line(shown(executor(), lists), NOW)[2] == "online, not listed"
    assert shown(executor(), lists).listed is False
    assert shown(executor(address="reports-2"), lists).listed is True
    assert shown(executor(app="other"), lists).listed is None


def test_executor_that_is_only_listed_is_absent() -> None:
    lists = {"reports": ("reports-2", "reports-1")}
    seen, absent = (
        executor_of(view, [], handler_facts=True)
        for view in executor_views([executor()], lists, NOW)
    )

    assert (seen.address, seen.state) == ("reports-1", "alive")
    assert executor_line(absent, NOW) == ("reports", "reports-2", "never connected", *[""] * 6)
    told = to_builtins(absent)
    assert (told["state"], told["listed"], told["beat_at"]) == ("absent", True, None)
    assert (told["draining"], told["handlers"]) == (False, [])


def test_scheduler_is_shown_by_its_node() -> None:
    node = scheduler_of(node_view(scheduler(NOW - 500), NOW))

    assert len(scheduler_line(node, NOW)) == len(SCHEDULER_HEADERS)
    assert to_builtins(node)["node"] == "reports-1"
    assert to_builtins(node)["state"] == "alive"


def test_health_issues_of_an_executor_are_told_while_it_is_heard() -> None:
    load = json.dumps({"slots": 8, "ailments": ["JOURNAL", "DISK"]})

    assert executor_line(shown(executor(load=load)), NOW)[2] == "online, problems: journal, disk"
    assert to_builtins(shown(executor(load=load)))["ailments"] == ["journal", "disk"]
    assert executor_line(shown(executor(load=load, beat_at=NOW - 60_000)), NOW)[2] == "offline"
    assert shown(executor(load='{"ailments":7}')).ailments == []
