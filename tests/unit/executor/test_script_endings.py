import pytest

from warren.broker.messages import Outcome
from warren.broker.reasons import Why
from warren.executor.run_life import Exit, conclude, killed


def end_of(exit_: Exit) -> tuple[Outcome, str]:
    outcome, words = conclude(stop=None, result=None, exit_=exit_, grace_seconds=5, is_script=True)
    return outcome, str(words)


@pytest.mark.parametrize(
    ("exit_", "outcome", "message"),
    [
        (Exit(code=0), Outcome.SUCCEEDED, ""),
        (Exit(code=1), Outcome.FAILED, "exit code 1"),
        (Exit(code=255), Outcome.FAILED, "exit code 255"),
        (Exit(code=-11), Outcome.FAILED, "SIGSEGV (signal 11)"),
        (
            Exit(code=-9, oom=True),
            Outcome.FAILED,
            "SIGKILL (signal 9), most likely from the kernel's out-of-memory killer",
        ),
        (
            Exit(code=0, failure=Why.ZYGOTE_DIED()),
            Outcome.FAILED,
            "the process that starts jobs on its executor died",
        ),
        (
            Exit(code=0, survivors="x (pid 9)"),
            Outcome.SUCCEEDED,
            "(could not be killed: x (pid 9))",
        ),
    ],
)
def test_exit_of_a_script_is_its_result(exit_: Exit, outcome: Outcome, message: str) -> None:
    assert end_of(exit_) == (outcome, message)


def test_stopped_script_is_killed_whatever_its_exit_code() -> None:
    ended = conclude(
        stop=killed("killed by ops"),
        result=None,
        exit_=Exit(code=0),
        grace_seconds=5,
        is_script=True,
    )

    assert ended == (Outcome.KILLED, "killed by ops")
