"""Heartbeats that get lost and come back: nothing is started that may have been given to others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from warren.broker.messages import (
    Finished,
    HealthIssue,
    Heartbeat,
    IdleBeat,
    Kill,
    NotStarted,
    OpenRunsQuery,
    OpenRunsReply,
)
from warren.executor.journal.file import Confirmed, Ended
from warren.executor.lanes.readiness import CONTACT_SECONDS


@pytest.fixture
def case(tmp_path: Path) -> Iterator[AgentCase]:
    case = AgentCase(tmp_path)
    case.slot_count = 1
    case.boot()
    yield case
    case.broker.unblock()
    case.broker.start()
    case.close()


def hold_one_let_wait(case: AgentCase, *waiting: int) -> None:
    """Have run 1 at work in the only slot, and others behind it."""
    case.desk.send_trigger(1, param="hold")
    eventually(lambda: case.starts_of(1))
    for run_id in waiting:
        case.desk.send_trigger(run_id)
    case.settle()


def lose_contact(case: AgentCase) -> None:
    """Let the broker refuse every message for longer than contact lasts."""
    case.broker.block()
    case.skip_seconds(CONTACT_SECONDS + 1)


def test_heartbeats_carry_load_and_the_fingerprint_of_the_catalogue(case: AgentCase) -> None:
    beat = eventually(lambda: case.desk.of(Heartbeat))[-1]

    assert beat.catalogue == case.slots.catalogue.fingerprint
    assert beat.load.slots == 4
    assert beat.load.memory_percent > 0
    assert not beat.draining


def test_without_contact_what_waits_is_not_started(case: AgentCase) -> None:
    hold_one_let_wait(case, 2)
    lose_contact(case)

    case.slots.finish(1)
    eventually(lambda: any(isinstance(record, Ended) for record in case.records()))

    with pytest.raises(AssertionError, match="did not come true"):
        eventually(lambda: case.starts_of(2), 0.5)


def test_regained_contact_starts_what_is_still_open_and_gives_back_the_rest(
    case: AgentCase,
) -> None:
    hold_one_let_wait(case, 2, 3)
    case.desk.open_ids = {3}
    lose_contact(case)
    case.slots.finish(1)

    case.broker.unblock()

    case.desk.expect(3, Finished)
    (question, *_) = case.desk.of(OpenRunsQuery)
    assert question.run_ids == (2, 3)
    assert question.identities == (case.desk.trigger(2).identity, case.desk.trigger(3).identity)
    assert case.desk.expect(2, NotStarted).identity == case.desk.trigger(2).identity
    assert case.starts_of(2) == 0


def test_dropped_run_is_settled_in_the_journal_so_that_no_later_boot_reports_it(
    case: AgentCase,
) -> None:
    hold_one_let_wait(case, 2)
    case.desk.open_ids = set()
    lose_contact(case)
    case.broker.unblock()

    def is_settled() -> bool:
        records = case.records()
        return any(isinstance(r, Confirmed) and 2 in r.run_ids for r in records)

    eventually(is_settled)
    case.slots.finish(1)
    case.executors[0].stop(hurry=True)
    assert case.executors[0].join(30)
    case.boot()
    case.settle()

    assert len(case.desk.reports_on(2, NotStarted)) == 1


def test_question_is_repeated_until_it_is_answered(case: AgentCase) -> None:
    hold_one_let_wait(case, 2)
    case.desk.answers_which_open = False
    lose_contact(case)
    case.slots.finish(1)
    case.broker.unblock()
    eventually(lambda: case.desk.of(OpenRunsQuery))
    assert case.starts_of(2) == 0

    eventually(lambda: len(case.desk.of(OpenRunsQuery)) >= 2)
    case.desk.command(OpenRunsReply(asked=(2,), open_ids=(2,)))

    case.desk.expect(2, Finished)


def test_heartbeat_tells_that_contact_is_not_yet_sure_again(case: AgentCase) -> None:
    hold_one_let_wait(case, 2)
    case.desk.answers_which_open = False
    lose_contact(case)
    case.broker.unblock()

    eventually(lambda: case.desk.of(OpenRunsQuery))
    eventually(lambda: case.desk.of(Heartbeat)[-1].health_issues == (HealthIssue.CONTACT,))
    case.desk.command(OpenRunsReply(asked=(2,), open_ids=(2,)))

    eventually(lambda: case.desk.of(Heartbeat)[-1].health_issues == ())


def test_process_that_was_frozen_asks_before_it_starts_anything(case: AgentCase) -> None:
    hold_one_let_wait(case, 2)
    case.desk.open_ids = set()

    case.skip_seconds(90)
    case.slots.finish(1)

    case.desk.expect(1, Finished)
    eventually(lambda: case.desk.of(OpenRunsQuery))
    case.settle()
    assert case.starts_of(2) == 0


def test_running_run_goes_on_without_contact_and_is_reported_after(case: AgentCase) -> None:
    hold_one_let_wait(case)
    lose_contact(case)

    case.slots.finish(1)
    eventually(lambda: any(isinstance(record, Ended) for record in case.records()))
    assert case.desk.reports_on(1, Finished) == []
    case.broker.unblock()

    case.desk.expect(1, Finished)
    assert case.slots.stopped == []


def test_executor_without_contact_says_that_it_is_busy(case: AgentCase) -> None:
    hold_one_let_wait(case, 2)
    case.desk.answers_which_open = False
    lose_contact(case)
    case.broker.unblock()
    eventually(lambda: case.desk.of(OpenRunsQuery))

    answer = case.desk.ask(IdleBeat, job_ids=())
    assert (answer.busy_executor, answer.may_start) == ("it is out of contact", False)


def test_broker_restart_loses_no_report_and_doubles_no_run(case: AgentCase) -> None:
    hold_one_let_wait(case, 2, 3)

    case.broker.stop()
    case.slots.finish(1)
    eventually(lambda: any(isinstance(record, Ended) for record in case.records()))
    case.broker.start()

    for run_id in (1, 2, 3):
        case.desk.expect(run_id, Finished)
    assert [case.starts_of(run_id) for run_id in (1, 2, 3)] == [1, 1, 1]


def test_outage_of_an_hour_keeps_every_result(case: AgentCase) -> None:
    case.slots.count = 50
    for run_id in range(1, 51):
        case.desk.send_trigger(run_id, param="hold")
    eventually(lambda: len(case.slots.started) == 50)

    case.broker.stop()
    for run_id in range(1, 51):
        case.slots.finish(run_id)
    eventually(lambda: sum(isinstance(record, Ended) for record in case.records()) == 50)
    case.broker.start()

    eventually(lambda: len(case.desk.reports) >= 50)
    assert {report.run_id for report in case.desk.reports} == set(range(1, 51))


def test_kill_of_the_last_run_in_question_ends_the_questions(case: AgentCase) -> None:
    hold_one_let_wait(case, 2)
    case.desk.answers_which_open = False
    lose_contact(case)
    case.slots.finish(1)
    case.broker.unblock()
    eventually(lambda: case.desk.of(OpenRunsQuery))

    case.desk.command(Kill(run_id=2, reason="killed by ann"))
    case.desk.expect(2, Finished)
    case.desk.answers_which_open = True
    case.desk.send_trigger(3)

    case.desk.expect(3, Finished)


def test_trigger_that_comes_while_contact_is_being_regained_waits_for_the_answer_too(
    case: AgentCase,
) -> None:
    hold_one_let_wait(case, 2)
    case.desk.answers_which_open = False
    lose_contact(case)
    case.slots.finish(1)
    case.broker.unblock()
    eventually(lambda: case.desk.of(OpenRunsQuery))

    case.desk.send_trigger(3)
    case.settle()
    assert case.starts_of(3) == 0
    case.desk.command(OpenRunsReply(asked=(2, 3), open_ids=(2, 3)))

    case.desk.expect(3, Finished)
