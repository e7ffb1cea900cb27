from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from warren.broker.messages import MESSAGE_LIMIT, Outcome
from warren.broker.reasons import Why, Words
from warren.broker.stored_reasons import to_json
from warren.executor.fork_server.frames import Result
from warren.executor.handlers.outcomes import cut
from warren.executor.lanes.active_runs import ActiveRuns
from warren.executor.processes.slots import Slots
from warren.executor.run_life import (
    Event,
    Exit,
    Phase,
    SlotEvent,
    SlotPhase,
    Stop,
    conclude,
    cut_off,
    describe_signal,
    killed,
    timed_out,
)

LIFE, SLOT_LIFE = ActiveRuns.LIFE, Slots.LIFE
Table = Mapping[Any, Mapping[Any, tuple[Any, Sequence[Any]]]]

TABLES = pytest.mark.parametrize(
    ("table", "phases", "firsts", "events"),
    [
        (LIFE, Phase, {Phase.WAITING}, Event),
        # A run is assigned early when another is given to a process.
        (SLOT_LIFE, SlotPhase, {SlotPhase.QUEUED}, SlotEvent),
    ],
    ids=["executor", "slot"],
)


def rows(table: Table) -> Iterator[tuple[Any, Any, Any, Sequence[Any]]]:
    for phase, events in table.items():
        for event, (after, effects) in events.items():
            yield phase, event, after, effects


@TABLES
def test_table_leads_every_run_from_its_beginning_to_its_end(
    table: Table, phases: Any, firsts: set[Any], events: Any
) -> None:
    reached, ends = set(firsts), {phases.GONE}
    for _ in phases:
        reached |= {after for phase, _, after, _ in rows(table) if phase in reached}
        ends |= {phase for phase, _, after, _ in rows(table) if after in ends}

    assert reached == ends == set(phases)


@TABLES
def test_every_event_is_in_the_table(
    table: Table, phases: Any, firsts: set[Any], events: Any
) -> None:
    used = [row for row in rows(table) if row[0] is not phases.GONE]

    assert {event for _, event, _, _ in used} == set(events)


def test_a_run_that_is_gone_stays_so_without_any_effect() -> None:
    assert LIFE[Phase.GONE] == {}
    assert set(SLOT_LIFE[SlotPhase.GONE]) == set(SlotEvent)
    assert set(SLOT_LIFE[SlotPhase.GONE].values()) == {(SlotPhase.GONE, ())}


def test_a_run_can_be_stopped_as_long_as_it_is_there() -> None:
    assert {phase for phase, events in LIFE.items() if Event.STOP not in events} == {Phase.GONE}
    # One that was assigned early is taken back first.
    assert {phase for phase, events in SLOT_LIFE.items() if SlotEvent.STOP not in events} == {
        SlotPhase.ASSIGNED_EARLY
    }


def test_a_run_leaves_its_lane_exactly_when_it_is_gone() -> None:
    leave = {ActiveRuns._drop_from_lane, ActiveRuns._leave_lane, ActiveRuns._leave_unstarted}

    assert [
        (phase, event)
        for phase, event, after, effects in rows(LIFE)
        if (after is Phase.GONE) != (len(leave.intersection(effects)) == 1)
    ] == []


def test_a_run_that_leaves_its_slot_has_ended_or_goes_back() -> None:
    leave = {Slots._report_end, Slots._give_back, Slots._forget}

    assert [
        (phase, event)
        for phase, event, after, effects in rows(SLOT_LIFE)
        if phase is not SlotPhase.GONE
        and (after is SlotPhase.GONE) != (len(leave.intersection(effects)) == 1)
    ] == []


def test_whatever_a_process_does_not_begin_any_more_is_no_end() -> None:
    assert [
        phase
        for phase, event, _, effects in rows(SLOT_LIFE)
        if event is SlotEvent.NOT_BEGUN and Slots._report_end in effects
    ] == []


DONE = Outcome.SUCCEEDED
TIMEOUT = timed_out(5)
CUT_OFF = cut_off()
NO_LOG = Why.LOG_MISSING(fault="x")


def result(
    message: str = "done",
    outcome: Outcome = Outcome.SUCCEEDED,
    log_error: Words = "",
    *,
    was_interrupted: bool = False,
) -> Result:
    return Result(
        run_id=1,
        outcome=outcome,
        message=message,
        will_end=False,
        log_bytes=0,
        log_tail="",
        log_error=str(log_error),
        log_why=to_json(log_error),
        was_interrupted=was_interrupted,
    )


