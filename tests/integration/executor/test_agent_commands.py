from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from tests.support.fake_scheduler import NODE, now_ms
from warren.broker.messages import (
    Beat,
    Finished,
    Heartbeat,
    IdleBeat,
    IdleBeatAnswer,
    Kill,
    KnownState,
    NotStarted,
    Outcome,
    ReadLog,
    RunKey,
    RunStateQuery,
    Welcome,
)
from warren.broker.topology import answer_key
from warren.executor.messaging.heartbeat import LoadMeter


@pytest.fixture
def case(tmp_path: Path) -> Iterator[AgentCase]:
    case = AgentCase(tmp_path)
    case.boot()
    yield case
    case.close()


def hold(case: AgentCase, run_id: int, **values: object) -> None:
    """Have a run at work."""
    case.desk.send_trigger(run_id, param="hold", **values)
    eventually(lambda: case.starts_of(run_id))
    case.settle()


# -- kill -------------------------------------------------------------------------------------


def test_kill_ends_a_running_run_with_its_reason(case: AgentCase) -> None:
    hold(case, 1)

    case.desk.command(Kill(run_id=1, reason="killed by ann"))

    finished = case.desk.expect(1, Finished)
    assert (finished.outcome, finished.message) == (Outcome.KILLED, "killed by ann")


def test_kill_of_a_waiting_run_ends_it_without_a_process(case: AgentCase) -> None:
    hold(case, 1, job_id=7)
    case.desk.send_trigger(2, job_id=7)
    case.settle()

    case.desk.command(Kill(run_id=2, reason="killed by ann"))
    finished = case.desk.expect(2, Finished)
    case.slots.finish(1)
    case.desk.expect(1, Finished)

    assert (finished.outcome, finished.started_at_ms) == (Outcome.KILLED, 0)
    assert case.starts_of(2) == 0


def test_kill_that_comes_before_its_run_leaves_a_tombstone(case: AgentCase) -> None:
    case.desk.command(Kill(run_id=1, reason="killed by ann"))
    case.desk.ask(Beat)

    case.desk.send_trigger(1)

    finished = case.desk.expect(1, Finished)
    assert (finished.outcome, finished.message) == (Outcome.KILLED, "killed by ann")
    assert case.starts_of(1) == 0


def test_kill_of_a_finished_run_reports_its_result_again(case: AgentCase) -> None:
    case.desk.send_trigger(1)
    first = case.desk.expect(1, Finished)

    def reported_twice() -> bool:
        case.desk.command(Kill(run_id=1, reason="killed by ann"))
        return len(case.desk.reports_on(1, Finished)) >= 2

    eventually(reported_twice, every=0.05)
    assert set(case.desk.reports_on(1, Finished)) == {first}


def test_second_kill_of_a_run_changes_nothing(case: AgentCase) -> None:
    hold(case, 1)

    case.desk.command(Kill(run_id=1, reason="first"))
    case.desk.command(Kill(run_id=1, reason="second"))
    case.settle()

    assert case.desk.expect(1, Finished).message == "first"


# -- runs of the same id, after the counter of ids went back ------------------------------------


def test_kill_of_another_run_spares_the_one_that_is_here(case: AgentCase) -> None:
    hold(case, 1, job_id=7)
    other = case.desk.trigger(1, job_id=8)

    case.desk.command(Kill(run_id=1, reason="killed by ann", identity=other.identity))
    case.desk.ask(Beat)
    case.slots.finish(1)
    own = case.desk.expect(1, Finished)
    case.settle()
    case.desk.send_trigger(1, job_id=8)

    [killed] = eventually(lambda: case.desk.reports_on(1, Finished)[1:])
    assert own.outcome is Outcome.SUCCEEDED
    assert (killed.outcome, killed.identity) == (Outcome.KILLED, other.identity)


@pytest.mark.parametrize("is_over", [True, False])
def test_heartbeats_tell_that_an_id_came_twice(case: AgentCase, is_over: bool) -> None:
    hold(case, 1, job_id=7)
    if is_over:
        case.slots.finish(1)
        case.desk.expect(1, Finished)
        case.settle()

    case.desk.send_trigger(1, job_id=7)
    case.settle()
    assert {beat.repeated_id for beat in case.desk.of(Heartbeat)} == {0}
    case.desk.send_trigger(1, job_id=8, param="hold")

    assert eventually(lambda: case.desk.of(Heartbeat)[-1].repeated_id == 1)
    case.settle()
    assert [trigger.job_id for trigger in case.slots.started if trigger.run_id == 1] == (
        [7, 8] if is_over else [7]
    )


