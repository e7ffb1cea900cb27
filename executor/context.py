"""What a handler is given and what it may raise. Imports the standard library only."""

import sys
import time
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn


class JobStopped(BaseException):
    """The run is killed or timed out: clean up and return within the grace time.

    Raised in the main thread of a job process by SIGTERM, once per run. In an `async def` handler
    the task is cancelled instead, so it sees `asyncio.CancelledError`. Like KeyboardInterrupt it
    passes `except Exception`.
    """


class JobFailed(Exception):
    """The handler says that its run failed; the text is the run's message, word for word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """One run, as its handler sees it.

    `attempt` counts from 0; `kind` is CRON, MISFIRE, MANUAL, API, RETRY or PARENT; `shard_index`
    is below `shard_total`; `scheduled_at` is the due time that this run stands for, in UTC.
    """

    job_id: int
    run_id: int
    attempt: int
    kind: str
    param: str
    shard_index: int
    shard_total: int
    scheduled_at: datetime

    def log(self, text: str, *args: object) -> None:
        """Write a line with the local time into the run's log.

        With `args`, `text % args` is written, for a single dict `text % dict` as `logging` does;
        where that does not fit, both as they are.
        """
        if args:
            values = args[0] if len(args) == 1 and isinstance(args[0], dict) else args
            try:
                text = str(text) % values
            except (TypeError, ValueError, KeyError):
                text = f"{text} {args!r}"
        sys.stdout.write(log_line(time.time(), "INFO", text))

    def fail(self, message: str) -> NoReturn:
        """End the run as FAILED with exactly this message.

        Raises:
            JobFailed: always; an Exception, so that `except Exception` around it sees it.

        """
        raise JobFailed(message)


def log_line(at: float, level: str, text: object) -> str:
    """Return a line of a run log, as in `2026-11-20 10:00:00.123 INFO text`; `at` is epoch s."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    return f"{stamp}.{int(at % 1 * 1000):03d} {level} {text}\n"
