"""The handlers of a soak: each first appends its start to the book beside this file."""

import time
from pathlib import Path

from benchmarks.soak import book
from warren import JobContext, job

BOOK = Path(__file__).with_name("book")


def note(context: JobContext) -> None:
    """Append this start."""
    tick = int(context.scheduled_at.timestamp() * 1_000)
    facts = (context.run_id, context.job_id, tick, context.shard_index, context.attempt)
    book.write(BOOK, book.Start(*facts, book.now_ms()))


@job("soak.sleep")
def sleep(context: JobContext) -> str:
    """Take as many seconds as the param says."""
    note(context)
    time.sleep(float(context.param or 0))
    return "slept"


@job("soak.flaky")
def flaky(context: JobContext) -> str:
    """Fail at first, as often as the param says."""
    note(context)
    if context.attempt < int(context.param):
        raise RuntimeError("no luck")
    return "at last"


@job("soak.fail")
def fail(context: JobContext) -> None:
    """Fail always."""
    note(context)
    raise RuntimeError("no luck")
