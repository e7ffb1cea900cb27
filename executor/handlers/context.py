"""The context that handlers get, and what they may raise.

Imports little besides the standard library.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NoReturn, TypeAlias

from warren.executor.handlers.declarations import wait_seconds


class JobStopped(BaseException):
    """The run was killed or timed out: clean up and return within the grace time.

    SIGTERM raises it in the main thread of a job process, once per run. An `async def` handler gets
    `asyncio.CancelledError` instead, because its task is cancelled. Like KeyboardInterrupt,
    `except Exception` does not catch it.
    """


class JobFailed(Exception):
    """The handler reports that its run failed; the text becomes the run's message unchanged."""

    def __init__(self, message: str, *, retry: bool = True) -> None:
        super().__init__(message)
        self.retry = retry


class JobSkipped(Exception):
    """The handler reports that there is nothing to do; the text becomes the run's message."""


class RetryLater(Exception):
    """The run fails and is tried again after this wait, if its job has retries left.

    Args:
        delay: seconds, or a duration such as "90s", "5m", "2h" or "1d".
        message: the run's message.

    Raises:
        ValueError: the delay is not a valid duration.

    """

    def __init__(self, delay: float | str, message: str = "") -> None:
        self.seconds = wait_seconds(delay, "delay")
        super().__init__(message or f"asked to be tried again in {self.seconds:g} s")


def _ignore(_done: float, _total: float | None, _text: str) -> None:
    pass


class CallFailed(Exception):
    """The run that was called did not succeed; `status` is how it ended, REFUSED = nothing ran.

    `run_id` is the attempt that decided, 0 = none.
    """

    def __init__(self, message: str, *, status: str, run_id: int) -> None:
        super().__init__(message)
        self.status = status
        self.run_id = run_id


#: Waits for a called run up to this many seconds, None = forever, and returns its result.
Wait: TypeAlias = Callable[[float | None], Any]
#: Stores a call: the job's name, its params, and its param as a text instead.
OnCall: TypeAlias = Callable[[str, object, str | None], Wait]


@dataclass(frozen=True, slots=True)
class CalledRun:
    """A run that a handler has called; `job` is its job's name."""

    job: str
    _wait: Wait = field(repr=False, compare=False)

    def result(self, timeout: float | None = None) -> Any:
        """Wait until the run is over, with its retries and shards, and return its result.

        The caller holds no slot meanwhile. Without a `timeout` in seconds it waits as long as its
        own job's timeout allows. After a retry of the caller, this is the result of the same run.

        Raises:
            CallFailed: it did not succeed, or the call was refused.
            TimeoutError: it is not over after `timeout` seconds; it continues.

        """
        return self._wait(timeout)


def _refuse_call(_job: str, _params: object, _param: str | None) -> NoReturn:
    raise RuntimeError("expected a run of an executor, which keeps what it calls, got: none")


Verdict: TypeAlias = JobFailed | JobSkipped


class ParamMisfit(JobFailed):
    """A run's param is not JSON, or does not fit the type of its handler's params."""


class NotATypeOfParams(Exception):
    """Handlers cannot have params of this type; the text says why."""


@dataclass(frozen=True, slots=True)
class Params:
    """The params of a typed handler: the name of their type, and its JSON Schema as JSON.

    `decode` returns the params in a run's param, or raises ParamMisfit.
    """

    name: str
    schema: str
    decode: Callable[[str], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """One run, as its handler sees it.

    `attempt` counts from 0; `kind` is CRON, MISFIRE, MANUAL, API, RETRY, PARENT, RERUN, NODE or
    BACKFILL; `shard_index` is less than `shard_total`; `scheduled_at` is the run's due time in UTC,
    and `run_date` the date that the run is about: by default, the day of `scheduled_at`.
    `traceparent` is the trace that the run belongs to, in the format of W3C's Trace Context, "" =
    none.
    """

    job_id: int
    run_id: int
    attempt: int
    kind: str
    param: str
    shard_index: int
    shard_total: int
    scheduled_at: datetime
    traceparent: str = ""
    run_date: date = None  # type: ignore[assignment] # always set, by __post_init__
    #: The function that `progress` calls.
    on_progress: Callable[[float, float | None, str], None] = field(
        default=_ignore, repr=False, compare=False
    )
    #: The function that `call` calls.
    on_call: OnCall = field(default=_refuse_call, repr=False, compare=False)
    #: What `fail` and `skip` have raised, even if the handler caught it; the last one counts.
    verdicts: list[Verdict] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.run_date is None:
            object.__setattr__(self, "run_date", self.scheduled_at.date())

    def log(self, text: str, *args: object) -> None:
        """Write a line with the local time to the run's log.

        With `args` it writes `text % args`, and `text % dict` for a single dict, as `logging` does;
        if they do not match, it writes both unformatted.
        """
        if args:
            values = args[0] if len(args) == 1 and isinstance(args[0], dict) else args
            try:
                text = str(text) % values
            except (TypeError, ValueError, KeyError):
                text = f"{text} {args!r}"
        sys.stdout.write(log_line(time.time(), "INFO", text))

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Report how far the run is: once a second at most, calls in between are left out.

        Raises:
            ValueError: `done` is below 0, or `total` is not above 0.

        """
        if not 0 <= done < math.inf or not (total is None or 0 < total < math.inf):
            raise ValueError(
                f"expected progress from 0, of a total above 0, got: {done!r} of {total!r}"
            )
        self.on_progress(float(done), None if total is None else float(total), str(text))

    def call(self, job: str, params: object = None, *, param: str | None = None) -> CalledRun:
        """Ask for a run of another job of the same app; return once the request cannot get lost.

        It does not wait for that run; `result` of what it returns does. A retry of this run repeats
        no call: the n-th call of a due time and shard is planned once. If the schedulers refuse a
        call, for example because the job is stopped, this run's page and an alarm say so.

        Args:
            job: its name.
            params: its handler's params: a value of their type, or its equivalent in JSON.
            param: the run's param as a text, instead of `params`; without both, the job's own.

        Raises:
            ValueError: a text is too long, both forms are given, or there were too many calls.
            TypeError: `job` or `param` is not a text, or JSON cannot hold `params`.
            RuntimeError: it is called in a process that the handler has forked.

        """
        return CalledRun(job, self.on_call(job, params, param))

    def fail(self, message: str, *, retry: bool = True) -> NoReturn:
        """End the run as FAILED with exactly this message, whatever the handler does afterwards.

        With `retry=False` it is not retried, however many retries its job has left.

        Raises:
            JobFailed: always. A surrounding `except Exception` catches it, but the run has failed.

        """
        self.verdicts.append(JobFailed(message, retry=retry))
        raise self.verdicts[-1]

    def skip(self, message: str) -> NoReturn:
        """End the run as SKIPPED with exactly this message, whatever the handler does afterwards.

        That is neither a success nor a failure: no alarm, no retry, no child.

        Raises:
            JobSkipped: always. A surrounding `except Exception` catches it, but the run is skipped.

        """
        self.verdicts.append(JobSkipped(message))
        raise self.verdicts[-1]


def log_line(at: float, level: str, text: object) -> str:
    """Format a line of a run log: `2026-11-20 10:00:00.123+01:00 INFO text`.

    `at` is in epoch seconds; the time is the executor's, with its distance from UTC, by which the
    console shows it in the reader's zone.
    """
    local = time.localtime(at)
    stamp, zone = time.strftime("%Y-%m-%d %H:%M:%S", local), time.strftime("%z", local)
    return f"{stamp}.{int(at % 1 * 1000):03d}{zone[:3]}:{zone[3:]} {level} {text}\n"
