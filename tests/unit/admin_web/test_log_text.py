"""Whatever a job printed, a page shows it as text."""

import time

import pytest

from warren.broker.log_lines import shown, shown_end, shown_text, whole_lines
from warren.broker.messages import LOG_TAIL_BYTES


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ("plain\ttext, ümlaut 汉字 🐇", "plain\ttext, ümlaut 汉字 🐇"),
        ("\x1b[1;32mgreen\x1b[0m", "green"),
        ("\x1b]0;a window's title\x07text", "text"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("nul\x00 bell\x07 backspace\x08 delete\x7f", "nul␀ bell␇ backspace␈ delete␡"),
        ("half an escape \x1b[", "half an escape ␛["),
        ("10 %\r50 %\r100 %", "100 %"),
        ("windows\r", "windows"),
        ("10 %\r50 %\r", "50 %"),
        ("10 %\x1b[1G50 %\x1b[G100 %", "100 %"),
        ("50 %\r\x1b[32m100 %\r\x1b[0m", "100 %"),
        ("\x1b(B\x1b[mplain\x1b7\x1bc", "plain"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066isolated\u2069", "\\u2066isolated\\u2069"),
        ("next\x85line", "next\\x85line"),
        ("alone \ud800", "alone \ufffd"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_control_codes_go_or_are_made_visible(printed: str, seen: str) -> None:
    assert shown(printed) == seen


def test_each_line_is_one_of_its_own() -> None:
    assert shown_text("1 %\r2 %\n\x1b[31mred\n") == "2 %\nred\n"


@pytest.mark.parametrize("piece", ["a", "\x1b]", "\x1b[", "\r", "\x1b[0", "a\r", "\x1b[0;0;"])
def test_a_long_line_takes_no_longer_than_its_length(piece: str) -> None:
    line = piece * 200_000

    began = time.process_time()
    shown(line)

    assert time.process_time() - began < 2  # 0.2 s; if it went by the square, minutes


def test_the_end_of_a_log_begins_with_a_whole_line() -> None:
    long = "the middle of a line\n" + "x" * LOG_TAIL_BYTES + "\nthe end\n"
    cut = long[-LOG_TAIL_BYTES:]

    assert whole_lines(cut) == "the end\n"
    assert whole_lines("a short log\nand its end\n") == "a short log\nand its end\n"
    assert whole_lines("x" * LOG_TAIL_BYTES) == "x" * LOG_TAIL_BYTES


def test_the_end_of_what_is_shown_has_whole_lines_and_no_old_states() -> None:
    bar = "\r".join(f"{percent} %" for percent in range(101))

    assert shown_end(f"begin\n{bar}\ndone\n", 1_000) == "begin\n100 %\ndone"
    assert shown_end(f"begin\n{bar}\ndone\n", 12) == "100 %\ndone"
    assert shown_end("x" * 30, 12) == "x" * 12
