"""An executor whose runs are elsewhere: they outlive it, and it goes on with them."""

import errno
import os
import queue
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from tests.support.fake_scheduler import now_ms
from tests.support.scripted_slots import RemoteScriptedSlots
from warren.broker.messages import (
    Finished,
    Goodbye,
    HealthIssue,
    Heartbeat,
    KnownState,
    NotStarted,
    Outcome,
    RunKey,
    RunStateQuery,
    Trigger,
)
from warren.broker.reasons import Why
from warren.executor.journal import file
from warren.executor.journal.group_commit import CommitPace

AWAY = Why.REMOTE_SILENT(url="http://jobs:9999")


@pytest.fixture
def case(tmp_path: Path) -> Iterator[AgentCase]:
    def make(**events: Any) -> RemoteScriptedSlots:
        case.slots = RemoteScriptedSlots(**events)
        return case.slots

    case = AgentCase(tmp_path, make_slots=make)
    yield case
    case.close()


def test_handler_of_any_name_is_passed_on(case: AgentCase) -> None:
    case.boot()

    case.desk.send_trigger(1, handler="known.elsewhere", param="ok")

    assert case.desk.expect(1, Finished).outcome is Outcome.SUCCEEDED


def test_runs_of_a_job_go_one_after_the_other_whatever_it_says(case: AgentCase) -> None:
    case.boot()
    for run_id in (1, 2):
        case.desk.send_trigger(run_id, job_id=5, concurrency=4, param="hold")
    eventually(lambda: case.starts_of(1))
    case.desk.send_trigger(3, job_id=6, param="ok")
    case.desk.expect(3, Finished)
    before = case.starts_of(2)

    case.slots.finish(1)

    assert before == 0
    eventually(lambda: case.starts_of(2))


def test_killed_executor_goes_on_with_its_runs_as_the_same_boot(
    case: AgentCase, tmp_path: Path
) -> None:
    case.host_ahead_seconds = 500
    first = case.boot()
    boot_id = first.identity.boot_id
    case.desk.send_trigger(1, job_id=5, param="hold")
    eventually(lambda: case.starts_of(1))
    left = case.freeze_journal(tmp_path / "left")
    first.stop(hurry=True)
    assert first.join(60)
    case.desk.forget(boot_id)

    case.boot(state_dir=left, boot_id=boot_id)
    key = RunKey(run_id=1, boot_id=boot_id)
    known = case.desk.ask(RunStateQuery, runs=(key,)).runs[1]
    [age_seconds] = case.slots.ages
    case.desk.send_trigger(1, job_id=5, param="hold", resent=True)
    case.desk.send_trigger(2, job_id=5, param="ok")
    case.desk.send_trigger(3, job_id=6, param="ok")
    case.desk.expect(3, Finished)
    starts = case.starts_of(1), case.starts_of(2)
    case.slots.finish(1, message="as if nothing had happened")

    assert known is KnownState.RUNNING
    assert 0 <= age_seconds < 400  # the schedulers' clock is behind by more
    assert [trigger.run_id for trigger in case.slots.resumed] == [1]
    assert starts == (0, 0)
    assert case.desk.expect(1, Finished).message == "as if nothing had happened"
    assert case.desk.expect(2, Finished).outcome is Outcome.SUCCEEDED


def test_executor_that_ends_leaves_its_runs_and_does_not_say_goodbye(case: AgentCase) -> None:
    executor = case.boot()
    case.desk.send_trigger(1, param="hold")
    eventually(lambda: case.starts_of(1))

    executor.stop()

    assert executor.join(60)
    assert case.slots.cut_offs == []
    assert not executor.was_clean
    assert case.desk.of(Goodbye) == []
    assert case.desk.reports_on(1, Finished) == []


def test_run_that_is_just_starting_when_its_executor_ends_does_not_start(
    case: AgentCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.limits = replace(case.limits, commit_pace=CommitPace(retry_seconds=0.02))
    executor = case.boot()
    with monkeypatch.context() as full_disk:
        full_disk.setattr(os, "fdatasync", fail_for_want_of_space)
        case.desk.send_trigger(1, param="hold")
        eventually(lambda: HealthIssue.JOURNAL in case.desk.of(Heartbeat)[-1].health_issues)
        executor.stop(hurry=True)
        # Once for what waits, and once for what has been started.
        eventually(lambda: case.slots.recalls == 2)

    ended = case.desk.expect(1, NotStarted)

    assert executor.join(60)
    assert ended.reason == "stopped because its executor shut down"
    assert case.starts_of(1) == 0


def test_boot_that_takes_what_it_adopts_into_its_journal_says_that_it_has_the_runs(
    case: AgentCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.limits = replace(case.limits, commit_pace=CommitPace(retry_seconds=0.02))
    executor = case.boot()
    trigger = Trigger(
        run_id=1, job_id=5, boot_id="boot-of-old", kind="CRON", handler="any", scheduled_at_ms=1
    )
    lines = (
        file.Boot(boot_id="boot-of-old", at_ms=now_ms() - 60_000),
        file.Accepted(run_id=1),
        file.Starting(run_id=1, at_ms=5, trigger=trigger, host_at_ms=5),
    )
    told: queue.Queue[str] = queue.Queue()
    with monkeypatch.context() as full_disk:
        full_disk.setattr(os, "fdatasync", fail_for_want_of_space)
        executor.adopt(b"".join(file.to_line(line) + b"\n" for line in lines), told.put)
        eventually(lambda: HealthIssue.JOURNAL in case.desk.of(Heartbeat)[-1].health_issues)

        key = RunKey(run_id=1, boot_id="boot-of-old")
        known = case.desk.ask(RunStateQuery, runs=(key,)).runs

    assert known == {1: KnownState.WAITING}
    assert told.get(timeout=30) == ""
    assert case.desk.ask(RunStateQuery, runs=(key,)).runs == {1: KnownState.RUNNING}


def test_executor_without_runs_says_goodbye(case: AgentCase) -> None:
    executor = case.boot()

    executor.drain()

    assert executor.join(60)
    assert executor.was_clean
    eventually(lambda: case.desk.of(Goodbye))


def test_runs_that_wait_for_one_that_is_away_go_back_until_it_returns(case: AgentCase) -> None:
    case.boot()
    case.desk.send_trigger(1, job_id=5, param="hold")
    case.desk.send_trigger(2, job_id=5, param="ok")
    eventually(lambda: case.starts_of(1))
    assert isinstance(case.slots, RemoteScriptedSlots)

    case.slots.away_now = AWAY

    returned = case.desk.expect(2, NotStarted)
    eventually(lambda: case.desk.of(Heartbeat)[-1].draining)
    case.desk.send_trigger(3, job_id=6, param="ok")
    refused = case.desk.expect(3, NotStarted)
    assert (returned.reason, refused.reason) == (str(AWAY), str(AWAY))

    case.slots.away_now = None
    eventually(lambda: not case.desk.of(Heartbeat)[-1].draining)
    case.desk.send_trigger(4, job_id=6, param="ok")
    assert case.desk.expect(4, Finished).outcome is Outcome.SUCCEEDED
    case.slots.finish(1)
    assert case.desk.expect(1, Finished).outcome is Outcome.SUCCEEDED


def fail_for_want_of_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