def test_log_of_another_run_is_not_shown(case: AgentCase) -> None:
    hold(case, 1, job_id=7)
    own, other = case.desk.trigger(1, job_id=7), case.desk.trigger(1, job_id=8)
    path = Path(case.run_logs.path_of(own.scheduled_at_ms, 1))
    path.parent.mkdir(parents=True)
    path.write_text("secrets of job 7\n")

    for find in ("", "secrets"):
        of_own, of_other = (
            read_log(case, 1, path.parent.name, from_line=1, find=find, identity=it.identity)
            for it in (own, other)
        )
        assert of_own.found == (1,) if find else of_own.text == "secrets of job 7"
        assert not of_other.found
        assert not of_other.text


def test_run_that_waits_does_not_show_the_log_of_an_earlier_one(case: AgentCase) -> None:
    hold(case, 1, job_id=7)
    waiting = case.desk.trigger(2, job_id=7)
    path = Path(case.run_logs.path_of(waiting.scheduled_at_ms, 2))
    path.parent.mkdir(parents=True)
    path.write_text("of an earlier run\n")

    case.desk.send_trigger(2, job_id=7)
    case.settle()

    assert not read_log(case, 2, path.parent.name, from_line=1, identity=waiting.identity).text


# -- beat and idle beat -----------------------------------------------------------------------


def test_beat_is_answered_by_the_boot_that_lives(case: AgentCase) -> None:
    answer = case.desk.ask(Beat)

    assert (answer.address, answer.boot_id) == ("exec-1", case.desk.boot_id)


def test_idle_executor_is_busy_with_nothing(
    case: AgentCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoadMeter, "read", lambda _meter: (10.0, 10.0))
    answer: IdleBeatAnswer = case.desk.ask(IdleBeat, job_ids=(1, 2))

    assert answer.busy_jobs == {}
    assert answer.busy_executor == ""
    assert answer.free_slots == 4


def test_job_that_runs_or_waits_is_busy_and_others_are_not(case: AgentCase) -> None:
    hold(case, 1, job_id=7)
    for run_id in range(2, 5):
        hold(case, run_id)
    case.desk.send_trigger(9, job_id=8)
    case.settle()

    answer: IdleBeatAnswer = case.desk.ask(IdleBeat, job_ids=(7, 8, 99))

    assert set(answer.busy_jobs) == {7, 8}
    assert answer.busy_executor == "every slot is taken"
    assert answer.may_start
    assert (answer.free_slots, answer.waiting) == (0, 1)


def test_job_is_busy_while_a_run_of_it_is_on_its_way_and_idle_once_that_is_over(
    case: AgentCase,
) -> None:
    coming: IdleBeatAnswer = case.desk.ask(IdleBeat, job_ids=(7, 8), underway={7: (1,)})
    case.desk.send_trigger(1, job_id=7)
    case.desk.expect(1, Finished)

    over: IdleBeatAnswer = case.desk.ask(IdleBeat, job_ids=(7, 8), underway={7: (1,)})

    assert coming.busy_jobs == {7: "a run of the job is on its way here"}
    assert over.busy_jobs == {}


@pytest.mark.parametrize(
    ("cpu_percent", "memory_percent", "expected"),
    [
        (90.0, 90.0, ""),
        (90.1, 10.0, "CPU at 90 %, limit 90 %"),
        (10.0, 99.0, "memory at 99 %, limit 90 %"),
    ],
)
def test_loaded_host_is_busy(
    case: AgentCase,
    monkeypatch: pytest.MonkeyPatch,
    cpu_percent: float,
    memory_percent: float,
    expected: str,
) -> None:
    monkeypatch.setattr(LoadMeter, "read", lambda _meter: (cpu_percent, memory_percent))

    assert case.desk.ask(IdleBeat, job_ids=()).busy_executor == expected


# -- know -------------------------------------------------------------------------------------


def know(case: AgentCase, *run_ids: int) -> dict[int, KnownState]:
    keys = tuple(RunKey(run_id=run_id, boot_id=case.desk.boot_id) for run_id in run_ids)
    runs: dict[int, KnownState] = case.desk.ask(RunStateQuery, runs=keys).runs
    return runs


def test_what_is_known_of_this_boots_runs(case: AgentCase) -> None:
    hold(case, 1, job_id=7)
    case.desk.send_trigger(2, job_id=7)
    case.desk.send_trigger(3)
    case.desk.expect(3, Finished)

    assert know(case, 1, 2, 3, 4) == {
        1: KnownState.RUNNING,
        2: KnownState.WAITING,
        3: KnownState.FINISHED,
        4: KnownState.UNKNOWN,
    }


