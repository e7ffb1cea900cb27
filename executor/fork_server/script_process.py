"""A job process that execs the interpreter of a script, whose exit code is the result.

It remains a job process: a session leader and a subreaper that dies with the zygote, with its
output in the run's log. The zygote reports its exit like any other.
"""

import os
import signal
from datetime import UTC, datetime

from warren.broker.messages import Outcome, Trigger
from warren.broker.reasons import Reason, Why, to_json
from warren.executor.fork_server import frames
from warren.executor.fork_server.output import Output
from warren.executor.fork_server.process_state import RUN_MARK, TRACEPARENT

_READ_BYTES = 16_384
#: Signals that the zygote or Python ignores, and that other programs expect to have their effect.
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
_NO_LOCALES = ("C", "POSIX")


def run_script(channel: int, output: Output) -> None:
    """Take a run and exec its script's interpreter; return only if that is not possible."""
    _restore_signals()
    order = _take_order(channel)
    if not isinstance(order, frames.Run):
        return
    output.begin(order.log_path)
    program, path, *arguments = order.command
    # Arguments are UTF-8 whatever the locale is.
    argv = [os.fsencode(program), os.fsencode(path), *(each.encode() for each in arguments)]
    environment = script_environment(order.trigger, os.environ.copy())
    try:
        os.execvpe(program, argv, environment)  # noqa: S606 - no shell is what it is for
    except OSError as error:
        _send(channel, output, order.trigger, _explain(program, error))


def script_environment(trigger: Trigger, inherited: dict[str, str]) -> dict[str, str]:
    """Return the environment of a script: the inherited one, UTF-8, and facts about the run."""
    scheduled_at = datetime.fromtimestamp(trigger.scheduled_at_ms / 1000, UTC)
    return (
        # With buffered output a Python script's lines would be out of order in the log.
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
            "WARREN_RUN_DATE": trigger.run_date or scheduled_at.date().isoformat(),
        }
        | ({TRACEPARENT: trigger.traceparent} if trigger.traceparent else {})
    )


def _with_utf8(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment with a UTF-8 locale if it names none."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if locale := environment.get(name):
            chosen = "C.UTF-8" if locale in _NO_LOCALES else locale
            return environment | {name: chosen}
    return environment | {"LANG": "C.UTF-8"}


def _restore_signals() -> None:
    for number in _DEFAULT_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    # Signals that arrived while they were blocked now take effect.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _take_order(channel: int) -> frames.ToJobProcess | None:
    data = b""
    while not data.endswith(b"\n"):
        piece = os.read(channel, _READ_BYTES)
        if not piece:
            return None
        data += piece
    order: frames.ToJobProcess = frames.decode_to_job_process(data)
    return order


def _explain(program: str, error: OSError) -> Reason:
    if isinstance(error, FileNotFoundError):
        return Why.NO_INTERPRETER(program=program)
    return Why.INTERPRETER_FAILED(program=program, fault=str(error.strerror))


def _send(channel: int, output: Output, trigger: Trigger, error: Reason) -> None:
    written = output.end()
    output.remove_if_empty()
    result = frames.Result(
        run_id=trigger.run_id,
        outcome=Outcome.FAILED,
        message=str(error),
        why=to_json(error),
        will_end=True,
        log_bytes=written.size,
        log_tail=written.tail,
        log_error=frames.note_of(written.error),
        log_why=to_json(written.error),
    )
    frames.write_answer(channel, result)
