"""Runs whose start was made durable ahead start without waiting for the disk, and only once."""

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from tests.support.scripted_slots import ScriptedSlots
from warren.broker.messages import Finished, IdleBeat, NotStarted, Outcome
from warren.executor.journal.file import Reserved, Starting
from warren.executor.lanes import active_runs

FEW = 20


@pytest.fixture
def pace() -> SimpleNamespace:
    """The pace of the journal's commits, which a test may change while the executor runs."""
    return SimpleNamespace(gather_seconds=0.005, retry_seconds=0.01)


@pytest.fixture
def unbooted(tmp_path: Path, pace: SimpleNamespace) -> Iterator[AgentCase]:
    case = AgentCase(tmp_path)
    case.limits = replace(case.limits, commit_pace=pace)  # type: ignore[arg-type]
    yield case
    case.close()


@pytest.fixture
def case(unbooted: AgentCase) -> AgentCase:
    unbooted.boot()
    return unbooted


def reserved(case: AgentCase) -> set[int]:
    kept = case.records()
    return {id_ for record in kept if isinstance(record, Reserved) for id_ in record.run_ids}


def fill(case: AgentCase, **values: object) -> None:
    """Let four runs be at work, and wait until those behind them are reserved."""
    for run_id in range(1, FEW + 1):
        case.desk.send_trigger(run_id, param="hold", **values)
    eventually(lambda: len(case.slots.running) == 4)
    eventually(lambda: len(reserved(case) - set(case.slots.running)) >= FEW - 4)
    case.settle()


def test_next_run_starts_while_the_disk_is_slow(case: AgentCase, pace: SimpleNamespace) -> None:
    fill(case)
    # The next commit is the last one for an hour.
    pace.gather_seconds = 3600.0

    for started in (8, 12, 16):
        for run_id in list(case.slots.running):
            case.slots.finish(run_id)
        eventually(lambda count=started: len(case.slots.started) == count)  # type: ignore[misc]


def test_start_of_a_reserved_run_is_in_the_file_before_its_process_exists(case: AgentCase) -> None:
    fill(case)
    seen: list[bool] = []
    start = case.slots.start

    def look(trigger: object, *_others: object) -> None:
        started = {record.run_id for record in case.records() if isinstance(record, Starting)}
        seen.append(trigger.run_id in started)  # type: ignore[attr-defined]
        start(trigger)  # type: ignore[arg-type]

    case.slots.start = look  # type: ignore[method-assign,assignment]
    for run_id in list(case.slots.running):
        case.slots.finish(run_id)

    eventually(lambda: len(seen) == 4)
    assert all(seen)


def test_disk_that_is_full_keeps_a_reserved_run_from_starting(
    case: AgentCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(case)
    before = len(case.slots.started)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _no_space(os.write))
        for run_id in list(case.slots.running):
            case.slots.finish(run_id)
        eventually(lambda: len(case.slots.running) == 0)
        case.desk.ask(IdleBeat, job_ids=(1,))
        assert len(case.slots.started) == before

    eventually(lambda: len(case.slots.running) == 4)
    started = [trigger.run_id for trigger in case.slots.started]
    assert len(started) == len(set(started))


def test_reserved_runs_that_never_started_are_given_back_after_a_kill(
    case: AgentCase, tmp_path: Path
) -> None:
    fill(case)
    at_work = set(case.slots.running)
    state = case.freeze_journal(tmp_path / "killed")

    second = AgentCase(tmp_path / "second")
    second.boot(state_dir=state)

    eventually(lambda: len({report.run_id for report in second.desk.reports}) >= FEW)
    lost = {
        report.run_id
        for report in second.desk.reports
        if isinstance(report, Finished) and report.outcome is Outcome.LOST
    }
    returned = {report.run_id for report in second.desk.reports if isinstance(report, NotStarted)}
    second.close()
    assert lost == at_work
    assert returned == set(range(1, FEW + 1)) - at_work


def test_no_more_runs_are_reserved_than_the_limit(unbooted: AgentCase) -> None:
    case = unbooted
    case.limits = replace(case.limits, reserved_runs=6)
    case.boot()

    for run_id in range(1, FEW + 1):
        case.desk.send_trigger(run_id, param="hold")
    eventually(lambda: len(case.slots.running) == 4)
    case.settle()

    assert len(reserved(case) - set(case.slots.running)) <= 6


def test_lane_of_one_job_keeps_its_order_through_its_reservations(case: AgentCase) -> None:
    for run_id in range(1, FEW + 1):
        case.desk.send_trigger(run_id, job_id=1, param="hold")
    eventually(lambda: len(reserved(case)) >= active_runs.RESERVED_DEPTH)

    for run_id in range(1, FEW + 1):
        eventually(lambda number=run_id: number in case.slots.running)  # type: ignore[misc]
        case.slots.finish(run_id)

    case.desk.expect(FEW, Finished)
    assert [trigger.run_id for trigger in case.slots.started] == list(range(1, FEW + 1))


def _no_space(write: object) -> object:
    def fail(descriptor: int, data: bytes) -> int:
        if b'"t":' in bytes(data):
            raise OSError(28, "No space left on device")
        return write(descriptor, data)  # type: ignore[operator,no-any-return]

    return fail


class WatchedSlots(ScriptedSlots):
    """Scripted slots that note what their executor's thread finds when it looks for a free one."""

    def __init__(self, **options: Any) -> None:
        self.looks: list[int] = []
        super().__init__(**options)

    @property
    def free(self) -> int:
        free = super().free
        if threading.current_thread().name.startswith("executor "):
            self.looks.append(free)
        return free


def test_runs_that_end_together_are_followed_by_one_look_at_what_may_start(
    tmp_path: Path, pace: SimpleNamespace
) -> None:
    def make(**events: Any) -> WatchedSlots:
        case.slots = slots = WatchedSlots(**events)
        made.append(slots)
        return slots

    made: list[WatchedSlots] = []
    case = AgentCase(tmp_path, make_slots=make)
    case.limits = replace(case.limits, commit_pace=pace)  # type: ignore[arg-type]
    case.boot()
    [slots] = made
    fill(case)
    seen: list[tuple[int, list[int]]] = []

    def note() -> None:
        seen.append((len(slots.started), list(slots.looks)))

    def end_all() -> None:
        slots.looks.clear()
        for run_id in list(slots.running):
            slots.end(run_id, Outcome.SUCCEEDED, "done")
        note()
        slots.loop.call_soon(note)

    slots.loop.call_soon_threadsafe(end_all)
    eventually(lambda: len(seen) == 2)

    [at_the_ends, (started, looks)] = seen
    assert at_the_ends == (4, [])
    assert started == 8
    assert 0 not in looks, "another look, for which no slot was left"
    case.close()
