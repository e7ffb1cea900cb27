import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from tests.support.fake_scheduler import now_ms
from warren.broker.messages import (
    Block,
    Finished,
    Heartbeat,
    NotStarted,
    NotWelcome,
    Outcome,
    Started,
    Trigger,
)
from warren.broker.topology import DEAD_QUEUE
from warren.executor.journal.file import Accepted, Confirmed, Ended, Starting
from warren.executor.lanes.active_runs import STARTED_SECONDS
from warren.executor.lanes.lanes import Decision, Lanes
from warren.executor.run_life import Event


@pytest.fixture
def unbooted(tmp_path: Path) -> Iterator[AgentCase]:
    case = AgentCase(tmp_path)
    yield case
    case.close()


@pytest.fixture
def case(unbooted: AgentCase) -> AgentCase:
    unbooted.boot()
    return unbooted


def run_queue_is_empty(case: AgentCase) -> bool:
    """Whether nothing would come back to the queue if the executor went away now."""
    case.executors[-1].stop(hurry=True)
    assert case.executors[-1].join(30)
    return case.desk.count_unsettled(case.desk.run_queue) == 0


def test_run_is_started_finished_and_reported_in_the_schedulers_time(case: AgentCase) -> None:
    before = now_ms()

    case.desk.send_trigger(1)

    finished = case.desk.expect(1, Finished)
    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "done")
    assert finished.boot_id == case.desk.boot_id
    assert before <= finished.started_at_ms <= finished.finished_at_ms <= now_ms()


def test_every_step_of_a_run_is_in_the_journal_in_order(case: AgentCase) -> None:
    case.desk.send_trigger(1)
    case.desk.expect(1, Finished)

    eventually(lambda: any(isinstance(record, Confirmed) for record in case.records()))
    kinds = [type(record) for record in case.records()[1:]]
    assert kinds == [Accepted, Starting, Ended, Confirmed]


def test_starting_is_in_the_journal_before_the_process_starts(case: AgentCase) -> None:
    seen: list[bool] = []
    start = case.slots.start

    def look(trigger: object, *_others: object) -> None:
        seen.append(any(isinstance(record, Starting) for record in case.records()))
        start(trigger)  # type: ignore[arg-type]

    case.slots.start = look  # type: ignore[method-assign,assignment]
    case.desk.send_trigger(1)

    case.desk.expect(1, Finished)
    assert seen == [True]


def test_run_that_is_at_work_is_acknowledged_already(case: AgentCase) -> None:
    case.desk.send_trigger(1, param="hold")
    eventually(lambda: case.starts_of(1))

    case.settle()

    assert run_queue_is_empty(case)


def test_short_run_sends_no_started(case: AgentCase) -> None:
    case.desk.send_trigger(1)
    case.desk.expect(1, Finished)

    case.skip_seconds(1)
    case.settle()

    assert case.desk.reports_on(1, Started) == []


def test_run_at_work_for_half_a_second_sends_started_once(case: AgentCase) -> None:
    began = case.clock.monotonic()
    case.desk.send_trigger(1, param="hold")
    eventually(lambda: case.starts_of(1))
    case.settle()
    early = case.desk.reports_on(1, Started)
    assert not early or case.clock.monotonic() - began >= STARTED_SECONDS

    case.skip_seconds(1)
    started = case.desk.expect(1, Started)
    case.slots.finish(1)
    finished = case.desk.expect(1, Finished)

    assert started.started_at_ms == finished.started_at_ms
    assert len(case.desk.reports_on(1, Started)) == 1


def test_unknown_handler_is_a_clear_failure(case: AgentCase) -> None:
    case.desk.send_trigger(1, handler="no.such")

    finished = case.desk.expect(1, Finished)
    assert finished.outcome is Outcome.FAILED
    assert finished.message == "no handler named 'no.such' on exec-1"
    assert finished.started_at_ms == 0


def test_script_needs_no_handler(case: AgentCase) -> None:
    case.desk.send_trigger(1, handler="", script_language="shell", script_source="true")

    assert case.desk.expect(1, Finished).outcome is Outcome.SUCCEEDED


def test_serial_runs_of_a_job_go_one_by_one_by_tick(case: AgentCase) -> None:
    case.desk.send_trigger(1, job_id=7, param="hold")
    eventually(lambda: case.starts_of(1))
    for run_id, tick in [(4, 300), (2, 200), (3, 100)]:
        case.desk.send_trigger(run_id, job_id=7, scheduled_at_ms=tick)
    case.settle()
    assert [trigger.run_id for trigger in case.slots.started] == [1]

    case.slots.finish(1)

    for run_id in (2, 3, 4):
        case.desk.expect(run_id, Finished)
    assert [trigger.run_id for trigger in case.slots.started] == [1, 3, 2, 4]


