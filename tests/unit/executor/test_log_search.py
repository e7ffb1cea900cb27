"""Words are found in a whole log, a stretch at a time."""

import io
from pathlib import Path

import pytest

from warren.broker.log_lines import find
from warren.executor.run_logs import RunLogs

DAY = "1970-01-01"


@pytest.fixture
def logs(tmp_path: Path) -> RunLogs:
    return RunLogs(tmp_path)


def file(data: bytes) -> io.BufferedReader:
    return io.BufferedReader(io.BytesIO(data))


def write(logs: RunLogs, data: str) -> None:
    path = Path(logs.path_of(0, 1))
    path.parent.mkdir(exist_ok=True)
    path.write_text(data)


def test_lines_with_the_words_are_named_once_each_whatever_the_case(logs: RunLogs) -> None:
    write(logs, "an ERROR, an error\nwell\nError\nlast one, unfinished error")

    found = logs.search(1, DAY, "error", 1)

    assert (found.lines, found.to_line, found.is_end) == ((1, 3, 4), 4, True)


def test_a_search_goes_on_behind_a_line(logs: RunLogs) -> None:
    write(logs, "x\nx\nx\n")

    assert logs.search(1, DAY, "x", 2).lines == (2, 3)
    assert logs.search(1, DAY, "x", 9).lines == ()


def test_an_answer_looks_at_so_much_and_says_up_to_where() -> None:
    text = b"abcd\n" * 4

    first = find(file(text), "abcd", 1, most_bytes=10)
    second = find(file(text[10:]), "abcd", first.to_line + 1, most_bytes=10)

    assert (first.lines, first.to_line, first.is_end) == ((1, 2), 2, False)
    assert (second.lines, second.to_line, second.is_end) == ((3, 4), 4, True)


def test_an_answer_names_so_many_lines() -> None:
    found = find(file(b"x\nx\nx\n"), "x", 1, most_found=2)

    assert (found.lines, found.is_end) == ((1, 2), False)


def test_words_across_the_pieces_of_a_long_line_are_found(logs: RunLogs) -> None:
    write(logs, "a" * 65_533 + "needle" + "a" * 70_000 + "\nneedle\n")

    assert logs.search(1, DAY, "needle", 1).lines == (1, 2)


def test_bytes_that_are_no_text_do_no_harm(logs: RunLogs) -> None:
    path = Path(logs.path_of(0, 1))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\xff\xfe needle\n\x00\n")

    assert logs.search(1, DAY, "needle", 1).lines == (1,)


@pytest.mark.parametrize(("day", "words"), [("../etc", "x"), ("2026-01-01", "x"), (DAY, "")])
def test_where_there_is_nothing_nothing_is_found(logs: RunLogs, day: str, words: str) -> None:
    write(logs, "x\n")

    found = logs.search(1, day, words, 1)

    assert (found.lines, found.is_end) == ((), True)
