"""The code of 0.1.0, taken from the repository's history to run beside today's.

`python -m tests.support.first_release` writes `tests/data/v0_1_0` again, by that code.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.processes import basic_environment

#: Runs the code of 0.1.0 in the environment of the tests, which has all that it imports.
PYTHON = Path(sys.executable)
COMMIT = "b4665f5668c7f7f70cc2d3343bde137b88f8df12"
DATA = Path(__file__).parents[1] / "data/v0_1_0"
_ROOT = Path(__file__).parents[2]
_SAMPLES = Path(__file__).with_name("samples_of_0_1_0.py")


def extract(folder: Path, *, must: bool = False) -> Path:
    """Put the code of 0.1.0 into a folder, to be imported from there, and return that.

    Without the commit, as in a shallow clone, the test is skipped, or fails in CI if it `must` run.
    """
    folder.mkdir(parents=True)
    with tempfile.TemporaryFile() as archive:
        git = ("git", "-C", str(_ROOT), "archive", "--format=tar", COMMIT)
        done = subprocess.run(git, stdout=archive, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            reason = f"the code of 0.1.0 is not here: git fetch --unshallow ({done.stderr.strip()})"
            if must and os.environ.get("CI") == "true":
                pytest.fail(reason)
            pytest.skip(reason)
        archive.seek(0)
        subprocess.run(("tar", "--extract", "--directory", str(folder)), stdin=archive, check=True)
    return folder


def environment(code: Path) -> dict[str, str]:
    """Return the variables with which a Python imports this code as `warren`."""
    return {"PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"}


def run(
    code: Path, *arguments: str, folder: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run `warren ARGUMENTS` by this code, and return its status and both outputs."""
    return subprocess.run(
        (str(PYTHON), "-m", "warren", *arguments),
        cwd=folder,
        env=basic_environment() | {"HOME": str(folder)} | dict(env) | environment(code),
        capture_output=True,
        text=True,
        timeout=120.0,
        check=False,
    )


def write_samples(code: Path, folder: Path) -> None:
    """Have 0.1.0's code write its messages, and an executor's state, into a folder."""
    subprocess.run(
        (str(PYTHON), str(_SAMPLES), str(folder)),
        env=basic_environment() | environment(code),
        cwd=code,
        capture_output=True,
        check=True,
    )


def _write_again() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        code = extract(Path(scratch) / "code")
        (written := Path(scratch) / "written").mkdir()
        write_samples(code, written)
        shutil.rmtree(DATA, ignore_errors=True)
        shutil.copytree(written, DATA)  # without the space that a journal allocates ahead


if __name__ == "__main__":
    _write_again()
