"""A journal that cannot be written: nothing new is taken, and what runs finishes."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.messages import Finished, IdleBeat, Kill, Outcome
from executor import groupcommit
from tests.support.agents import AgentCase
from tests.support.eventually import eventually


class Disk:
    """Whether fdatasync works: the one call that every commit ends with."""

    def __init__(self) -> None:
        self.is_full = False
        self.refusals = 0
        self._fdatasync = os.fdatasync

    def fdatasync(self, descriptor: int) -> None:
        if self.is_full:
            self.refusals += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._fdatasync(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(os, "fdatasync", disk.fdatasync)
    monkeypatch.setattr(groupcommit, "RETRY_SECONDS", 0.05)
    return disk


@pytest.fixture
def case(tmp_path: Path, disk: Disk) -> Iterator[AgentCase]:
    case = AgentCase(tmp_path)
    yield case
    disk.is_full = False
    case.close()


def fill(case: AgentCase, disk: Disk) -> None:
    """Fill the disk and let the executor find out, by trigger 99."""
    disk.is_full = True
    case.desk.send_trigger(99, param="hold")
    eventually(lambda: disk.refusals)


def test_nothing_new_starts_and_nothing_is_acknowledged_on_a_full_disk(
    case: AgentCase, disk: Disk
) -> None:
    executor = case.boot()

    fill(case, disk)
    eventually(lambda: disk.refusals > 3)
    assert case.starts_of(99) == 0
    executor.stop(hurry=True)
    assert executor.join(20)

    assert case.desk.count_unsettled(case.desk.run_queue) == 1


def test_triggers_stay_with_the_broker_while_the_disk_is_full(case: AgentCase, disk: Disk) -> None:
    executor = case.boot()
    fill(case, disk)
    case.desk.publish(*[case.desk.seal_trigger(run_id) for run_id in range(101, 401)])

    tries = disk.refusals
    eventually(lambda: disk.refusals > tries + 10)

    # The first one, and at most the batch that was under way when the inbox was paused.
    assert executor.counts["taken"] <= 101
    disk.is_full = False
    eventually(lambda: executor.counts["taken"] == 301)


def test_run_at_work_finishes_and_is_reported_on_a_full_disk(case: AgentCase, disk: Disk) -> None:
    case.boot()
    case.desk.send_trigger(1, param="hold")
    eventually(lambda: case.starts_of(1))
    fill(case, disk)

    case.slots.finish(1)

    assert case.desk.expect(1, Finished).outcome is Outcome.SUCCEEDED


def test_room_on_the_disk_lets_everything_go_on(case: AgentCase, disk: Disk) -> None:
    case.boot()
    fill(case, disk)
    for run_id in range(1, 51):
        case.desk.send_trigger(run_id)

    disk.is_full = False

    for run_id in range(1, 51):
        case.desk.expect(run_id, Finished)
    assert case.starts_of(99) == 1
    assert len(case.slots.started) == 51


def test_full_disk_is_said_to_who_asks(case: AgentCase, disk: Disk) -> None:
    case.boot()
    fill(case, disk)

    busy = case.desk.ask(IdleBeat, job_ids=()).busy_executor

    assert busy == "its journal cannot be written"


def test_run_killed_while_its_start_waits_for_the_disk_never_starts(
    case: AgentCase, disk: Disk
) -> None:
    case.boot()
    fill(case, disk)

    case.desk.command(Kill(run_id=99, reason="killed by ann"))
    case.desk.ask(IdleBeat, job_ids=())
    disk.is_full = False

    finished = case.desk.expect(99, Finished)
    assert (finished.outcome, finished.message) == (Outcome.KILLED, "killed by ann")
    assert case.starts_of(99) == 0


def test_disk_that_is_full_at_the_welcome_only_delays_the_executor(
    case: AgentCase, disk: Disk
) -> None:
    disk.is_full = True
    executor = case.boot(welcomed=False)
    eventually(lambda: disk.refusals > 1)
    assert not executor.is_taking

    disk.is_full = False
    eventually(lambda: executor.is_taking)
    case.desk.send_trigger(1)

    case.desk.expect(1, Finished)
