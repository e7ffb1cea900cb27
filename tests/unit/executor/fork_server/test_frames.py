"""What executor, zygote and job processes say arrives as it was said."""

from typing import Any

import msgspec
import pytest

from warren.broker.messages import (
    ABOUT_LIMIT,
    LOG_TAIL_BYTES,
    MESSAGE_LIMIT,
    SCHEMA_BYTES,
    HandlerFacts,
    Outcome,
    Trigger,
)
from warren.broker.stored_reasons import REASON_LIMIT
from warren.executor.fork_server import frames
from warren.executor.fork_server.zygote import HANDLERS_PER_PACKET

TRIGGER = Trigger(
    run_id=1,
    job_id=2,
    boot_id="boot",
    kind="CRON",
    handler="a.b",
    param='line feed \n, quote ", \x00 and ü',
    scheduled_at_ms=1_700_000_000_000,
)
RESULT = frames.Result(
    run_id=1,
    outcome=Outcome.FAILED,
    message="two\nlines",
    will_end=True,
    log_bytes=7,
    log_tail="tail\n",
    log_error="",
)
OF_ONE_THAT_STAYS = msgspec.structs.replace(RESULT, will_end=False)


@pytest.mark.parametrize(
    ("frame", "decode"),
    [
        (frames.Fork(number=1, handler="x"), frames.decode_to_zygote),
        (frames.Signal(number=1, signal=15), frames.decode_to_zygote),
        (frames.Ping(), frames.decode_to_zygote),
        (
            frames.HandlersLoaded(handlers=(HandlerFacts(name="a", line=3),), folder="/x"),
            frames.decode_from_zygote,
        ),
        (frames.LoadFailed(line="l", traceback="t"), frames.decode_from_zygote),
        (frames.Forked(number=1, pid=2, started_at_ms=3), frames.decode_from_zygote),
        (frames.Exited(number=1, code=-9, survivors="x"), frames.decode_from_zygote),
        (frames.Pong(), frames.decode_from_zygote),
        (frames.Run(trigger=TRIGGER, log_path="/x", last=True), frames.decode_to_job_process),
        (frames.End(), frames.decode_to_job_process),
        (RESULT, lambda line: frames.take_answer(line)[0]),
    ],
)
def test_frame_arrives_as_it_was_sent(frame: frames.Frame, decode: Any) -> None:
    line = frames.encode_line(frame)

    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == frame


class Marked(str):
    """Text that JSON is not made of."""

    __slots__ = ()


@pytest.mark.parametrize("field", ["message", "log_tail", "log_error", "why"])
def test_result_that_cannot_be_sent_becomes_a_failure_that_says_why(field: str) -> None:
    good = msgspec.structs.replace(RESULT, outcome=Outcome.SUCCEEDED)
    bad = msgspec.structs.replace(good, **{field: Marked("text")})

    told, _ = frames.take_answer(frames.encode_answer(bad))

    assert isinstance(told, frames.Result)
    assert (told.run_id, told.outcome, told.will_end) == (1, Outcome.FAILED, True)
    assert told.message.startswith("its result cannot be sent: TypeError: ")


def test_result_that_can_be_sent_is_sent_as_it_is() -> None:
    assert frames.encode_answer(RESULT) == frames.encode_line(RESULT)


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"{}",
        b'{"type":"Result"}',
        b'{"type":"Result","run_id":1}\n',
        b'{"type":"Result","run_id":"\xff\n',
        b'{"type":"Result","run_id":' + b"[" * 100_000 + b"\n",
        b"\x80\x04K\x01.",
        b'{"type":"Boom"}',
        b"[1]",
        frames.encode_line(OF_ONE_THAT_STAYS) * 2,
        frames.encode_line(OF_ONE_THAT_STAYS) + b"{",
        frames.encode_line(msgspec.structs.replace(RESULT, log_tail="x" * 4_097)),
        frames.encode_line(RESULT)[:-1] + b" " * frames.ANSWER_LIMIT,
    ],
)
def test_what_is_no_result_is_refused(data: bytes) -> None:
    with pytest.raises(frames.InvalidAnswer):
        frames.take_answer(data)


def test_what_follows_the_result_of_a_process_that_ends_is_dropped() -> None:
    assert frames.take_answer(frames.encode_line(RESULT) + b"goodbye") == (RESULT, b"")


def test_result_that_has_not_come_whole_is_waited_for() -> None:
    line = frames.encode_line(RESULT)

    assert [frames.take_answer(line[:end]) for end in range(len(line))] == [
        (None, line[:end]) for end in range(len(line))
    ]


def test_longest_result_is_taken() -> None:
    longest = msgspec.structs.replace(
        RESULT,
        message="\x00" * MESSAGE_LIMIT,
        log_tail="\x00" * LOG_TAIL_BYTES,
        log_error="\x00" * frames.NOTE_LIMIT,
        why="\x00" * REASON_LIMIT,
        log_why="\x00" * REASON_LIMIT,
    )

    assert frames.take_answer(frames.encode_line(longest)) == (longest, b"")


def test_answers_of_a_batch_are_taken_one_after_the_other() -> None:
    stays, withheld = frames.encode_line(OF_ONE_THAT_STAYS), frames.Withheld(batch=3)

    first, rest = frames.take_answer(stays + frames.encode_line(withheld), in_batch=True)

    assert first == OF_ONE_THAT_STAYS
    assert frames.take_answer(rest, in_batch=True) == (withheld, b"")


def test_exit_of_an_old_kind_has_its_defaults() -> None:
    exited = frames.decode_from_zygote(b'{"type":"Exited","number":4}')

    assert exited == frames.Exited(number=4, code=0, error="", why="", survivors="")


def test_worst_packets_fit() -> None:
    longest = HandlerFacts(
        name="\x00" * 255, about="\x00" * ABOUT_LIMIT, module="\x00" * 255, line=2**53 - 1
    )
    handlers = frames.HandlersLoaded(handlers=(longest,) * HANDLERS_PER_PACKET)
    typed = msgspec.structs.replace(longest, schema='"' * SCHEMA_BYTES)
    load_failed = frames.LoadFailed(line="\x00" * 2_000, traceback="\x00" * 16_000)

    exited = frames.Exited(
        number=1, error="\x00" * frames.NOTE_LIMIT, why="\x00" * REASON_LIMIT, survivors="ü" * 999
    )

    assert len(frames.encode(handlers)) <= frames.PACKET_LIMIT
    assert len(frames.encode(frames.HandlersLoaded(handlers=(typed,)))) <= frames.PACKET_LIMIT
    assert len(frames.encode(exited)) <= frames.PACKET_LIMIT
    assert len(frames.encode(load_failed)) <= frames.PACKET_LIMIT


def test_longest_result_is_a_line_of_bounded_length() -> None:
    longest = msgspec.structs.replace(
        RESULT, message="\x00" * MESSAGE_LIMIT, log_tail="\x00" * LOG_TAIL_BYTES
    )

    assert len(frames.encode_line(longest)) < 400_000


@pytest.mark.parametrize("words", ["\udcff" * 9, "x" * 100_000])
def test_note_of_any_words_can_be_sent(words: str) -> None:
    frame = frames.Exited(number=1, error=frames.note_of(words))

    assert frames.decode_from_zygote(frames.encode(frame)) == frame
