import pytest

from warren.broker.codec import BODY_LIMIT, encode
from warren.broker.messages import PARAM_BYTES, Trigger
from warren.scheduler.jobs.script_cache import (
    MESSAGE_BYTES,
    SOURCE_BYTES,
    check_source,
    normal_source,
)


@pytest.mark.parametrize("source", ["x", "x" * SOURCE_BYTES, "grüße 😀", "\r\n\tx\x01"])
def test_text_can_be_a_script(source: str) -> None:
    check_source(source)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "expected source to be a script, got: nothing"),
        (" \n\t", "expected source to be a script, got: nothing"),
        ("a\nb\0c", "expected source to be text, got: a NUL in line 2"),
        ("a\ud800", "expected source to be text, got: half of a character"),
        ("x" * 524_289, "expected source to be up to 524288 bytes, got: 524289 bytes"),
        ("é" * 262_145, "expected source to be up to 524288 bytes, got: 524290 bytes"),
        ('"' * 400_000, "to take up to 800000 bytes in a message, got: 800002 bytes"),
    ],
)
def test_what_no_script_can_be_is_refused_in_one_line(source: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        check_source(source)

    assert "\n" not in str(refused.value)


def test_longest_source_and_longest_param_fit_into_one_message() -> None:
    source = '"' * (MESSAGE_BYTES - 2 - SOURCE_BYTES) + "x" * (2 * SOURCE_BYTES - MESSAGE_BYTES + 2)
    check_source(source)
    trigger = Trigger(
        run_id=2**53 - 1,
        job_id=2**53 - 1,
        boot_id="b" * 40,
        kind="MANUAL",
        handler="",
        param='"\n' * (PARAM_BYTES // 2),
        scheduled_at_ms=2**53 - 1,
        script_language="powershell",
        script_source=source,
    )

    body = encode(trigger)

    assert len(source.encode()) == SOURCE_BYTES
    assert MESSAGE_BYTES + 2 * PARAM_BYTES < len(body) < BODY_LIMIT


@pytest.mark.parametrize(
    ("language", "kept"),
    [("shell", "a\nb\rc\n"), ("python", "a\nb\rc\n"), ("powershell", "\ufeffa\r\nb\rc\r\n")],
)
def test_line_ends_and_byte_order_mark_go_but_for_powershell(language: str, kept: str) -> None:
    assert normal_source(language, "\ufeffa\r\nb\rc\r\n") == kept


@pytest.mark.parametrize("source", ["a\r\r\nb", "\ufeff\ufeffa\r\n", "a\r", "\r\n\r\n"])
@pytest.mark.parametrize("language", ["shell", "powershell"])
def test_what_is_normal_stays_as_it_is(language: str, source: str) -> None:
    once = normal_source(language, source)

    assert normal_source(language, once) == once
