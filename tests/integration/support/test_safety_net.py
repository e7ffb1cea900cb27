"""The last check of a test session: nothing that the tests started still lives."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.processes import alive

ROOT = Path(__file__).parents[3]

LEAVES = """
import subprocess

def test_passes():
    # In a session of its own and without a parent, as a daemon is.
    command = "setsid sleep 300 >/dev/null 2>&1 & echo $!"
    pid = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout
    open("pid", "w").write(pid)
    while open(f"/proc/{pid.strip()}/comm").read() != "sleep\\n":
        pass  # it is still the shell, or setsid
"""

CLEAN = """
import subprocess

def test_passes():
    subprocess.run(["true"], check=True)
"""


def run_session(folder: Path, source: str) -> "subprocess.CompletedProcess[str]":
    """Run one made-up test file under the conftest of this project."""
    (folder / "test_made_up.py").write_text(source)
    shutil.copy(ROOT / "tests" / "conftest.py", folder / "conftest.py")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-o", f"pythonpath={ROOT}", "--rootdir", str(folder), "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_session_that_leaves_a_process_fails_names_it_and_ends_it(tmp_path: Path) -> None:
    done = run_session(tmp_path, LEAVES)

    pid = int((tmp_path / "pid").read_text())
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert f"a test left a process behind: {pid} sleep" in done.stdout
    eventually(lambda: not alive(pid))


def test_session_that_leaves_nothing_passes(tmp_path: Path) -> None:
    done = run_session(tmp_path, CLEAN)

    assert done.returncode == pytest.ExitCode.OK
    assert "left a process behind" not in done.stdout
