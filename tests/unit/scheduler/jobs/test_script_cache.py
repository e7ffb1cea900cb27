from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from warren.broker.messages import ScriptLanguage
from warren.scheduler.jobs import script_cache
from warren.scheduler.jobs.script_cache import (
    READ_LIMIT,
    Script,
    Scripts,
    few_scripts,
    language_of,
    script_type,
)

NO_SESSION: Any = None


class Table:
    """Stands in for the table of versions; `asked` are the ids of each statement."""

    def __init__(self, sources: dict[int, str]) -> None:
        self.sources = sources
        self.asked: list[list[int]] = []

    def read(self, _session: Any, script_versions: Iterable[int]) -> dict[int, tuple[str, str]]:
        self.asked.append(list(script_versions))
        found = {id_: self.sources[id_] for id_ in self.asked[-1] if id_ in self.sources}
        return {id_: ("GLUE_SHELL", source) for id_, source in found.items()}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table({number: f"echo {number}" for number in range(1, 101)})
    monkeypatch.setattr(script_cache.script_versions, "sources", table.read)
    return table


@pytest.mark.parametrize("language", ScriptLanguage)
def test_type_and_language_stand_for_each_other(language: str) -> None:
    assert script_type(language) == f"GLUE_{language.upper()}"
    assert language_of(script_type(language)) == language


@pytest.mark.parametrize("other", ["BEAN", "GLUE_PERL", ""])
def test_what_is_no_script_has_no_language(other: str) -> None:
    assert language_of(other) == ""


def test_version_is_read_once(table: Table) -> None:
    kept = Scripts()

    first = kept.read(NO_SESSION, [1, None, 2, 1])
    second = kept.read(NO_SESSION, [2, 1])

    assert first == second == {1: Script("shell", "echo 1"), 2: Script("shell", "echo 2")}
    assert table.asked == [[1, 2]]


def test_runs_without_scripts_ask_nothing(table: Table) -> None:
    assert Scripts().read(NO_SESSION, [None, None]) == {}
    assert table.asked == []


def test_version_that_is_gone_is_told_and_asked_for_again(table: Table) -> None:
    kept = Scripts()

    assert kept.read(NO_SESSION, [500]) == {500: None}
    assert kept.read(NO_SESSION, [500]) == {500: None}
    assert table.asked == [[500], [500]]


def test_language_that_only_another_program_knows_is_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        script_cache.script_versions,
        "sources",
        lambda _session, _ids: {1: ("GLUE_PYTHON2", "print 1")},
    )

    assert Scripts().read(NO_SESSION, [1]) == {1: Script("python2", "print 1")}


def test_too_many_unread_versions_are_left_for_the_next_time(table: Table) -> None:
    kept = Scripts()

    first = kept.read(NO_SESSION, range(1, 101))
    second = kept.read(NO_SESSION, range(1, 101))

    assert list(first) == list(range(1, READ_LIMIT + 1))
    assert len(second) == 2 * READ_LIMIT


def test_sources_that_are_used_least_lately_leave_the_memory(table: Table) -> None:
    kept = Scripts(kept_characters=len("echo 1" * 2))
    kept.read(NO_SESSION, [1])
    kept.read(NO_SESSION, [2])
    kept.read(NO_SESSION, [1])
    kept.read(NO_SESSION, [3])

    kept.read(NO_SESSION, [1])
    kept.read(NO_SESSION, [2])

    assert table.asked == [[1], [2], [3], [2]]


def test_few_scripts_leave_out_no_handler() -> None:
    rows = [SimpleNamespace(script_version=number if number % 2 else None) for number in range(100)]

    few = few_scripts(rows)

    assert [row.script_version for row in few if row.script_version] == list(
        range(1, 2 * READ_LIMIT, 2)
    )
    assert sum(row.script_version is None for row in few) == 50
