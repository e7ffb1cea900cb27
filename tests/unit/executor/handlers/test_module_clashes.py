"""Modules of the same name in two handlers' folders are refused if somebody imports them."""

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warren.executor.handlers.handler_registry import HandlersError, load_handlers

#: Declares a handler named after the file's folder.
HANDLER = "\nfrom warren import job\n@job(__file__.split('/')[-2])\ndef f(context): return {}\n"


@pytest.fixture(autouse=True)
def _untouched_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., None]:
    def write(**files: str) -> None:
        """Write files; `a__util` is a/util.py."""
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def refusal(*sources: str) -> str:
    with pytest.raises(HandlersError) as caught:
        load_handlers(sources)
    assert caught.value.traceback == ""
    return caught.value.line


@pytest.mark.parametrize(
    "imports",
    [
        "import util",
        "from util import WORD",
        "def lazily():\n    from util import WORD",
        "import importlib\nimportlib.import_module('util')",
    ],
)
def test_both_files_are_named(write: Callable[..., None], tmp_path: Path, imports: str) -> None:
    write(a__util="WORD = 'a'", b__util="WORD = 'b'")
    write(a__handlers=imports + HANDLER, b__handlers=imports + HANDLER)

    assert refusal("a/handlers.py", "b/handlers.py") == (
        f"cannot load handlers: they import 'util', and there is {tmp_path}/a/util.py "
        f"and {tmp_path}/b/util.py: rename one, or run an executor for each folder"
    )


def test_one_import_is_enough(write: Callable[..., None]) -> None:
    write(a__util="", b__util="", a__handlers=HANDLER, b__jobs="import util" + HANDLER)

    assert "they import 'util'" in refusal("a/handlers.py", "b/jobs.py")


def test_cause_is_told_where_an_import_failed_because_of_it(write: Callable[..., None]) -> None:
    write(a__util="A = 1", b__util="B = 1")
    write(a__handlers="from util import A" + HANDLER, b__handlers="from util import B" + HANDLER)

    assert "they import 'util'" in refusal("a/handlers.py", "b/handlers.py")


def test_import_of_an_imported_module_counts(write: Callable[..., None]) -> None:
    write(a__util="", b__util="", a__steps="def lazily():\n    import util")
    write(a__handlers="import steps" + HANDLER, b__handlers=HANDLER)

    assert "they import 'util'" in refusal("a/handlers.py", "b/handlers.py")


@pytest.mark.parametrize("module", ["util", "__init__"])
def test_packages_and_folders_of_modules_count(
    write: Callable[..., None], tmp_path: Path, module: str
) -> None:
    for folder in (tmp_path / "a/lib", tmp_path / "b/lib"):
        folder.mkdir(parents=True)
        (folder / f"{module}.py").touch()
    write(a__handlers=HANDLER, b__handlers="def lazily():\n    from lib import util" + HANDLER)

    assert "they import 'lib" in refusal("a/handlers.py", "b/handlers.py")


def test_module_in_the_current_folder_counts_for_a_dotted_source(
    write: Callable[..., None],
) -> None:
    write(util="", b__util="", company__mails="import util" + HANDLER, b__handlers=HANDLER)

    assert "they import 'util'" in refusal("company.mails", "b/handlers.py")


def test_files_on_the_command_line_may_have_the_same_name(write: Callable[..., None]) -> None:
    write(a__handlers=HANDLER, b__handlers=HANDLER)

    assert sorted(load_handlers(["a/handlers.py", "b/handlers.py"])) == ["a", "b"]


def test_they_may_not_if_somebody_imports_that_name(write: Callable[..., None]) -> None:
    write(a__handlers=HANDLER, b__handlers=HANDLER, a__more="import handlers" + HANDLER)

    assert "they import 'handlers'" in refusal("b/handlers.py", "a/handlers.py", "a/more.py")


def test_files_that_nobody_imports_may_have_the_same_name(write: Callable[..., None]) -> None:
    write(a__setup="", b__setup="", a__tests__test_x="", b__tests__test_x="")
    write(a__handlers="import util" + HANDLER, b__handlers="import tools" + HANDLER)
    write(a__util="", b__tools="")

    assert sorted(load_handlers(["a/handlers.py", "b/handlers.py"])) == ["a", "b"]


def test_module_that_was_loaded_before_is_what_they_get(write: Callable[..., None]) -> None:
    write(a__ast="", b__ast="", a__handlers="import ast" + HANDLER, b__handlers=HANDLER)

    assert sorted(load_handlers(["a/handlers.py", "b/handlers.py"])) == ["a", "b"]
    assert sys.modules["ast"] is ast


def test_one_file_under_two_names_is_one_module(write: Callable[..., None], tmp_path: Path) -> None:
    write(a__util="", a__handlers="import util" + HANDLER, b__handlers="import util" + HANDLER)
    (tmp_path / "b/util.py").symlink_to(tmp_path / "a/util.py")

    assert sorted(load_handlers(["a/handlers.py", "b/handlers.py"])) == ["a", "b"]


def test_one_folder_needs_no_look(write: Callable[..., None]) -> None:
    write(
        a__util="",
        a__handlers="import util" + HANDLER,
        a__more="import util" + HANDLER.replace("/')[-2]", "/')[-1]"),
    )
    looked = "warren.executor.handlers.module_clashes"
    sys.modules.pop(looked, None)

    load_handlers(["a/handlers.py", "a/more.py"])

    assert looked not in sys.modules
