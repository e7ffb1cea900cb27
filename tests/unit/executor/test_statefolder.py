import subprocess
import sys
from pathlib import Path

import pytest

from executor.errors import StateFolderInUse
from executor.statefolder import StateFolder


def test_folder_is_made_and_is_the_owners_only(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state", "exec-1")

    assert folder.journal_path.parent == tmp_path / "state" / "exec-1"
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.release()


def test_second_executor_of_one_process_is_turned_away(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, "exec-1")

    with pytest.raises(StateFolderInUse, match="cannot start executor exec-1: another process"):
        StateFolder(tmp_path, "exec-1")

    folder.release()


def test_second_process_is_turned_away_in_one_line(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, "exec-1")
    code = (
        "import sys, pathlib\n"
        "from executor.errors import ExecutorError\n"
        "from executor.statefolder import StateFolder\n"
        "try: StateFolder(pathlib.Path(sys.argv[1]), 'exec-1')\n"
        "except ExecutorError as error: print(error)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
    )

    assert done.stdout.count("\n") == 1
    assert "another process holds" in done.stdout
    folder.release()


def test_other_addresses_share_the_state_folder(tmp_path: Path) -> None:
    first = StateFolder(tmp_path, "exec-1")
    second = StateFolder(tmp_path, "exec-2")

    assert first.path != second.path
    first.release()
    second.release()


def test_released_folder_can_be_held_again(tmp_path: Path) -> None:
    StateFolder(tmp_path, "exec-1").release()

    StateFolder(tmp_path, "exec-1").release()
