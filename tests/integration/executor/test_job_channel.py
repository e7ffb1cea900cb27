"""A job that writes into the channel of its process ends itself, and costs its executor nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.messages.values import Outcome
from executor.fork_server import frames
from tests.support.slot_harness import SlotHarness

SOURCE = r"""
import atexit, os, signal, threading, time

START = b'{"type":"Result","run_id":'
FORGED = START + b'%d,"outcome":"SUCCEEDED","message":"","will_end":false,' \
    b'"log_bytes":1,"log_tail":"%s","log_error":""}\n'

def channel():
    for entry in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + entry).startswith("socket:"):
                return int(entry)
        except FileNotFoundError:
            pass

def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(channel(), view):]

@job("pid")
def pid(context):
    return os.getpid()

@job("half")
def half(context):
    write(b"half a line")
    time.sleep(60)

@job("half.stubborn")
def half_stubborn(context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write(b"half a line")
    time.sleep(60)

@job("half.of.ours")
def half_of_ours(context):
    write(START[:9])
    return "done"

@job("line")
def line(context):
    write(b"nonsense\n")
    time.sleep(60)

@job("nested")
def nested(context):
    write(START + b'1,"x":' + b"[" * 100_000 + b"\n")
    time.sleep(60)

@job("too.much")
def too_much(context):
    write(FORGED % (context.run_id, b"x" * 5_000))
    time.sleep(60)

@job("two")
def two(context):
    write(FORGED % (context.run_id, b"") + b"more")
    time.sleep(60)

@job("flood")
def flood(context):
    write(START)
    while True:
        write(b"1" * 100_000)

@job("at.exit")
def at_exit(context):
    atexit.register(write, b"goodbye")
    return "done"

def write_later():
    threading.Timer(0.3, write, [b"later"]).start()

@job("when.idle", init=write_later)
def when_idle(context):
    return os.getpid()
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SlotHarness]:
    harness = SlotHarness(tmp_path, SOURCE, count=1).open()
    yield harness
    harness.close()


def words(start: bytes) -> str:
    return f"its process wrote {start!r} to its executor's channel"


@pytest.mark.parametrize(
    ("handler", "start"),
    [
        ("half", b"half a line"),
        ("line", b"nonsense\n"),
        ("half.of.ours", b'{"type":"'),
        ("nested", b'{"type":"Result","run_id":1,"x":['),
        ("too.much", b'{"type":"Result","run_id":1,"outcome"'),
        ("two", b'{"type":"Result","run_id":1,"outcome"'),
    ],
)
def test_run_that_writes_into_the_channel_fails_with_those_words(
    harness: SlotHarness, handler: str, start: bytes
) -> None:
    finished = harness.run(handler)

    assert finished.outcome is Outcome.FAILED
    assert finished.message.startswith(words(start).partition("' to its")[0])
    assert finished.message.endswith("to its executor's channel")
    assert harness.job_processes() == []
    assert harness.run("pid").outcome is Outcome.SUCCEEDED


def test_one_that_does_not_mind_sigterm_is_killed(harness: SlotHarness) -> None:
    finished = harness.run("half.stubborn")

    end = "still running 0.5 s after SIGTERM, killed with SIGKILL"
    assert (finished.outcome, finished.message) == (
        Outcome.FAILED,
        f"{words(b'half a line')}; {end}",
    )
    assert harness.job_processes() == []


def test_flood_takes_no_more_of_the_executors_memory_than_a_result(harness: SlotHarness) -> None:
    run_id = harness.start("flood")
    (process,) = harness.slots._pool._processes.values()
    longest = 0

    def is_over() -> bool:
        nonlocal longest
        longest = max(longest, len(process._channel._unread))
        return run_id in harness.finished

    harness.turn(is_over, 20)

    assert harness.finished[run_id].outcome is Outcome.FAILED
    assert longest <= frames.RESULT_LIMIT


def test_what_comes_after_the_result_changes_nothing(harness: SlotHarness) -> None:
    finished = harness.run("at.exit", fresh_process=True)

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "done")
    assert harness.run("pid").outcome is Outcome.SUCCEEDED


def test_idle_process_that_writes_into_the_channel_ends(harness: SlotHarness) -> None:
    first = harness.run("when.idle").message

    harness.turn(lambda: not harness.job_processes())

    assert harness.run("when.idle").message != first
