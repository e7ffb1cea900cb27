"""Checks pages whose tables name a test in the last cell of each line.

The checks take texts as arguments, so that each can be shown to fail.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
#: One test, or several separated by commas.
_TESTS = re.compile(rf"{_TEST.pattern}(?:, {_TEST.pattern})*")


def table_lines(text: str) -> Iterator[list[str]]:
    """Yield the cells of each line of each table, without heads and rulers."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        is_head = number + 1 < len(lines) and lines[number + 1].startswith("|---")
        if line.startswith("|") and not line.startswith("|---") and not is_head:
            yield [cell.strip() for cell in line.strip("|").split("|")]


def unproven(text: str) -> list[str]:
    """Return the subject of each line that names no test."""
    return [cells[0] for cells in table_lines(text) if not _TESTS.fullmatch(cells[-1])]


def named(text: str) -> list[tuple[str, str]]:
    """Return the mentioned tests: file and function."""
    return _TEST.findall(text)


def gone(text: str) -> list[str]:
    """Return the mentioned tests that do not exist."""
    return [
        f"{path}::{name}"
        for path, name in named(text)
        if not (ROOT / path).is_file()
        or not re.search(rf"^\s*(?:async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]


def uneven(text: str) -> list[str]:
    """Return the beginning of each table whose lines differ from its head in number of cells."""
    found = []
    for part in text.split("\n\n"):
        widths = {line.count("|") for line in part.splitlines() if line.startswith("|")}
        if len(widths) > 1:
            found.append(part[:200])
    return found
