"""What executor, zygote and job processes say arrives as it was said."""

from typing import Any

import msgspec
import pytest

from broker.messages import LOG_TAIL_BYTES, MESSAGE_LIMIT, Outcome, Trigger
from executor import frames

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


@pytest.mark.parametrize(
    ("frame", "decode"),
    [
        (frames.Fork(number=1, handler="x"), frames.decode_to_zygote),
        (frames.Signal(number=1, signal=15), frames.decode_to_zygote),
        (frames.Ping(), frames.decode_to_zygote),
        (frames.Names(names=("a", "b"), last=False), frames.decode_from_zygote),
        (frames.Unloadable(line="l", traceback="t"), frames.decode_from_zygote),
        (frames.Forked(number=1, pid=2, started_at_ms=3), frames.decode_from_zygote),
        (frames.Exited(number=1, code=-9, survivors="x"), frames.decode_from_zygote),
        (frames.Pong(), frames.decode_from_zygote),
        (frames.Run(trigger=TRIGGER, log_path="/x", last=True), frames.decode_to_process),
        (frames.End(), frames.decode_to_process),
        (RESULT, frames.decode_result),
    ],
)
def test_frame_arrives_as_it_was_sent(frame: frames.Frame, decode: Any) -> None:
    line = frames.encode_line(frame)

    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == frame


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"type":"Result"}', b"\x80\x04K\x01.", b'{"type":"Boom"}', b"[1]"]
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        frames.decode_result(data)


def test_exit_of_an_old_kind_has_its_defaults() -> None:
    exited = frames.decode_from_zygote(b'{"type":"Exited","number":4}')

    assert exited == frames.Exited(number=4, code=0, error="", survivors="")


def test_worst_packets_fit() -> None:
    names = frames.Names(names=("ü" * 255,) * 100, last=False)
    unloadable = frames.Unloadable(line="\x00" * 2_000, traceback="\x00" * 16_000)

    assert len(frames.encode(names)) <= frames.PACKET_LIMIT
    assert len(frames.encode(unloadable)) <= frames.PACKET_LIMIT


def test_longest_result_is_a_line_of_bounded_length() -> None:
    longest = msgspec.structs.replace(
        RESULT, message="\x00" * MESSAGE_LIMIT, log_tail="\x00" * LOG_TAIL_BYTES
    )

    assert len(frames.encode_line(longest)) < 400_000
