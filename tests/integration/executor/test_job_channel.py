"""A job that writes into the channel of its process ends itself, and costs its executor nothing."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slot_harness import SlotHarness
from warren.broker.messages import Outcome
from warren.broker.reasons import Reason
from warren.executor.fork_server import frames
from warren.executor.processes.job_processes import ProcessChannel

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
    written = 0
    with open(os.path.join(os.path.dirname(__file__), "written"), "w") as file:
        while True:
            written += os.write(channel(), b"1" * 1_000)
            os.pwrite(file.fileno(), b"%d" % written, 0)

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


def most_in_a_channel() -> int:
    """Return how many bytes the kernel keeps at most for who does not read them."""
    one, other = socket.socketpair()
    with one, other:
        return one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


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


def test_one_that_does_not_mind_sigterm_is_killed(tmp_path: Path) -> None:
    harness = SlotHarness(tmp_path, SOURCE, count=1, grace_seconds=0.5).open()

    finished = harness.run("half.stubborn")

    end = "still running 0.5 s after SIGTERM, killed with SIGKILL"
    assert (finished.outcome, finished.message) == (
        Outcome.FAILED,
        f"{words(b'half a line')}; {end}",
    )
    assert harness.job_processes() == []
    harness.close()


def test_flood_takes_no_more_of_the_executors_memory_than_a_result(harness: SlotHarness) -> None:
    finished = harness.run("flood", seconds=60)

    written = int(harness.note("written"))
    assert finished.outcome is Outcome.FAILED
    assert frames.ANSWER_LIMIT - 1_000 < written <= frames.ANSWER_LIMIT + most_in_a_channel()


def test_channel_takes_nothing_beyond_the_longest_result() -> None:
    loop = asyncio.new_event_loop()
    misuses: list[Reason] = []
    channel = ProcessChannel(loop, on_answer=lambda _: None, on_misuse=misuses.append)
    process = channel.other_end
    process.setblocking(False)
    sent = process.send(b'{"type":"Result","run_id":')
    kept = 0

    def send_more() -> int:
        count = process.send(b"1" * 100)
        loop.run_until_complete(asyncio.sleep(0))  # it reads whatever is there
        return count

    def send_without_end() -> None:
        while True:
            send_more()

    while not misuses:
        kept = sent
        sent += send_more()

    assert frames.ANSWER_LIMIT - 100 < kept <= frames.ANSWER_LIMIT
    with pytest.raises(BlockingIOError):
        send_without_end()
    process.close()
    channel.close()
    loop.close()


def test_what_comes_after_the_result_changes_nothing(harness: SlotHarness) -> None:
    finished = harness.run("at.exit", process="fresh")

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "done")
    assert harness.run("pid").outcome is Outcome.SUCCEEDED


def test_addresses_of_no_socket_are_written_out_for_a_run(
    harness: SlotHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[socket.socket] = []
    monkeypatch.setattr(socket.socket, "__repr__", lambda own: written.append(own) or "a socket")

    harness.run("pid", process="fresh")

    assert written == []


def test_idle_process_that_writes_into_the_channel_ends(harness: SlotHarness) -> None:
    first = harness.run("when.idle").message

    harness.turn(lambda: not harness.job_processes())

    assert harness.run("when.idle").message != first
