"""Closes the journals that tests open."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from warren.executor.journal.file import Journal


@pytest.fixture(autouse=True)
def _closed_journals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give back what open journals have set aside: 16 MB each, although their folders are gone."""
    opened: list[Journal] = []
    begin, close = Journal.__init__, Journal.close

    def begin_noted(journal: Journal, path: Path) -> None:
        begin(journal, path)
        opened.append(journal)

    def close_noted(journal: Journal) -> None:
        close(journal)
        opened.remove(journal)

    monkeypatch.setattr(Journal, "__init__", begin_noted)
    monkeypatch.setattr(Journal, "close", close_noted)
    yield
    for journal in opened:
        close(journal)
