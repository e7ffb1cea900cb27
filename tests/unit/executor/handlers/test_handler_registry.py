"""What can be declared as a handler, and how sources are loaded."""
# ruff: noqa: ARG005 - handlers are declared here, hardly ever called

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import warren
from warren.executor.handlers.handler_registry import (
    Handler,
    Handlers,
    HandlersError,
    job,
    load_handlers,
)


@pytest.fixture(autouse=True)
def _untouched_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, source: str, name: str = "jobs_of_test.py") -> str:
    path = folder / name
    path.write_text("from warren import job\n" + source)
    return str(path)


class Callable1:
    def __call__(self, context: Any) -> None: ...

    def method(self, context: Any) -> None: ...


async def coroutine(context: Any) -> None: ...


@functools.wraps(coroutine)
def wrapped(*args: Any, **kwargs: Any) -> None: ...


class TestDeclaration:
    @pytest.mark.parametrize(
        "function",
        [
            lambda context: None,
            lambda context, /: None,
            lambda context=None: None,
            coroutine,
            wrapped,
            Callable1(),
            Callable1().method,
            functools.partial(lambda a, context: None, 1),
        ],
    )
    def test_what_takes_one_argument_is_a_handler(self, function: Any) -> None:
        assert job("x")(function) is function

    @pytest.mark.parametrize("process", ["job", "handler", "fresh", None])
    def test_handler_may_say_which_runs_a_process_serves(
        self, tmp_path: Path, process: str | None
    ) -> None:
        source = write(tmp_path, f"@job('x', process={process!r})\ndef x(context): ...")

        assert load_handlers([source])["x"].process == process

    def test_other_words_for_what_a_process_serves_are_refused(self) -> None:
        with pytest.raises(HandlersError, match=r"one of job, handler, fresh, got: 'each'"):
            job("x", process="each")(lambda context: None)

    @pytest.mark.parametrize(
        ("function", "shown"),
        [
            (lambda: None, "got: ()"),
            (lambda a, b, c: None, "got: (a, b, c)"),
            (lambda a, *, b: None, "got: (a, b)"),
            (lambda *args: None, "got: (*args)"),
            (lambda *, context: None, "got: (context)"),
            (lambda **rest: None, "got: (**rest)"),
        ],
    )
    def test_what_takes_something_else_is_none(self, function: Any, shown: str) -> None:
        with pytest.raises(HandlersError) as caught:
            job("x")(function)

        assert "expected handler 'x' to take one argument, or two with its params" in str(
            caught.value
        )
        assert shown in str(caught.value)

    def test_generator_is_none(self) -> None:
        def generator(context: Any) -> Iterator[int]:
            yield 1

        with pytest.raises(HandlersError, match="to be a function, got: a generator"):
            job("x")(generator)

    @pytest.mark.parametrize("name", ["", "x" * 256, " x", "x\n", 7])
    def test_name_must_fit_its_column(self, name: Any) -> None:
        with pytest.raises(HandlersError, match="a handler's name to be text of 1 to 255"):
            job(name)(lambda context: None)

    @pytest.mark.parametrize("role", ["init", "destroy"])
    def test_hook_must_take_no_argument(self, role: str) -> None:
        with pytest.raises(HandlersError, match=f"{role} of handler 'x' to take no argument"):
            job("x", **{role: lambda context: None})(lambda context: None)

    def test_hook_must_be_a_function(self) -> None:
        with pytest.raises(HandlersError, match="init of handler 'x' to be a function, got: 7"):
            job("x", init=7)(lambda context: None)  # type: ignore[call-overload]

    def test_message_names_the_place(self) -> None:
        with pytest.raises(HandlersError, match=r"test_handler_registry\.py:\d+\)"):
            job("x")(lambda: None)

    def test_declared_outside_of_loading_it_is_only_checked(self) -> None:
        def function(context: Any) -> None: ...

        assert job("x")(function) is function
        assert load_handlers([]) == {}

    def test_front_door_gives_the_same_decorator(self) -> None:
        assert warren.job is job


class TestRegistry:
    def test_second_handler_of_a_name_is_refused_with_both_places(self) -> None:
        handlers = Handlers()
        handlers.add(Handler(name="x", function=print, where="a.py:1"))

        with pytest.raises(HandlersError) as caught:
            handlers.add(Handler(name="x", function=print, where="b.py:2"))

        assert str(caught.value) == "two handlers are named 'x': a.py:1 and b.py:2"

    def test_same_place_again_replaces(self) -> None:
        handlers = Handlers()
        handlers.add(Handler(name="x", function=print, where="a.py:1"))
        handlers.add(Handler(name="x", function=repr, where="a.py:1"))

        assert handlers["x"].function is repr
        assert len(handlers) == 1


