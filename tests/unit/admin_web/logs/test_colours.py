"""Colours of a terminal become looks of pieces of text; all else stays text."""

import pytest

from warren.admin_web.run_logs import pieces


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ("plain", [("", "plain")]),
        ("", [("", "")]),
        ("\x1b[32mok\x1b[0m done", [("ansi-green", "ok"), ("", " done")]),
        (
            "\x1b[1;31mbad\x1b[39m bold\x1b[22m plain",
            [("ansi-red ansi-bold", "bad"), ("ansi-bold", " bold"), ("", " plain")],
        ),
        ("\x1b[91mbright\x1b[m plain", [("ansi-red", "bright"), ("", " plain")]),
        ("\x1b[38;5;4mblue", [("ansi-blue", "blue")]),
        ("\x1b[38;5;200mpink", [("", "pink")]),
        ("\x1b[38;2;1;31;3mtrue\x1b[4munder", [("", "true"), ("ansi-under", "under")]),
        ("\x1b[41mon red", [("", "on red")]),
        ("\x1b[38;5mcut", [("ansi-black", "cut")]),
        ("\x1b[2J\x1b[32mgreen", [("ansi-green", "green")]),
        ("10 %\r\x1b[33m50 %", [("ansi-yellow", "50 %")]),
        ("\x1b[999999mnone", [("", "none")]),
        ("\x1b[" + "1;" * 100 + "mlong", [("", "long")]),
        ("\x1b[32m<script>\x07", [("ansi-green", "<script>␇")]),
    ],
)
def test_a_line_is_told_in_pieces(printed: str, seen: list[tuple[str, str]]) -> None:
    assert pieces(printed) == seen