def test_discard_later_refuses_the_second_run(case: AgentCase) -> None:
    case.desk.send_trigger(1, job_id=7, param="hold", block=Block.DISCARD_LATER)
    case.desk.send_trigger(2, job_id=7, block=Block.DISCARD_LATER)

    refused = case.desk.expect(2, Finished)

    assert refused.outcome is Outcome.REFUSED
    assert case.starts_of(2) == 0


def test_cover_early_kills_what_runs_drops_what_waits_and_then_starts(case: AgentCase) -> None:
    case.desk.send_trigger(1, job_id=7, param="stubborn", block=Block.COVER_EARLY)
    eventually(lambda: case.starts_of(1))
    case.desk.send_trigger(2, job_id=7, block=Block.COVER_EARLY)
    case.settle()
    case.desk.send_trigger(3, job_id=7, block=Block.COVER_EARLY)

    dropped = case.desk.expect(2, Finished)
    assert (dropped.outcome, dropped.message) == (Outcome.KILLED, "replaced by run 3")
    assert case.slots.stopped == [(1, "replaced by run 2")]
    assert case.starts_of(3) == 0
    case.slots.finish(1, Outcome.KILLED, "replaced by run 2")

    assert case.desk.expect(3, Finished).outcome is Outcome.SUCCEEDED
    assert case.desk.expect(1, Finished).outcome is Outcome.KILLED


def test_older_run_does_not_cover_a_newer_one(case: AgentCase) -> None:
    case.desk.send_trigger(2, job_id=7, param="hold", scheduled_at_ms=200, block=Block.COVER_EARLY)
    eventually(lambda: case.starts_of(2))

    case.desk.send_trigger(3, job_id=7, scheduled_at_ms=100, block=Block.COVER_EARLY)

    assert case.desk.expect(3, Finished).outcome is Outcome.REFUSED
    assert case.slots.stopped == []


def test_concurrency_two_lets_two_runs_of_a_job_go(case: AgentCase) -> None:
    for run_id in (1, 2, 3):
        case.desk.send_trigger(run_id, job_id=7, param="hold", concurrency=2)
    case.settle()

    assert [trigger.run_id for trigger in case.slots.started] == [1, 2]


def test_runs_beyond_the_slots_wait_and_none_is_forgotten(case: AgentCase) -> None:
    for run_id in range(1, 31):
        case.desk.send_trigger(run_id, param="hold")
    case.settle()
    assert len(case.slots.running) == 4

    for run_id in range(1, 31):
        eventually(lambda run_id=run_id: run_id in case.slots.running)
        case.slots.finish(run_id)

    eventually(lambda: len({report.run_id for report in case.desk.reports}) >= 31)
    assert len(case.slots.started) == 30


# -- duplicates -------------------------------------------------------------------------------


def test_five_copies_of_a_trigger_start_one_process(case: AgentCase) -> None:
    trigger = case.desk.seal_trigger(1, param="hold")

    case.desk.publish(*[trigger] * 5)
    case.settle()
    assert case.executors[0].counts["duplicate"] == 4
    case.slots.finish(1)

    case.desk.expect(1, Finished)
    assert case.starts_of(1) == 1


def test_copy_of_a_running_run_is_answered_started(case: AgentCase) -> None:
    trigger = case.desk.seal_trigger(1, param="hold")
    case.desk.publish(trigger)
    eventually(lambda: case.starts_of(1))

    case.desk.publish(trigger)

    case.desk.expect(1, Started)
    assert case.starts_of(1) == 1


def test_copy_of_a_finished_run_is_answered_with_its_result(case: AgentCase) -> None:
    trigger = case.desk.seal_trigger(1)
    case.desk.publish(trigger)
    first = case.desk.expect(1, Finished)
    eventually(lambda: any(isinstance(record, Confirmed) for record in case.records()))

    case.desk.publish(trigger)

    eventually(lambda: len(case.desk.reports_on(1, Finished)) == 2)
    assert case.desk.reports_on(1, Finished) == [first, first]
    assert case.starts_of(1) == 1


