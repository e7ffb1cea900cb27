"""Several triggers in one delivery: each is taken, answered and recorded by itself."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.integration.executor.test_agent_restart import (
    OLD,
    accepted_and_starting,
    leave_journal,
)
from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from tests.support.fake_scheduler import now_ms
from warren.broker.codec import encode, packed
from warren.broker.messages import Finished, NotStarted, Outcome, Triggers
from warren.executor.journal import file


@pytest.fixture
def case(tmp_path: Path) -> Iterator[AgentCase]:
    case = AgentCase(tmp_path)
    yield case
    case.close()


def hand_out(case: AgentCase) -> None:
    """Let the messages in the run queue have been handed out once, to somebody who died."""
    transport = case.broker.transport()
    consumer = transport.consumer("dead", [case.desk.run_queue], prefetch=10)
    assert consumer.take(10, 5)
    transport.close()


def test_each_trigger_of_a_message_runs_once_and_the_message_is_settled(case: AgentCase) -> None:
    case.boot()

    case.desk.publish(case.desk.seal_triggers(range(1, 51)))
    for run_id in range(1, 51):
        case.desk.expect(run_id, Finished)

    assert [case.starts_of(run_id) for run_id in range(1, 51)] == [1] * 50
    accepted = [one for one in case.records() if isinstance(one, file.Accepted)]
    assert len(accepted) == 50
    eventually(lambda: case.desk.count_unsettled(case.desk.run_queue) == 0)


def test_a_message_that_comes_twice_starts_nothing_twice(case: AgentCase) -> None:
    case.boot()
    message = case.desk.seal_triggers(range(1, 11))

    case.desk.publish(message, message)
    case.settle()
    for run_id in range(1, 11):
        case.desk.expect(run_id, Finished)

    assert [case.starts_of(run_id) for run_id in range(1, 11)] == [1] * 10


def test_killed_with_a_message_half_begun_its_runs_are_lost_given_back_or_reported(
    case: AgentCase,
) -> None:
    ended = Finished(
        run_id=3,
        boot_id=OLD,
        outcome=Outcome.SUCCEEDED,
        message="done",
        started_at_ms=1,
        finished_at_ms=2,
    )
    # Of five in the message, two were not in the journal yet; one was at work, and one done.
    leave_journal(
        case,
        file.Accepted(run_id=1),
        *accepted_and_starting(2),
        *accepted_and_starting(3),
        file.Ended(report=ended),
    )
    case.desk.declare_queues_of(OLD)
    case.desk.publish(case.desk.seal_triggers(range(1, 6), boot_id=OLD, routed_at_ms=now_ms()))
    hand_out(case)

    case.boot()
    case.settle()

    for run_id in (1, 4, 5):
        case.desk.expect(run_id, NotStarted)
        assert case.desk.reports_on(run_id, Finished) == []
    assert case.desk.expect(2, Finished).outcome == Outcome.LOST
    assert case.desk.expect(3, Finished) == ended
    assert [case.starts_of(run_id) for run_id in range(1, 6)] == [0] * 5


def test_one_that_cannot_be_read_keeps_none_of_its_neighbours(case: AgentCase) -> None:
    executor = case.boot()
    bad = b'{"type":"Trigger","run_id":-2}'
    bodies = [encode(case.desk.trigger(1)), bad, encode(case.desk.trigger(3))]

    case.desk.publish(case.desk.seal(packed(bodies), case.desk.run_queue))
    case.desk.expect(1, Finished)
    case.desk.expect(3, Finished)

    assert executor.counts["Malformed"] == 1
    eventually(lambda: case.desk.count_unsettled(case.desk.run_queue) == 0)
    assert case.desk.count_unsettled("warren.dead") == 0


def test_a_message_of_which_nothing_can_be_read_is_given_up(case: AgentCase) -> None:
    case.boot()

    nonsense = Triggers(triggers=(msgspec.Raw(b'{"type":"Trigger"}'), msgspec.Raw(b"1")))
    case.desk.publish(case.desk.seal(nonsense, case.desk.run_queue))

    eventually(lambda: case.desk.count_unsettled("warren.dead") == 1)


def test_a_message_past_its_time_is_answered_for_each_of_its_runs(case: AgentCase) -> None:
    case.boot()
    message = case.desk.seal(
        packed([encode(case.desk.trigger(run_id)) for run_id in (1, 2)]),
        case.desk.run_queue,
        valid_seconds=-1,
    )

    case.desk.publish(message)

    for run_id in (1, 2):
        case.desk.expect(run_id, NotStarted)
    assert case.starts_of(1) == case.starts_of(2) == 0
