"""A user's `scheduler`, `sql`, `broker`, `executor` and `admin_web` work beside Warren.

`tests/acceptance/test_packaging.py` tries the same, and more, with an installed wheel.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.own_modules import HANDLERS, PROGRAM, WORDS, write_files, write_packages
from tests.support.processes import basic_environment

ROOT = Path(__file__).parents[3]


def python(*arguments: str, folder: Path, path: Path = ROOT) -> str:
    """Return what Python prints in a folder, with another one first on its path."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=basic_environment() | {"HOME": str(folder), "PYTHONPATH": f"{path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_handlers_import_their_own_packages_from_the_current_folder(tmp_path: Path) -> None:
    write_packages(tmp_path)
    (tmp_path / "handlers.py").write_text(HANDLERS)

    said = python("-m", "warren", "try", "handlers.py", "words", folder=tmp_path)

    assert WORDS in said


def test_handlers_import_their_own_files_from_the_path(tmp_path: Path) -> None:
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers/mine.py").write_text(HANDLERS)
    path = write_files(tmp_path / "path")

    said = python("-m", "warren", "try", "handlers/mine.py", "words", folder=tmp_path, path=path)

    assert WORDS in said


@pytest.mark.parametrize("write", [write_packages, write_files])
def test_a_program_imports_its_own_modules_and_the_client(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    assert python("-c", PROGRAM, folder=write(tmp_path)) == f"{WORDS}\n"
    assert python("-c", PROGRAM, folder=ROOT / "docs", path=tmp_path) == f"{WORDS}\n"