def test_copy_of_a_waiting_run_changes_nothing(case: AgentCase) -> None:
    case.desk.send_trigger(1, job_id=7, param="hold")
    trigger = case.desk.seal_trigger(2, job_id=7)
    case.desk.publish(trigger, trigger, trigger)
    case.settle()

    case.slots.finish(1)

    case.desk.expect(2, Finished)
    case.settle()
    assert case.starts_of(2) == 1
    assert len(case.desk.reports_on(2, Finished)) == 1


def test_expired_copy_of_a_known_run_is_a_duplicate_not_a_run_that_never_started(
    case: AgentCase,
) -> None:
    case.desk.send_trigger(1, param="hold")
    eventually(lambda: case.starts_of(1))

    case.desk.send_trigger(1, valid_seconds=-1)
    case.settle()

    assert case.desk.reports_on(1, NotStarted) == []


# -- what is not to be started ----------------------------------------------------------------


def test_expired_trigger_never_starts(case: AgentCase) -> None:
    case.desk.send_trigger(1, valid_seconds=-1)

    assert "too late" in case.desk.expect(1, NotStarted).reason
    assert case.starts_of(1) == 0


def test_trigger_of_another_boot_never_starts_and_is_answered_in_that_boots_name(
    case: AgentCase,
) -> None:
    case.desk.send_trigger(1, boot_id="boot-of-old")

    report = case.desk.expect(1, NotStarted)
    assert report.boot_id == "boot-of-old"
    assert case.starts_of(1) == 0


class TestDisplaced:
    """An executor that stood still, or was cut off, finds that another boot has its address."""

    @pytest.fixture
    def case(self, tmp_path: Path) -> Iterator[AgentCase]:
        case = AgentCase(tmp_path)
        case.limits = replace(case.limits, beat_seconds=0.05)
        case.boot()
        yield case
        case.close()

    def beats(self, case: AgentCase, count: int) -> None:
        """Wait until this many more heartbeats have been sent."""
        before = len(case.desk.of(Heartbeat))
        eventually(lambda: len(case.desk.of(Heartbeat)) >= before + count)

    def test_it_leaves_that_ones_runs_in_their_queue(self, case: AgentCase) -> None:
        case.desk.send_trigger(1, boot_id="boot-of-new", routed_at_ms=now_ms() + 10_000)
        case.desk.expect(1, NotStarted)
        case.desk.send_trigger(2, boot_id="boot-of-new", routed_at_ms=now_ms() + 10_000)
        self.beats(case, 10)

        left = case.desk.reports_on(2, NotStarted)

        assert left == []
        case.executors[0].stop(hurry=True)
        assert case.executors[0].join(30)
        assert len(case.desk.drain_run_queue()) == 1

    def test_it_takes_runs_again_once_it_is_welcome(self, case: AgentCase) -> None:
        case.skip_seconds(60)
        boot_id = case.desk.boot_id
        case.desk.command(NotWelcome(boot_id=boot_id, reason="the other one may be back"))
        self.beats(case, 10)
        case.desk.send_trigger(1, boot_id=boot_id)
        self.beats(case, 10)
        before = case.executors[0].counts.get("taken")

        case.desk.ahead_ms = 61_000
        case.desk.forget(boot_id)

        case.desk.expect(1, Finished)
        assert before is None


def test_forged_trigger_is_dead_lettered_and_the_next_good_one_runs(case: AgentCase) -> None:
    good = case.desk.seal_trigger(1)
    forged = replace(good, body=good.body.replace(b"demo.echo", b"demo.evil"))

    case.desk.publish(forged, case.desk.seal_trigger(2))

    case.desk.expect(2, Finished)
    assert case.starts_of(1) == 0
    assert case.desk.count_unsettled(DEAD_QUEUE.name) == 1
    assert case.executors[0].counts["Forged"] == 1


def test_run_that_finds_a_thousand_of_its_job_waiting_is_sent_back(case: AgentCase) -> None:
    case.desk.send_trigger(1, job_id=7, param="hold")
    eventually(lambda: case.starts_of(1))
    waiting = range(2, 2 + case.limits.lane_runs)
    case.desk.publish(*[case.desk.seal_trigger(run_id, job_id=7) for run_id in waiting])

    case.desk.send_trigger(5_000, job_id=7)

    never = case.desk.expect(5_000, NotStarted)
    assert (never.reason, never.is_full) == (
        "too many runs of the job already wait here: 1000",
        True,
    )
    case.desk.send_trigger(5_001, job_id=8)
    assert case.desk.expect(5_001, Finished).outcome is Outcome.SUCCEEDED


