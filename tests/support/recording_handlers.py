"""Handlers for executors under test: each first records its start.

The file is copied into a folder; the records are lines of `starts.jsonl` beside the copy.
"""

import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warren import JobContext, job

STARTS = Path(__file__).with_name("starts.jsonl")
# Ignores SIGTERM, in its own session, and starts another process that does the same.
_DAEMON = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
if os.fork() == 0:
    os.setsid()
time.sleep(600)
"""


def note(context: JobContext) -> None:
    """Append a line about this start, in a single write."""
    line = {
        "run": context.run_id,
        "attempt": context.attempt,
        "pid": os.getpid(),
        "job": context.job_id,
        "tick": int(context.scheduled_at.timestamp() * 1000),
        "at": time.time_ns() // 1_000_000,
    }
    out = os.open(STARTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(out, json.dumps(line).encode() + b"\n")
    os.close(out)


@job("noop")
def noop(context: JobContext) -> str:
    """Do nothing."""
    note(context)
    return "done"


@job("brief")
def brief(context: JobContext) -> str:
    """Take a moment."""
    note(context)
    time.sleep(float(context.param or 0.03))
    return "done"


@job("counts-company")
def counts_company(context: JobContext) -> str:
    """Take a moment, and write how many runs do so at once."""
    note(context)
    with in_company(context):
        time.sleep(float(context.param or 0.1))
    return "done"


@contextmanager
def in_company(context: JobContext) -> Iterator[None]:
    """Write how many runs are in here, this one included, to a file beside this one.

    Each holds a lock on a file of its own, which the kernel takes away when its process dies.
    """
    folder = STARTS.with_name("company")
    folder.mkdir(exist_ok=True)
    with (
        (folder / "counts").open("a") as counts,
        (folder / f"{context.run_id}.run").open("w") as own,
    ):
        fcntl.flock(counts, fcntl.LOCK_EX)
        fcntl.flock(own, fcntl.LOCK_EX)
        others = sum(
            _is_locked(path)
            for path in folder.glob("*.run")
            if path.name != f"{context.run_id}.run"
        )
        counts.write(f"{others + 1}\n")
        counts.flush()
        fcntl.flock(counts, fcntl.LOCK_UN)
        yield


def _is_locked(path: Path) -> bool:
    with path.open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@job("fail")
def fail(context: JobContext) -> None:
    """Fail every time."""
    note(context)
    raise RuntimeError("no luck")


@job("third-time-lucky")
def third_time_lucky(context: JobContext) -> str:
    """Fail twice, then succeed."""
    note(context)
    if context.attempt < 2:
        context.fail(f"no luck in attempt {context.attempt}")
    return "at last"


@job("until-file")
def until_file(context: JobContext) -> str:
    """Run until the file named by the parameter exists."""
    note(context)
    while not Path(context.param).exists():
        time.sleep(0.01)
    return "released"


@job("leaves-a-thread")
def leaves_a_thread(context: JobContext) -> str:
    """Leave a thread that goes on, if the parameter says so."""
    note(context)
    if context.param:
        threading.Thread(target=time.sleep, args=[600], daemon=True).start()
    return "done"


@job("talk")
def talk(context: JobContext) -> None:
    """Print lines until stopped."""
    note(context)
    for number in itertools.count(1):
        context.log(f"line {number}")
        time.sleep(0.05)


@job("tell-time")
def tell_time(context: JobContext) -> None:
    """Print the time in milliseconds ten times a second, until stopped."""
    note(context)
    while True:
        print(f"printed at {time.time_ns() // 1_000_000}")  # noqa: T201 - as users do
        time.sleep(0.1)


@job("stubborn")
def stubborn(context: JobContext) -> None:
    """Ignore SIGTERM, and start daemons in other sessions that do too; print when all are up."""
    note(context)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(2):
        subprocess.Popen([sys.executable, "-I", "-S", "-c", _DAEMON])
    subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; setsid sleep 600 & sleep 600"])
    context.log("all are up")
    while True:
        time.sleep(600)
