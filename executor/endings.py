"""Decides how a run ended and says it in words. Pure: no I/O, no clock."""

import signal
from dataclasses import dataclass

from broker.messages import Outcome
from executor.failures import cut
from executor.frames import Result


@dataclass(frozen=True, slots=True)
class Stop:
    """An end that was ordered: KILLED or TIMED_OUT, and its words."""

    outcome: Outcome
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a job process went.

    `code` is negative for a signal; `forced` = we sent SIGKILL; `oom` = the kernel killed somebody
    for lack of memory meanwhile; `survivors` names what could not be killed; `failure` says why
    there never was a process, or what else took it.
    """

    code: int = 0
    forced: bool = False
    oom: bool = False
    survivors: str = ""
    failure: str = ""


def conclude(
    *,
    stop: Stop | None,
    result: Result | None,
    exit_: Exit | None,
    grace_seconds: float,
    is_script: bool = False,
) -> tuple[Outcome, str]:
    """Return a run's outcome and message.

    `exit_` is None for a process that lives on, having given a `result`. A script gives none: its
    exit code is the result.
    """
    if stop is not None:
        outcome, message = stop.outcome, _stopped(stop, result, exit_, grace_seconds)
    elif result is not None:
        outcome, message = result.outcome, _with_notes(result.message, _exit_notes(exit_))
    elif is_script and exit_ is not None and exit_.code >= 0 and not exit_.failure:
        outcome, message = _exited(exit_.code)
    else:
        outcome, message = Outcome.FAILED, _unanswered(exit_ or Exit())
    notes = [result.log_error] if result is not None and result.log_error else []
    if exit_ is not None and exit_.survivors:
        notes.append(f"could not be killed: {exit_.survivors}")
    return outcome, cut(_with_notes(message, notes))


def words_of_signal(number: int) -> str:
    """Return for example `SIGSEGV (signal 11)`."""
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"


def timed_out(timeout_seconds: float) -> Stop:
    """Return the end of a run that took too long."""
    return Stop(Outcome.TIMED_OUT, f"timed out after {timeout_seconds:g} s")


def killed(reason: str) -> Stop:
    """Return the end of a run that somebody ordered."""
    return Stop(Outcome.KILLED, reason or "killed")


def _stopped(stop: Stop, result: Result | None, exit_: Exit | None, grace_seconds: float) -> str:
    if exit_ is None or not exit_.forced:
        return stop.words
    if result is not None:
        return f"{stop.words}; its handler had returned, its process hung at exit and was killed"
    return f"{stop.words}; did not end on SIGTERM within {grace_seconds:g} s, killed with SIGKILL"


def _exit_notes(exit_: Exit | None) -> list[str]:
    if exit_ is None:
        return []
    if exit_.forced:
        return ["hung at exit, killed"]
    if exit_.failure:
        return [exit_.failure]
    if exit_.code == 0:
        return []
    how = words_of_signal(-exit_.code) if exit_.code < 0 else f"exit code {exit_.code}"
    return [f"{how} at its exit"]


def _exited(code: int) -> tuple[Outcome, str]:
    return (Outcome.FAILED, f"exit code {code}") if code else (Outcome.SUCCEEDED, "")


def _unanswered(exit_: Exit) -> str:
    if exit_.failure:
        return exit_.failure
    if exit_.code >= 0:
        return f"ended with exit code {exit_.code} without a result"
    words = words_of_signal(-exit_.code)
    if -exit_.code == signal.SIGKILL and exit_.oom:
        return f"{words}, most likely by the kernel for lack of memory"
    return words


def _with_notes(message: str, notes: list[str]) -> str:
    if not notes:
        return message
    words = f"({'; '.join(notes)})"
    return f"{message} {words}" if message else words
