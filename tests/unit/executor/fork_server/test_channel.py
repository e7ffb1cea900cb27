"""Answers of a job process reach the executor whole, whichever threads they come from."""

import socket
import threading

import pytest
from msgspec.structs import replace

from warren.broker.messages import Outcome
from warren.executor.fork_server import frames
from warren.executor.fork_server.job_main import Answers, Orders
from warren.executor.fork_server.termination import Termination

#: Longer than what the channel takes at once.
LONG = "x" * 40_000
THREADS, EACH = 4, 20
RESULT = frames.Result(
    run_id=0,
    outcome=Outcome.SUCCEEDED,
    message="",
    will_end=False,
    log_bytes=0,
    log_tail="",
    log_error="",
    returned=LONG,
)


def test_long_answers_of_several_threads_do_not_mix() -> None:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    answers = Answers(ours.fileno())

    def send(number: int) -> None:
        for _ in range(EACH):
            answers.send(replace(RESULT, run_id=number))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    with theirs.makefile("rb") as lines:
        read = [next(lines).rstrip(b"\n") for _ in range(THREADS * EACH)]
    for thread in threads:
        thread.join()

    assert {line.count(LONG.encode()) for line in read} == {1}
    assert {line.startswith(b'{"type":"Result","run_id":') for line in read} == {True}
    for end in (ours, theirs):
        end.close()


def test_a_channel_that_was_closed_is_known() -> None:
    ours, theirs = socket.socketpair()
    answers = Answers(ours.fileno())
    theirs.close()

    answers.send(frames.Withheld(batch=1))

    assert answers.is_closed
    ours.close()


def test_nothing_is_told_of_a_run_that_is_over() -> None:
    ours, theirs = socket.socketpair()
    answers = Answers(ours.fileno())
    orders = Orders(ours.fileno(), answers, Termination())
    progress, call = answers.progress_of(7), orders.call_of(7)
    theirs.sendall(frames.encode_line(frames.Kept(run_id=7, number=1)))
    wait = call("mail", None, None)
    theirs.sendall(frames.encode_line(frames.CallState(run_id=7, number=1, end=None)))
    refused: list[str] = []

    def thread() -> None:  # it waits for longer than the run is
        try:
            wait(None)
        except RuntimeError as error:
            refused.append(str(error))

    waiting = threading.Thread(target=thread)
    waiting.start()
    with theirs.makefile("rb") as lines:
        for kind in (b"Call", b"Await"):
            assert kind in next(lines)

        orders.end_calls()
        answers.end_progress()
        answers.send(replace(RESULT, run_id=7))
        waiting.join()
        progress(1, None, "")
        with pytest.raises(RuntimeError, match="one that is over"):
            call("mail", None, None)
        ours.close()

        assert b"Result" in next(lines)
        assert lines.read() == b""
    assert refused == ["expected a run that goes on to call, got: one that is over"]
    theirs.close()
