"""The words and the outcome of a run, for every way in which it can end."""

import pytest

from broker.messages import MESSAGE_LIMIT, Outcome
from executor.endings import Exit, Stop, conclude, killed, timed_out, words_of_signal
from executor.frames import Result

DONE = Outcome.SUCCEEDED
TIMEOUT = timed_out(5)


def result(
    message: str = "done", outcome: Outcome = Outcome.SUCCEEDED, log_error: str = ""
) -> Result:
    return Result(
        run_id=1,
        outcome=outcome,
        message=message,
        will_end=False,
        log_bytes=0,
        log_tail="",
        log_error=log_error,
    )


@pytest.mark.parametrize(
    ("stop", "given", "exit_", "outcome", "message"),
    [
        # the process lives on
        (None, result(), None, DONE, "done"),
        (None, result("no", Outcome.FAILED), None, Outcome.FAILED, "no"),
        (
            None,
            result(log_error="its log is missing: x"),
            None,
            DONE,
            "done (its log is missing: x)",
        ),
        # it ended with a result
        (None, result(), Exit(), DONE, "done"),
        (None, result(), Exit(forced=True, code=-9), DONE, "done (hung at exit, killed)"),
        (None, result(""), Exit(forced=True, code=-9), DONE, "(hung at exit, killed)"),
        (None, result(), Exit(code=-11), DONE, "done (SIGSEGV (signal 11) at its exit)"),
        (None, result(), Exit(code=4), DONE, "done (exit code 4 at its exit)"),
        (None, result(), Exit(failure="the zygote died"), DONE, "done (the zygote died)"),
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
            "SIGKILL (signal 9), most likely by the kernel for lack of memory",
        ),
        (
            None,
            None,
            Exit(failure="no handler named 'x' here"),
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
            "timed out after 5 s; did not end on SIGTERM within 2.5 s, killed with SIGKILL",
        ),
        (
            TIMEOUT,
            result(),
            Exit(code=-9, forced=True),
            Outcome.TIMED_OUT,
            f"{TIMEOUT.words}; its handler had returned, its process hung at exit and was killed",
        ),
        (killed("killed by ann"), None, Exit(code=-15), Outcome.KILLED, "killed by ann"),
        (killed(""), None, Exit(), Outcome.KILLED, "killed"),
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
    assert conclude(stop=stop, result=given, exit_=exit_, grace_seconds=2.5) == (outcome, message)


@pytest.mark.parametrize(
    ("number", "words"),
    [(9, "SIGKILL (signal 9)"), (34, "SIGRTMIN (signal 34)"), (40, "signal 40")],
)
def test_signals_have_their_names(number: int, words: str) -> None:
    assert words_of_signal(number) == words


@pytest.mark.parametrize(("seconds", "shown"), [(5.0, "5"), (0.25, "0.25"), (3600.0, "3600")])
def test_timeout_is_told_as_it_was_set(seconds: float, shown: str) -> None:
    assert timed_out(seconds).words == f"timed out after {shown} s"


def test_message_stays_within_its_limit_with_all_notes() -> None:
    full = result("x" * MESSAGE_LIMIT, log_error="its log is missing: x")

    _, message = conclude(stop=None, result=full, exit_=Exit(code=-9, forced=True), grace_seconds=1)

    assert len(message) == MESSAGE_LIMIT
