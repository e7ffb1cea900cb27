"""The plugin for pytest: the session's fixture `warren_stack`.

    # pyproject.toml
    [tool.pytest.ini_options]
    warren_handlers = ["acme_jobs.handlers"]
    warren_jobs = ["jobs.yaml"]
    warren_values = ["BUCKET=tests"]    # of ${BUCKET} in them

    def test_the_load_ends(warren_stack):
        run = warren_stack.trigger("load", "2026-12-01").wait()
        assert run.message == "3 rows"

pytest imports this in every session, so it imports nothing of ours by itself.
"""

import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings."""
    handlers = "Modules or .py files with the handlers that warren_stack runs."
    parser.addini("warren_handlers", handlers, type="args", default=[])
    parser.addini("warren_jobs", "The job files of warren_stack.", type="paths", default=[])
    values = "The values of ${NAME} in these files, as NAME=VALUE."
    parser.addini("warren_values", values, type="linelist", default=[])


@pytest.fixture(scope="session")
def warren_stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Run a scheduler, executors and the API in this process, until the session ends.

    It is a `warren.wiring.stack.Stack`.
    """
    root = request.config.rootpath
    sources = [_resolved(name, root) for name in request.config.getini("warren_handlers")]
    files = request.config.getini("warren_jobs")
    values = request.config.getini("warren_values")
    with ExitStack() as held:
        with _garbage_kept():
            folder = tmp_path_factory.mktemp("warren")
            stack = _stack_type()(folder, handlers=sources, jobs=files, values=values)
            _enter(held, stack)
        yield stack


def _enter(held: ExitStack, stack: Any) -> None:
    """Start a stack; faults that the project can fix are reported without our own frames."""
    from warren.error_output import report_of  # noqa: PLC0415 - see the module's docstring
    from warren.errors import WarrenError  # noqa: PLC0415 - as above
    from warren.executor.handlers.handler_registry import HandlersError  # noqa: PLC0415 - as above
    from warren.scheduler.problems import Refused  # noqa: PLC0415 - as above

    try:
        held.enter_context(stack)
    except (WarrenError, HandlersError, Refused) as error:
        report = report_of(error)
        lines = filter(None, ["warren_stack cannot start:", *report.lines, report.preface])
        pytest.fail("\n".join(lines), pytrace=False)


def _stack_type() -> Any:
    try:
        from warren.wiring.stack import Stack  # noqa: PLC0415 - see the module's docstring
    except ModuleNotFoundError as error:
        pytest.fail(f"warren_stack needs warren[server]: {error}", pytrace=False)
    return Stack


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Suspend garbage collection: a start leaves little, and the search is a fifth of it."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()


def _resolved(source: str, root: Path) -> str:
    return str(root / source) if source.endswith(".py") else source
