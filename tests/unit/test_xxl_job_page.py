"""docs/xxl-job.md: every line names a test that exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/xxl-job.md").read_text()
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def table_lines(text: str) -> Iterator[list[str]]:
    """Give the cells of each line of each table, without heads and rules."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        is_head = number + 1 < len(lines) and lines[number + 1].startswith("|---")
        if line.startswith("|") and not line.startswith("|---") and not is_head:
            yield [cell.strip() for cell in line.strip("|").split("|")]


def unproven(text: str) -> list[str]:
    """Return what each line without a test is about."""
    return [cells[0] for cells in table_lines(text) if not _TEST.fullmatch(cells[-1])]


def gone(text: str) -> list[str]:
    """Return the tests that are named anywhere and that nobody has written."""
    return [
        f"{path}::{name}"
        for path, name in _TEST.findall(text)
        if not (ROOT / path).is_file()
        or not re.search(rf"^\s*(?:async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]


def test_every_line_names_a_test() -> None:
    assert len(list(table_lines(PAGE))) > 150
    assert unproven(PAGE) == []


def test_every_test_that_is_named_exists() -> None:
    assert len(_TEST.findall(PAGE)) > 140
    assert gone(PAGE) == []


def test_no_line_has_more_or_fewer_cells_than_its_head() -> None:
    for part in PAGE.split("\n\n"):
        widths = {line.count("|") for line in part.splitlines() if line.startswith("|")}
        assert len(widths) <= 1, part[:200]


HEAD = "| theirs | ours | test |\n|---|---|---|\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("| a | b | `tests/unit/test_xxl_job_page.py::test_x` |", []),
        ("| a | b | |", ["a"]),
        ("| a | b | trust us |", ["a"]),
    ],
)
def test_line_without_a_test_is_found(line: str, expected: list[str]) -> None:
    assert unproven(HEAD + line) == expected


def test_test_that_nobody_wrote_is_found() -> None:
    here = "tests/unit/test_xxl_job_page.py"
    text = f"`{here}::test_test_that_nobody_wrote_is_found` `{here}::test_no` `tests/no.py::test_a`"

    assert gone(text) == [f"{here}::test_no", "tests/no.py::test_a"]
