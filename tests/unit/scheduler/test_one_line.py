"""A text of one line."""

import pytest

from warren.scheduler.commands.cluster_commands import check_reason
from warren.scheduler.jobs.rules import check_title
from warren.scheduler.names import is_line
from warren.scheduler.problems import Problem

#: Controls of both halves, and what ends a line.
CONTROLS = ["\x00", "\t", "\n", "\r", "\x1b", "\x7f", "\x85", "\x9b", "\u2028", "\u2029"]


@pytest.mark.parametrize("text", ["", "nightly report", "夜间报告", "a\u00a0b", "x" * 20])
def test_a_text_without_control_characters_is_a_line(text: str) -> None:
    assert is_line(text, 20)


def test_a_longer_text_is_none() -> None:
    assert not is_line("x" * 21, 20)


@pytest.mark.parametrize("character", CONTROLS, ids=ascii)
def test_titles_and_reasons_refuse_each_control_character(character: str) -> None:
    assert not is_line(f"a{character}b", 20)
    for check in (check_title, check_reason):
        with pytest.raises(Problem):
            check(f"a{character}b")
