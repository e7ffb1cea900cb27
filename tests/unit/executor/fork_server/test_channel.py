"""Answers of a job process reach the executor whole, whichever threads they come from."""

import socket
import threading

from msgspec.structs import replace

from warren.broker.messages.values import Outcome
from warren.executor.fork_server import frames
from warren.executor.fork_server.job_main import Answers

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