def test_run_that_finds_too_many_of_all_jobs_waiting_is_sent_back(unbooted: AgentCase) -> None:
    case = unbooted
    case.limits = replace(case.limits, waiting_runs=3)
    case.boot()
    for run_id in range(1, 5):
        case.desk.send_trigger(run_id, param="hold")
        eventually(lambda run_id=run_id: case.starts_of(run_id))
    for run_id in range(5, 9):
        case.desk.send_trigger(run_id, param="hold")

    never = case.desk.expect(8, NotStarted)

    assert (never.reason, never.is_full) == ("too many runs already wait on this executor: 3", True)
    assert case.desk.reports_on(7, NotStarted) == []


def test_triggers_beyond_the_memory_limit_stay_with_the_broker_and_are_taken_later(
    unbooted: AgentCase,
) -> None:
    case = unbooted
    case.limits = replace(case.limits, waiting_bytes=1_000_000)
    case.boot()
    large = "#" * 200_000
    for run_id in range(1, 601):
        source = large if run_id <= 20 else ""
        case.desk.send_trigger(run_id, param="hold", script_language="shell", script_source=source)
    eventually(lambda: len(case.slots.started) == 4)
    eventually(lambda: case.desk.count_unsettled(case.desk.run_queue))

    for run_id in range(1, 601):
        eventually(lambda run_id=run_id: run_id in case.slots.running)
        case.slots.finish(run_id)

    eventually(
        lambda: (
            {report.run_id for report in case.desk.reports if isinstance(report, Finished)}
            == set(range(1, 601))
        )
    )


# -- slots that fail --------------------------------------------------------------------------


def test_run_whose_start_raises_fails_with_the_reason_and_its_slot_is_free_again(
    case: AgentCase,
) -> None:
    def fail(*_batch: object) -> None:
        raise OSError("no more processes")

    start, case.slots.start = case.slots.start, fail  # type: ignore[method-assign,assignment]
    case.desk.send_trigger(1, job_id=7)
    failed = case.desk.expect(1, Finished)
    case.slots.start = start  # type: ignore[method-assign]
    case.desk.send_trigger(2, job_id=7)

    assert failed.outcome is Outcome.FAILED
    assert "no more processes" in failed.message
    assert case.desk.expect(2, Finished).outcome is Outcome.SUCCEEDED


def test_runs_wait_while_there_is_no_zygote_and_start_when_it_is_back(case: AgentCase) -> None:
    case.slots.count = 0
    case.desk.send_trigger(1)
    case.settle()
    assert case.starts_of(1) == 0

    case.slots.count = 4
    case.slots.loop.call_soon_threadsafe(case.slots.on_ready)

    case.desk.expect(1, Finished)


def test_overlong_message_is_cut(case: AgentCase) -> None:
    case.desk.send_trigger(1, param="hold")
    eventually(lambda: case.starts_of(1))

    case.slots.finish(1, Outcome.FAILED, "x" * 60_000)

    message = case.desk.expect(1, Finished).message
    assert len(message) == 50_000
    assert message.endswith("\n… [cut, 60,000 characters]")


def test_thousand_runs_finish_once_each(case: AgentCase) -> None:
    case.desk.publish(*[case.desk.seal_trigger(run_id) for run_id in range(1, 1_001)])

    eventually(lambda: len(case.desk.reports) >= 1_000)

    assert sorted(report.run_id for report in case.desk.reports) == list(range(1, 1_001))
    assert len(case.slots.started) == 1_000


def test_process_that_reaches_a_run_that_is_not_here_does_no_harm(case: AgentCase) -> None:
    heard = threading.Event()

    def reach() -> None:
        case.slots.on_moved(404, Event.REACHED)
        heard.set()

    case.slots.loop.call_soon_threadsafe(reach)

    assert heard.wait(60)


def test_heartbeat_in_the_middle_of_an_admission_tells_no_impossible_number(
    unbooted: AgentCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = unbooted
    case.limits = replace(case.limits, beat_seconds=0.02)
    case.boot()
    offer = Lanes.offer
    told: list[Heartbeat] = []

    def offer_slowly(lanes: Lanes, trigger: Trigger) -> Decision:
        decision = offer(lanes, trigger)
        before = len(case.desk.of(Heartbeat))
        told.extend(eventually(lambda: case.desk.of(Heartbeat)[before + 1 :]))
        return decision

    monkeypatch.setattr(Lanes, "offer", offer_slowly)
    case.desk.send_trigger(1)

    case.desk.expect(1, Finished)
    assert {(beat.load.running, beat.load.waiting) for beat in told} == {(0, 1)}