def test_result_of_a_finished_run_is_called_back_again(case: AgentCase) -> None:
    case.desk.send_trigger(1)
    first = case.desk.expect(1, Finished)

    def reported_twice() -> bool:
        assert know(case, 1) == {1: KnownState.FINISHED}
        return len(case.desk.reports_on(1, Finished)) >= 2

    eventually(reported_twice)
    assert set(case.desk.reports_on(1, Finished)) == {first}


def test_run_that_was_given_back_counts_as_finished_and_is_given_back_again(
    case: AgentCase,
) -> None:
    case.desk.send_trigger(1, valid_seconds=-1)
    case.desk.expect(1, NotStarted)

    def reported_twice() -> bool:
        assert know(case, 1) == {1: KnownState.FINISHED}
        return len(case.desk.reports_on(1, NotStarted)) >= 2

    eventually(reported_twice)


def test_memory_begins_with_the_first_boot(case: AgentCase) -> None:
    before: int = case.desk.ask(RunStateQuery, runs=()).remembers_since_ms
    case.executors[0].stop(hurry=True)
    assert case.executors[0].join(30)

    case.boot()

    assert case.desk.ask(RunStateQuery, runs=()).remembers_since_ms == before


# -- logs and odd questions -------------------------------------------------------------------


def read_log(case: AgentCase, run_id: int, day: str = "2026-01-02", **values: Any) -> Any:
    return case.desk.ask(ReadLog, run_id=run_id, scheduled_day=day, **values)


def test_log_is_read_by_line(case: AgentCase) -> None:
    day = case.log_folder / "2026-01-02"
    day.mkdir(parents=True)
    (day / "1.log").write_text("one\ntwo\nthree\n")

    chunk = read_log(case, 1, from_line=2, limit=1)

    assert (chunk.text, chunk.from_line, chunk.to_line) == ("two", 2, 2)
    assert not chunk.is_end


def test_missing_log_is_said_to_be_missing(case: AgentCase) -> None:
    assert read_log(case, 1, from_line=1).missing


@pytest.mark.parametrize("day", ["2026-01-02", "2026-01-03"])
def test_log_that_is_still_on_its_way_neither_ends_nor_is_missing(
    case: AgentCase, day: str
) -> None:
    (case.log_folder / "2026-01-02").mkdir(parents=True)
    (case.log_folder / "2026-01-02/1.log").write_text("one\n")
    case.slots.late_logs.add(1)

    early = read_log(case, 1, day=day, from_line=1)
    case.slots.late_logs.clear()
    late = read_log(case, 1, day=day, from_line=1)

    assert (early.is_end, early.missing) == (False, False)
    assert (late.is_end, late.missing) == (True, day == "2026-01-03")
    assert early.text == late.text


@pytest.mark.parametrize("day", ["../..", "2026-01-02/..", "", "x" * 300])
def test_day_that_is_no_day_reads_nothing(case: AgentCase, day: str) -> None:
    chunk = read_log(case, 1, day=day, from_line=1)

    assert chunk.missing
    assert chunk.text == ""


def test_binary_log_is_answered_though_json_would_blow_it_up(case: AgentCase) -> None:
    day = case.log_folder / "2026-01-02"
    day.mkdir(parents=True)
    (day / "1.log").write_bytes((b"\x01" * 9_000 + b"\n") * 40)

    chunk = read_log(case, 1, from_line=1)

    assert chunk.text.startswith("\ufffd")
    assert chunk.to_line > 1


@pytest.mark.parametrize(
    "reply_to", ["callback", "heartbeat", "warren.callback", "answer.", "answer.a b", ""]
)
def test_answers_go_to_queues_of_answers_only(case: AgentCase, reply_to: str) -> None:
    case.desk.command(Beat(question_id="odd", reply_to=reply_to))
    case.desk.ask(Beat)

    assert not [m for m in case.desk.heard if getattr(m, "question_id", "") == "odd"]


def test_question_about_a_broken_state_disturbs_no_other(
    case: AgentCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_meter: LoadMeter) -> None:
        raise OSError("/proc is gone")

    with monkeypatch.context() as patch:
        patch.setattr(LoadMeter, "read", fail)
        case.desk.command(IdleBeat(question_id="broken", reply_to=answer_key(NODE), job_ids=(1,)))
        case.desk.ask(Beat)

    monkeypatch.setattr(LoadMeter, "read", lambda _meter: (10.0, 10.0))
    assert case.desk.ask(IdleBeat, job_ids=()).busy_executor == ""