@pytest.mark.parametrize(
    ("stop", "given", "exit_", "outcome", "message"),
    [
        # the process lives on
        (None, result(), None, DONE, "done"),
        (None, result("no", Outcome.FAILED), None, Outcome.FAILED, "no"),
        (
            None,
            result(log_error=NO_LOG),
            None,
            DONE,
            "done (its log is missing: x)",
        ),
        (
            None,
            result(log_error="words of another version"),
            None,
            DONE,
            "done (words of another version)",
        ),
        # it ended with a result
        (None, result(), Exit(), DONE, "done"),
        (None, result(), Exit(forced=True, code=-9), DONE, "done (hung at exit, killed)"),
        (None, result(""), Exit(forced=True, code=-9), DONE, "(hung at exit, killed)"),
        (None, result(), Exit(code=-11), DONE, "done (SIGSEGV (signal 11) at exit)"),
        (None, result(), Exit(code=4), DONE, "done (exit code 4 at exit)"),
        (
            None,
            result(),
            Exit(failure=Why.ZYGOTE_DIED()),
            DONE,
            "done (the process that starts jobs on its executor died)",
        ),
        # it ended without one
        (None, None, Exit(code=0), Outcome.FAILED, "ended with exit code 0 without a result"),
        (None, None, Exit(code=3), Outcome.FAILED, "ended with exit code 3 without a result"),
        (None, None, Exit(code=-11), Outcome.FAILED, "SIGSEGV (signal 11)"),
        (None, None, Exit(code=-9), Outcome.FAILED, "SIGKILL (signal 9)"),
        (
            None,
            None,
            Exit(code=-9, oom=True),
            Outcome.FAILED,
            "SIGKILL (signal 9), most likely from the kernel's out-of-memory killer",
        ),
        (
            None,
            None,
            Exit(failure=Why.HANDLER_GONE(name="x")),
            Outcome.FAILED,
            "no handler named 'x' here",
        ),
        # it was stopped
        (TIMEOUT, None, Exit(code=-15), Outcome.TIMED_OUT, "timed out after 5 s"),
        (TIMEOUT, result("late"), Exit(), Outcome.TIMED_OUT, "timed out after 5 s"),
        (
            TIMEOUT,
            None,
            Exit(code=-9, forced=True),
            Outcome.TIMED_OUT,
            "timed out after 5 s; still running 2.5 s after SIGTERM, killed with SIGKILL",
        ),
        (
            TIMEOUT,
            result(),
            Exit(code=-9, forced=True),
            Outcome.TIMED_OUT,
            f"{TIMEOUT.words}; its handler returned, but its process hung at exit and was killed",
        ),
        (killed("killed by ann"), None, Exit(code=-15), Outcome.KILLED, "killed by ann"),
        (killed(""), None, Exit(), Outcome.KILLED, "killed"),
        # its executor ended
        (CUT_OFF, None, Exit(code=-15), Outcome.FAILED, "stopped because its executor shut down"),
        (
            CUT_OFF,
            None,
            Exit(code=-9, forced=True),
            Outcome.FAILED,
            f"{CUT_OFF.words}; still running 2.5 s after SIGTERM, killed with SIGKILL",
        ),
        (CUT_OFF, result("half", was_interrupted=True), Exit(), Outcome.FAILED, str(CUT_OFF.words)),
        (CUT_OFF, result("no", Outcome.FAILED), Exit(), Outcome.FAILED, str(CUT_OFF.words)),
        (CUT_OFF, result(), Exit(), DONE, "done"),
        (CUT_OFF, result(), Exit(forced=True, code=-9), DONE, "done (hung at exit, killed)"),
        # something is left
        (
            None,
            result(),
            Exit(survivors="sudo (pid 7)"),
            DONE,
            "done (could not be killed: sudo (pid 7))",
        ),
        (
            TIMEOUT,
            None,
            Exit(survivors="sudo (pid 7)"),
            Outcome.TIMED_OUT,
            "timed out after 5 s (could not be killed: sudo (pid 7))",
        ),
    ],
)
def test_each_way_to_end_has_its_outcome_and_words(
    stop: Stop | None, given: Result | None, exit_: Exit | None, outcome: Outcome, message: str
) -> None:
    ended, words = conclude(stop=stop, result=given, exit_=exit_, grace_seconds=2.5)

    assert (ended, str(words)) == (outcome, message)


@pytest.mark.parametrize(
    ("number", "words"),
    [(9, "SIGKILL (signal 9)"), (34, "SIGRTMIN (signal 34)"), (40, "signal 40")],
)
def test_signals_have_their_names(number: int, words: str) -> None:
    assert str(describe_signal(number)) == words


@pytest.mark.parametrize(("seconds", "shown"), [(5.0, "5"), (0.25, "0.25"), (3600.0, "3600")])
def test_timeout_is_told_as_it_was_set(seconds: float, shown: str) -> None:
    assert str(timed_out(seconds).words) == f"timed out after {shown} s"


def test_message_stays_within_its_limit_with_all_notes() -> None:
    full = result("x" * MESSAGE_LIMIT, log_error=NO_LOG)

    _, words = conclude(stop=None, result=full, exit_=Exit(code=-9, forced=True), grace_seconds=1)

    assert len(cut(str(words))) == MESSAGE_LIMIT
    assert not to_json(words)


def test_what_a_process_says_of_its_end_keeps_its_reason() -> None:
    said = Why.NO_INTERPRETER(program="node")
    told = msgspec.structs.replace(result(str(said), Outcome.FAILED), why=to_json(said))

    ended = conclude(stop=None, result=told, exit_=Exit(), grace_seconds=1)

    assert ended == (Outcome.FAILED, said)


@pytest.mark.parametrize(
    "failure", [Why.NO_PROCESS(why=Why.TOO_MANY_FILES()), "of another version"]
)
def test_script_that_never_ran_has_not_succeeded(failure: Words) -> None:
    ended = conclude(
        stop=None, result=None, exit_=Exit(failure=failure), grace_seconds=1, is_script=True
    )

    assert ended == (Outcome.FAILED, failure)
