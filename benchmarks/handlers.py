"""The measured handlers. Each start writes its run's id to a file, which reveals double starts."""

import os
import time
from dataclasses import dataclass
from datetime import date

from warren import JobContext, job

STARTS = os.open(os.environ["BENCH_STARTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@job("noop")
def noop(context: JobContext) -> str:
    """Do nothing."""
    os.write(STARTS, b"%d\n" % context.run_id)
    return "done"


@dataclass
class Params:
    """The params of a typed handler."""

    day: date
    parts: int = 1


@job("typed")
def typed(context: JobContext, params: Params) -> int:
    """Do nothing with params."""
    os.write(STARTS, b"%d\n" % context.run_id)
    return params.parts


@job("lateness")
def lateness(context: JobContext) -> str:
    """Return how many milliseconds after its tick this run's first line was reached."""
    now = time.time()
    os.write(STARTS, b"%d\n" % context.run_id)
    return f"{(now - context.scheduled_at.timestamp()) * 1000:.1f}"


@job("talkative")
def talkative(context: JobContext) -> str:
    """Write the run's param into its log."""
    os.write(STARTS, b"%d\n" % context.run_id)
    print(context.param)
    return "done"


@job("says")
def says(context: JobContext) -> str:
    """Print a line."""
    os.write(STARTS, b"%d\n" % context.run_id)
    print("hello from run", context.run_id)
    return "said"
