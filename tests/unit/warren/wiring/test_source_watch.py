"""Saved files of handlers are noticed, once each, and nothing else is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from warren.wiring.all_in_one import SourceWatch, watched_folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("handlers.py", "package/deep.py", ".venv/lib.py", "__pycache__/handlers.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n")
    return tmp_path


@pytest.fixture
def changes(folder: Path) -> Iterator[list[str]]:
    """A line for each change that was noticed."""
    changes: list[str] = []
    watch = SourceWatch([folder], lambda: changes.append("noticed"))
    watch.start()
    yield changes
    watch.stop()


@pytest.mark.parametrize("name", ["handlers.py", "package/deep.py", "new.py"])
def test_a_saved_file_is_noticed(folder: Path, changes: list[str], name: str) -> None:
    (folder / name).write_text("x = 22\n")

    eventually(lambda: changes)


def test_a_file_that_is_replaced_by_another_is_noticed(folder: Path, changes: list[str]) -> None:
    (folder / "new.tmp").write_text("x = 22\n")
    (folder / "new.tmp").replace(folder / "handlers.py")

    eventually(lambda: changes)


def test_what_is_no_source_is_not(folder: Path, changes: list[str]) -> None:
    for name in (".venv/lib.py", "__pycache__/handlers.py", "notes.txt"):
        (folder / name).write_text("x = 333\n")
    (folder / "package/deep.py").write_text("x = 4444\n")

    eventually(lambda: changes)

    assert len(changes) == 1  # of the last one, which is a source


def test_folders_of_files_and_packages_of_modules_are_watched(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    assert watched_folders(["handlers.py", "package.deep"]) == [folder, folder / "package"]
    assert watched_folders(["handlers"]) == [folder]
