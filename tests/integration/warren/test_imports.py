"""What users and executors import needs nothing that the extra `server` installs."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.processes import basic_environment
from warren.error_output import SERVER_LIBRARIES

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter has after a statement, besides those it had."""
    code = (
        f"import sys, typing; had = set(sys.modules); {statement}; print(*{{*sys.modules}} - had)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=basic_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def others(modules: set[str]) -> set[str]:
    """Return the libraries among modules that are neither Python's nor ours."""
    names = {module.partition(".")[0] for module in modules}
    return {
        name for name in names - {"warren"} - sys.stdlib_module_names if not name.startswith("_")
    }


def normal(requirement: str) -> str:
    return re.split(r"[\[<>=!~ ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def test_import_of_warren_loads_nothing_besides() -> None:
    assert loaded_by("import warren") == {"warren"}


def test_handlers_load_no_library_by_what_they_import_from_warren() -> None:
    loaded = loaded_by("from warren import JobContext, JobStopped, job")

    assert "warren.executor.handlers.handler_registry" in loaded
    assert others(loaded) == set()


@pytest.mark.parametrize(
    "modules",
    [
        "warren.command_line.executor, warren.broker.rabbitmq.transport",
        "warren.command_line.try_",
        "warren.command_line.check",
        "warren.command_line.secrets",
        "warren.error_output",
    ],
)
def test_executor_side_loads_no_library_of_the_server(modules: str) -> None:
    loaded = others(loaded_by(f"import {modules}"))

    base = {normal(requirement) for requirement in PROJECT["dependencies"]}
    may_be_there = base | {"greenlet", "typing_extensions"}  # structlog looks for both
    assert "click" in loaded
    assert loaded - may_be_there == set()


def test_a_stack_for_tests_loads_nothing_of_the_console() -> None:
    loaded = loaded_by("import warren.wiring.stack")

    pages = ("warren.admin_web.app", "warren.admin_web.pages", "warren.wiring.console")
    assert "warren.admin_web.api.application" in loaded
    assert [name for name in sorted(loaded) if name.startswith(pages)] == []


def test_every_library_of_the_server_is_known_by_its_module() -> None:
    distributions = {normal(one) for one in PROJECT["optional-dependencies"]["server"]}

    modules = {
        module
        for module, names in packages_distributions().items()
        if distributions & {normal(name) for name in names} and not module.startswith("_")
    }

    assert modules == SERVER_LIBRARIES


def test_no_version_of_a_library_is_prescribed() -> None:
    extras = PROJECT["optional-dependencies"].values()
    requirements = [*PROJECT["dependencies"], *(one for extra in extras for one in extra)]

    assert all(">=" in one for one in requirements)
    assert not [one for one in requirements if "==" in one]
