"""The handlers of a soak: each first appends its start to the book beside this file."""

import time
from pathlib import Path

from benchmarks.soak import book, shares
from benchmarks.soak.flows import fate_of
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


@job("soak.share")
def share(context: JobContext) -> None:
    """Hold as much of what is shared as the param says, for some seconds."""
    note(context)
    name, size, weight, seconds = context.param.split()
    with shares.held(BOOK.parent, name, int(size), int(weight), context.run_id):
        time.sleep(float(seconds))


@job("soak.node")
def node(context: JobContext) -> object:
    """End as the run's id says."""
    note(context)
    time.sleep(0.1)
    fate = fate_of(context.run_id)
    if fate.status == "FAILED":
        raise RuntimeError("no luck")
    if fate.status == "SKIPPED":
        context.skip("nothing to do")
    return fate.result


@job("soak.fail")
def fail(context: JobContext) -> None:
    """Fail always."""
    note(context)
    raise RuntimeError("no luck")
