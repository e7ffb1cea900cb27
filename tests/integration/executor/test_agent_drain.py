import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from warren.broker.messages import Callback, Finished, Goodbye, Heartbeat, NotStarted, Outcome
from warren.executor.boot_context import Limits
from warren.executor.journal.file import Confirmed


@pytest.fixture
def case(tmp_path: Path) -> Iterator[AgentCase]:
    case = AgentCase(tmp_path)
    case.slot_count = 1
    case.limits = Limits(slots=1, grace_seconds=0.2, drain_seconds=30)
    yield case
    case.close()


def hold_one_let_wait(case: AgentCase, *waiting: int, param: str = "hold") -> None:
    case.desk.send_trigger(1, param=param)
    eventually(lambda: case.starts_of(1))
    for run_id in waiting:
        case.desk.send_trigger(run_id)
    case.settle()


def test_idle_executor_says_goodbye_and_ends_with_status_zero(case: AgentCase) -> None:
    executor = case.boot()

    executor.stop()

    assert executor.join(30)
    assert executor.exit_status == 0
    goodbye = eventually(lambda: case.desk.of(Goodbye))[0]
    assert goodbye.boot_id == executor.identity.boot_id
    assert case.slots.is_closed


def test_goodbye_is_the_last_word(case: AgentCase) -> None:
    executor = case.boot()

    executor.stop()
    assert executor.join(30)

    eventually(lambda: case.desk.of(Goodbye))
    assert isinstance(case.desk.heard[-1], Goodbye)


def test_draining_is_told_at_once(case: AgentCase) -> None:
    case.limits = replace(case.limits, beat_seconds=600.0)
    executor = case.boot()
    hold_one_let_wait(case)

    executor.stop()

    eventually(lambda: any(beat.draining for beat in case.desk.of(Heartbeat)))
    case.slots.finish(1)


def test_waiting_runs_are_given_back_at_once_and_the_running_one_may_finish(
    case: AgentCase,
) -> None:
    executor = case.boot()
    hold_one_let_wait(case, 2, 3)

    executor.stop()

    for run_id in (2, 3):
        assert case.desk.expect(run_id, NotStarted).reason == "the executor is shutting down"
    case.slots.finish(1)
    assert case.desk.expect(1, Finished).outcome is Outcome.SUCCEEDED
    assert executor.join(30)
    assert case.starts_of(2) == 0


def test_trigger_that_comes_while_draining_is_given_back(case: AgentCase) -> None:
    executor = case.boot()
    hold_one_let_wait(case)
    executor.stop()
    eventually(lambda: any(beat.draining for beat in case.desk.of(Heartbeat)))

    case.desk.send_trigger(2)

    case.desk.expect(2, NotStarted)
    case.slots.finish(1)
    assert executor.join(30)


def test_no_trigger_that_was_delivered_is_left_unanswered(case: AgentCase) -> None:
    case.slot_count = 4
    executor = case.boot()
    is_over = threading.Event()
    sent: list[int] = []

    def send() -> None:
        while not is_over.is_set():
            sent.append(len(sent) + 1)
            case.desk.send_trigger(sent[-1])

    sender = threading.Thread(target=send)
    sender.start()
    eventually(lambda: len(sent) > 50)
    executor.stop()
    assert executor.join(30)
    is_over.set()
    sender.join()

    left = case.desk.drain_run_queue()
    assert not [delivery for delivery in left if delivery.redelivered]
    eventually(
        lambda: len({report.run_id for report in case.desk.reports}) == len(sent) - len(left)
    )


def test_run_that_outlasts_the_drain_is_cut_off_and_reported(case: AgentCase) -> None:
    case.limits = Limits(slots=1, grace_seconds=0.2, drain_seconds=0.1)
    executor = case.boot()
    hold_one_let_wait(case)

    executor.stop()

    ended = case.desk.expect(1, Finished)
    assert (ended.outcome, ended.message) == (
        Outcome.FAILED,
        "stopped because its executor shut down",
    )
    assert executor.join(30)


def test_hurry_cuts_off_at_once(case: AgentCase) -> None:
    executor = case.boot()
    hold_one_let_wait(case)

    executor.stop(hurry=True)

    assert executor.join(30)
    assert case.desk.expect(1, Finished).outcome is Outcome.FAILED


def test_second_stop_with_hurry_ends_the_wait(case: AgentCase) -> None:
    executor = case.boot()
    hold_one_let_wait(case)
    executor.stop()
    eventually(lambda: any(beat.draining for beat in case.desk.of(Heartbeat)))

    executor.stop(hurry=True)

    assert executor.join(30)
    assert case.desk.expect(1, Finished).outcome is Outcome.FAILED


def test_every_callback_is_confirmed_in_the_journal_at_the_end(case: AgentCase) -> None:
    executor = case.boot()
    hold_one_let_wait(case, 2, 3)

    executor.stop(hurry=True)
    assert executor.join(30)

    confirmed = [
        run_id
        for record in case.records()
        if isinstance(record, Confirmed)
        for run_id in record.run_ids
    ]
    assert {1, 2, 3} <= set(confirmed)


def test_without_a_broker_it_ends_in_bounded_time_without_goodbye_and_the_next_boot_reports(
    case: AgentCase,
) -> None:
    case.limits = replace(case.limits, report_seconds=0.3)
    executor = case.boot()
    hold_one_let_wait(case, 2)
    case.broker.stop()

    executor.stop(hurry=True)
    assert executor.join(30)
    case.broker.start()
    assert case.desk.of(Goodbye) == []
    case.boot()

    assert case.desk.expect(1, Finished).outcome is Outcome.FAILED
    assert case.desk.expect(2, NotStarted).boot_id == executor.identity.boot_id


def test_job_that_cannot_be_killed_does_not_hold_up_the_end_and_is_lost(
    case: AgentCase,
) -> None:
    case.limits = replace(case.limits, proof_seconds=0.1)
    executor = case.boot()
    hold_one_let_wait(case, param="stubborn")

    executor.stop(hurry=True)
    assert executor.join(30)
    assert case.desk.of(Goodbye) == []
    case.boot()

    assert case.desk.expect(1, Finished).outcome is Outcome.LOST


def test_triggers_left_in_the_queue_are_there_for_others_to_drain(case: AgentCase) -> None:
    executor = case.boot()
    executor.stop()
    assert executor.join(30)

    case.desk.send_trigger(5)

    assert case.desk.count_unsettled(case.desk.run_queue) == 1


def test_executor_that_was_never_welcomed_ends_without_a_word(case: AgentCase) -> None:
    case.desk.welcomes = False
    executor = case.boot(welcomed=False)

    executor.stop()

    assert executor.join(30)
    assert case.desk.of(Goodbye) == []
    assert case.desk.of(Callback) == []


def test_stop_of_an_executor_that_has_ended_is_harmless(case: AgentCase) -> None:
    executor = case.boot()
    executor.stop()
    assert executor.join(30)

    executor.stop()
    executor.stop(hurry=True)

    assert not executor.is_alive