# -- before and instead of a welcome ----------------------------------------------------------


def test_refused_executor_ends_with_one_line(tmp_path: Path) -> None:
    case = AgentCase(tmp_path)
    case.desk.refuses = True

    executor = case.boot(welcomed=False)

    assert executor.join(30)
    assert executor.failure == "address exec-1 is in use by another running executor"
    assert executor.exit_status == 1
    assert case.slots.started == []
    case.close()


def test_nothing_but_a_welcome_or_a_refusal_is_obeyed_before_the_welcome(tmp_path: Path) -> None:
    case = AgentCase(tmp_path)
    case.desk.welcomes = False
    executor = case.boot(welcomed=False)
    case.desk.boot_id = executor.identity.boot_id
    case.desk.declare_queues_of(executor.identity.boot_id)

    case.desk.command(Beat(question_id="early", reply_to=answer_key(NODE)))
    case.desk.command(Kill(run_id=1, reason="killed by ann"))
    case.desk.welcomes = True
    eventually(lambda: executor.is_taking)
    case.desk.send_trigger(1)

    assert case.desk.expect(1, Finished).outcome is Outcome.SUCCEEDED
    assert not [m for m in case.desk.heard if getattr(m, "question_id", "") == "early"]
    case.close()


def test_welcome_that_comes_again_sets_no_clock(tmp_path: Path) -> None:
    """Its time is that of its first delivery: an outage of the broker may lie between."""
    case = AgentCase(tmp_path)
    case.desk.welcomes = False
    case.desk.boot_id = "c0ffee"
    case.desk.declare_queues_of("c0ffee")
    case.desk.command(Welcome(boot_id="c0ffee", now_ms=now_ms() - 60_000))
    other = case.broker.transport().consumer(
        "a process that dies", [case.desk.command_queue], prefetch=1
    )
    assert eventually(lambda: other.take(1, 0.1))
    other.close()

    with structlog.testing.capture_logs() as logs:
        executor = case.boot(welcomed=False, boot_id="c0ffee")
        eventually(lambda: case.desk.count_unsettled(case.desk.command_queue) == 0)

    assert "executor_welcomed" not in {entry["event"] for entry in logs}
    case.desk.welcomes = True
    eventually(lambda: executor.is_taking)
    case.close()


@pytest.mark.parametrize("ahead_seconds", [-3_600, -70, 70, 3_600])
def test_executor_whose_host_has_another_time_is_welcomed_and_works(
    tmp_path: Path, ahead_seconds: float
) -> None:
    case = AgentCase(tmp_path)
    case.host_ahead_seconds = ahead_seconds

    case.boot()
    case.desk.send_trigger(1, valid_seconds=60)

    assert case.desk.expect(1, Finished).outcome is Outcome.SUCCEEDED
    case.close()


def test_schedulers_whose_time_jumps_are_followed(tmp_path: Path) -> None:
    case = AgentCase(tmp_path)
    case.boot()
    case.desk.ahead_ms = -3_600_000

    case.desk.command(case.desk.welcome_for(case.desk.of(Heartbeat)[-1]))
    eventually(lambda: case.clock.now_ms() < now_ms() - 3_000_000)
    case.desk.send_trigger(1, valid_seconds=60)

    assert case.desk.expect(1, Finished).outcome is Outcome.SUCCEEDED
    case.close()


def test_welcome_that_waited_in_a_frozen_process_sets_no_clock_back(case: AgentCase) -> None:
    beat = case.desk.of(Heartbeat)[-1]

    case.skip_seconds(30)
    case.desk.command(case.desk.welcome_for(beat))
    case.desk.ask(Beat)
    case.desk.send_trigger(1, valid_seconds=20)

    case.desk.expect(1, NotStarted)
    assert case.starts_of(1) == 0


def test_nothing_is_taken_before_the_welcome(tmp_path: Path) -> None:
    case = AgentCase(tmp_path)
    first = case.boot()
    first.stop(hurry=True)
    assert first.join(30)
    case.desk.send_trigger(1)
    case.desk.welcomes = False

    executor = case.boot(welcomed=False)
    eventually(lambda: [m for m in case.desk.heard if m.boot_id == executor.identity.boot_id])
    assert case.desk.count_unsettled(case.desk.run_queue) == 1

    case.desk.welcomes = True
    case.desk.expect(1, NotStarted)
    case.close()