class TestLoading:
    def test_file_is_loaded_with_its_names_hooks_and_places(self, tmp_path: Path) -> None:
        source = write(
            tmp_path,
            "@job('a.b', init=lambda: 1, destroy=lambda: 2)\ndef one(c): return 'one'\n"
            "@job\ndef two(c): return 'two'\n"
            "@job()\ndef three(c): return 'three'\n",
        )

        handlers = load_handlers([source])

        assert sorted(handlers) == ["a.b", "three", "two"]
        assert handlers["a.b"].function(None) == "one"
        assert handlers["a.b"].init is not None
        assert handlers["a.b"].init() == 1
        assert handlers["two"].where == f"{source}:4"

    def test_module_is_loaded_by_its_dotted_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "pkg_of_test").mkdir()
        write(tmp_path / "pkg_of_test", "@job\ndef deep(c): pass", "deep_jobs.py")
        monkeypatch.chdir(tmp_path)

        assert list(load_handlers(["pkg_of_test.deep_jobs"])) == ["deep"]

    def test_handlers_of_imported_modules_count(self, tmp_path: Path) -> None:
        write(tmp_path, "@job\ndef beside(c): pass", "more_jobs_of_test.py")
        source = write(tmp_path, "import more_jobs_of_test\n@job\ndef here(c): pass")

        assert sorted(load_handlers([source])) == ["beside", "here"]

    def test_folder_of_the_last_file_goes_first(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
        sources = [
            write(tmp_path / name, f"@job\ndef {name}(c): ...", f"{name}_of_test.py")
            for name in ("one", "two")
        ]

        load_handlers(sources)

        assert sys.path[:2] == [str(tmp_path / "two"), str(tmp_path / "one")]

    def test_file_named_like_a_loaded_module_is_loaded_all_the_same(self, tmp_path: Path) -> None:
        source = write(tmp_path, "@job\ndef mine(c): pass", "json.py")
        import json  # noqa: PLC0415 - it must be loaded before

        assert list(load_handlers([source])) == ["mine"]
        assert sys.modules["json"] is json

    def test_file_whose_name_is_no_identifier_is_loaded(self, tmp_path: Path) -> None:
        assert list(load_handlers([write(tmp_path, "@job\ndef f(c): pass", "my-jobs.py")])) == ["f"]

    def test_same_name_in_two_files_is_refused(self, tmp_path: Path) -> None:
        sources = [write(tmp_path, "@job('x')\ndef f(c): pass", f"{n}_of_test.py") for n in "ab"]

        with pytest.raises(HandlersError) as caught:
            load_handlers(sources)

        assert f"two handlers are named 'x': {sources[0]}:2 and {sources[1]}:2" in caught.value.line

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ("/nowhere/jobs.py", "FileNotFoundError: no such file: /nowhere/jobs.py"),
            ("no.such.module", "ModuleNotFoundError: No module named 'no'"),
            ("/tmp/", "FileNotFoundError: no such file"),
        ],
    )
    def test_source_that_is_not_there_is_named(self, source: str, words: str) -> None:
        with pytest.raises(HandlersError) as caught:
            load_handlers([source])

        assert caught.value.line.startswith(f"cannot load handlers from {source!r}: {words}")

    def test_error_carries_the_users_traceback_and_one_line(self, tmp_path: Path) -> None:
        source = write(tmp_path, "def inner():\n    raise KeyError('deep')\ninner()")

        with pytest.raises(HandlersError) as caught:
            load_handlers([source])

        assert caught.value.line.endswith("jobs_of_test.py': KeyError: 'deep'")
        assert "in inner" in caught.value.traceback
        assert "handlers.py" not in caught.value.traceback

    def test_refused_declaration_is_told_in_one_line_without_a_traceback(
        self, tmp_path: Path
    ) -> None:
        source = write(tmp_path, "@job('x', process='each')\ndef x(context): ...")

        with pytest.raises(HandlersError) as caught:
            load_handlers([source])

        assert "expected process of handler 'x' to be one of" in caught.value.line
        assert "jobs_of_test.py:" in caught.value.line
        assert caught.value.traceback == ""

    def test_ctrl_c_is_not_an_error_of_the_handlers(self, tmp_path: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            load_handlers([write(tmp_path, "raise KeyboardInterrupt")])


class TestSourcesWithoutHandlers:
    def test_a_file_that_declares_none_is_refused_by_name(self, tmp_path: Path) -> None:
        full, empty = write(tmp_path, "job('a')(lambda c: 0)"), write(tmp_path, "", "empty_one.py")

        with pytest.raises(HandlersError) as refused:
            load_handlers([full, empty])

        assert refused.value.line == f"{empty!r} declares no handler; declare one with @job"

    def test_a_module_that_declares_none_is_refused(self) -> None:
        with pytest.raises(HandlersError, match="'json' declares no handler"):
            load_handlers(["json"])

    @pytest.mark.parametrize("second", ["inner_jobs", "names_of_jobs"])
    def test_one_whose_handlers_another_source_has_imported_is_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str
    ) -> None:
        write(tmp_path, "@job\ndef other(context): ...", "inner_jobs.py")
        write(tmp_path, "from inner_jobs import other", "names_of_jobs.py")
        first = write(tmp_path, "import names_of_jobs", "outer_jobs.py")
        monkeypatch.chdir(tmp_path)

        assert set(load_handlers([first, second])) == {"other"}

    def test_a_package_whose_modules_another_source_has_imported_is_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = tmp_path / "pack_of_jobs"
        package.mkdir()
        (package / "__init__.py").write_text("")
        write(package, "@job\ndef other(context): ...", "mails.py")
        monkeypatch.chdir(tmp_path)

        assert set(load_handlers(["pack_of_jobs.mails", "pack_of_jobs"])) == {"other"}
