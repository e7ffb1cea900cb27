"""A job process that becomes the interpreter of a script, by exec: its exit code is the result.

It stays what a job process is: a session of its own, a subreaper that dies with the zygote, its
output in the run's log. The zygote tells of its exit as of any other.
"""

import os
import signal
import socket
from datetime import UTC, datetime

from broker.messages import Outcome, Trigger
from executor import frames
from executor.output import Output
from executor.surroundings import RUN_MARK

_READ_BYTES = 16_384
#: What the zygote ignores, or Python does, and a program expects to act.
_ACTING = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
_NO_LOCALES = ("C", "POSIX")


def run_script(channel: socket.socket, output: Output) -> None:
    """Take a run and become its script's interpreter; return only where there is none to become."""
    _let_signals_act()
    order = _take_order(channel)
    if not isinstance(order, frames.Run):
        return
    output.begin(order.log_path)
    program, path, *arguments = order.command
    # In UTF-8 whatever the locale is.
    argv = [os.fsencode(program), os.fsencode(path), *(each.encode() for each in arguments)]
    environment = surroundings_of(order.trigger, os.environ.copy())
    try:
        os.execvpe(program, argv, environment)  # noqa: S606 - no shell is what it is for
    except OSError as error:
        _tell(channel, output, order.trigger, _words(program, error))


def surroundings_of(trigger: Trigger, inherited: dict[str, str]) -> dict[str, str]:
    """Return the environment of a script: the inherited one, UTF-8, and what run it is."""
    scheduled_at = datetime.fromtimestamp(trigger.scheduled_at_ms / 1000, UTC)
    return (
        # A Python whose output waits in a buffer would mix up the lines of the log.
        {"PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}
        | _with_utf8(inherited)
        | {
            RUN_MARK: str(trigger.run_id),
            "WARREN_JOB_ID": str(trigger.job_id),
            "WARREN_KIND": trigger.kind,
            "WARREN_ATTEMPT": str(trigger.attempt),
            "WARREN_SHARD_INDEX": str(trigger.shard_index),
            "WARREN_SHARD_TOTAL": str(trigger.shard_total),
            "WARREN_SCHEDULED_AT": scheduled_at.isoformat(timespec="milliseconds"),
        }
    )


def _with_utf8(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment whose locale, where it names none, is UTF-8's."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if locale := environment.get(name):
            chosen = "C.UTF-8" if locale in _NO_LOCALES else locale
            return environment | {name: chosen}
    return environment | {"LANG": "C.UTF-8"}


def _let_signals_act() -> None:
    for number in _ACTING:
        signal.signal(number, signal.SIG_DFL)
    # What came while they were blocked acts now.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _take_order(channel: socket.socket) -> frames.ToProcess | None:
    data = b""
    while not data.endswith(b"\n"):
        piece = channel.recv(_READ_BYTES)
        if not piece:
            return None
        data += piece
    order: frames.ToProcess = frames.decode_to_process(data)
    return order


def _words(program: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"no interpreter: there is no {program!r} on the PATH of this executor"
    return f"cannot start {program!r}: {error.strerror}"


def _tell(channel: socket.socket, output: Output, trigger: Trigger, words: str) -> None:
    written = output.end()
    output.drop_if_silent()
    result = frames.Result(
        run_id=trigger.run_id,
        outcome=Outcome.FAILED,
        message=words,
        will_end=True,
        log_bytes=written.size,
        log_tail=written.tail,
        log_error=written.error,
    )
    channel.sendall(frames.encode_line(result))
