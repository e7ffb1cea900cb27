"""A journal that cannot be written: nothing new is taken, and what runs finishes."""

import errno
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from tests.support.small_disk import fill as fill_up
from tests.support.small_disk import small_disk
from warren.broker.messages import (
    Finished,
    HealthIssue,
    Heartbeat,
    IdleBeat,
    Kill,
    NotStarted,
    Outcome,
    Started,
)
from warren.executor.core import Watch
from warren.executor.journal.file import Boot
from warren.executor.journal.group_commit import CommitPace


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
    return disk


@pytest.fixture
def case(tmp_path: Path, disk: Disk) -> Iterator[AgentCase]:
    case = AgentCase(tmp_path)
    case.limits = replace(case.limits, commit_pace=CommitPace(retry_seconds=0.05))
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
    assert executor.join(60)

    assert case.desk.count_unsettled(case.desk.run_queue) == 1


def test_result_that_is_not_durable_is_reported_but_does_not_count_as_recorded(
    case: AgentCase, disk: Disk
) -> None:
    recorded = threading.Event()
    case.boot()
    case.desk.send_trigger(1, param="hold")
    eventually(lambda: case.starts_of(1))
    fill(case, disk)

    case.slots.finish(1, on_recorded=recorded.set)

    assert case.desk.expect(1, Finished).outcome is Outcome.SUCCEEDED
    assert not recorded.is_set()
    disk.is_full = False
    assert recorded.wait(30)


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


def test_folder_that_cannot_be_synced_delays_the_boot_until_it_can(
    case: AgentCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = threading.Event()

    def refuse(_descriptor: int) -> None:
        refused.set()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", refuse)
        executor = case.boot(welcomed=False)
        assert refused.wait(30)

    eventually(lambda: executor.is_taking)
    case.desk.send_trigger(1)
    assert case.desk.expect(1, Finished).outcome is Outcome.SUCCEEDED


def test_check_that_fails_once_does_not_end_the_checks(
    case: AgentCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()

    def fail(_watch: Watch) -> None:
        failed.set()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    case.boot()
    with monkeypatch.context() as broken:
        broken.setattr(Watch, "check", fail)
        assert failed.wait(30)
    case.desk.send_trigger(1, param="hold")

    case.desk.expect(1, Started)


def last_health_issues(case: AgentCase) -> tuple[HealthIssue, ...]:
    """Return the health issues of the last heartbeat; the first may still be on its way."""
    return eventually(lambda: case.desk.of(Heartbeat))[-1].health_issues


def test_heartbeat_tells_at_once_that_the_journal_cannot_be_written_and_that_it_can(
    case: AgentCase, disk: Disk
) -> None:
    case.limits = replace(case.limits, beat_seconds=600.0)
    case.boot()
    before = last_health_issues(case)

    fill(case, disk)
    eventually(lambda: last_health_issues(case) == (HealthIssue.JOURNAL,))
    disk.is_full = False
    eventually(lambda: last_health_issues(case) == ())

    assert before == ()


def test_heartbeat_tells_that_the_reserve_of_the_disk_is_taken(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 6_000_000) as small:
        case = AgentCase(small)
        case.boot()

        others = fill_up(small)
        eventually(lambda: last_health_issues(case) == (HealthIssue.DISK,))
        case.desk.send_trigger(1)
        finished = case.desk.expect(1, Finished)
        others.unlink()
        eventually(lambda: last_health_issues(case) == ())

        assert finished.outcome is Outcome.SUCCEEDED
        case.close()


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


def test_run_whose_start_waits_for_the_disk_at_the_end_of_its_executor_never_starts(
    case: AgentCase, disk: Disk
) -> None:
    executor = case.boot()
    fill(case, disk)

    executor.stop(hurry=True)
    eventually(lambda: any(beat.draining for beat in case.desk.of(Heartbeat)))
    disk.is_full = False

    never = case.desk.expect(99, NotStarted)
    assert never.reason == "stopped because its executor shut down"
    assert executor.join(60)
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


def test_executor_that_cannot_begin_its_journal_says_so(case: AgentCase, disk: Disk) -> None:
    disk.is_full = True

    case.boot(welcomed=False)
    eventually(lambda: last_health_issues(case) == (HealthIssue.JOURNAL,))
    busy = case.desk.ask(IdleBeat, job_ids=()).busy_executor
    disk.is_full = False
    eventually(lambda: last_health_issues(case) == ())

    assert busy == "its journal cannot be written"


def test_executor_begins_on_a_disk_that_has_no_room_for_a_new_journal(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 6_000_000) as small:
        case = AgentCase(small)
        before = case.boot()
        before.stop(hurry=True)
        assert before.join(60)

        fill_up(small)
        case.boot()
        case.desk.send_trigger(1)

        assert case.desk.expect(1, Finished).outcome is Outcome.SUCCEEDED
        assert len([one for one in case.records() if isinstance(one, Boot)]) == 2
        case.close()


def test_runs_of_a_killed_executor_are_reported_although_no_new_journal_can_be_made(
    tmp_path: Path,
) -> None:
    case = AgentCase(tmp_path)
    case.boot()
    case.desk.send_trigger(1, param="hold")
    eventually(lambda: case.starts_of(1))
    killed = case.freeze_journal(tmp_path / "killed")
    (killed / "exec-1" / "journal.tmp").mkdir()

    case.boot(state_dir=killed)
    lost = case.desk.expect(1, Finished)
    again = shutil.copytree(killed, tmp_path / "again")
    (again / "exec-1" / "journal.tmp").rmdir()
    case.boot(state_dir=again)

    assert lost.outcome is Outcome.LOST
    assert sum(isinstance(one, Boot) for one in case.records(again)) == 3
    assert None not in case.records(killed)
    case.close()
