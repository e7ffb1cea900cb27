import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from warren.executor.errors import StateFolderInUse
from warren.executor.state_folder import StateFolder, free_folders


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
        "from warren.executor.errors import ExecutorError\n"
        "from warren.executor.state_folder import StateFolder\n"
        "try: StateFolder(pathlib.Path(sys.argv[1]), 'exec-1')\n"
        "except ExecutorError as error: print(error)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
    )

    assert done.stdout.count("\n") == 1
    assert "another process holds" in done.stdout
    folder.release()


def test_next_free_folder_is_taken_and_one_given_back_is_free_again(tmp_path: Path) -> None:
    first, second, third = (next(free_folders(tmp_path, "host-x")) for _ in range(3))
    second.release()

    again = next(free_folders(tmp_path, "host-x"))

    assert [each.address for each in (first, third, again)] == ["host-x", "host-x-3", "host-x-2"]
    assert again.path == tmp_path / "host-x-2"
    for folder in (first, third, again):
        folder.release()


def test_those_who_ask_at_once_get_different_folders(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from warren.executor.state_folder import free_folders\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "print(next(free_folders(pathlib.Path(sys.argv[1]), 'host-x')).address, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", code, tmp_path],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(6)
        ]
        assert [said(process) for process in processes] == ["ready"] * 6

        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()

        taken = {said(process) for process in processes}
        for process in processes:
            process.communicate(timeout=30)

    assert taken == {"host-x", *(f"host-x-{number}" for number in range(2, 7))}


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_other_addresses_share_the_state_folder(tmp_path: Path) -> None:
    first = StateFolder(tmp_path, "exec-1")
    second = StateFolder(tmp_path, "exec-2")

    assert first.path != second.path
    first.release()
    second.release()


def test_released_folder_can_be_held_again(tmp_path: Path) -> None:
    StateFolder(tmp_path, "exec-1").release()

    StateFolder(tmp_path, "exec-1").release()


def test_discarded_folder_keeps_nothing_that_takes_space_and_can_be_used_again(
    tmp_path: Path,
) -> None:
    folder = StateFolder(tmp_path, "exec-1")
    folder.journal_path.write_bytes(b"x")
    folder.journal_path.with_suffix(".tmp").write_bytes(b"x")
    (folder.notes_folder / "boot").mkdir(parents=True)
    folder.release()

    folder.discard()

    assert [path.name for path in folder.path.iterdir()] == ["lock"]
    StateFolder(tmp_path, "exec-1").release()


def test_folder_that_another_executor_holds_is_not_discarded(tmp_path: Path) -> None:
    old = StateFolder(tmp_path, "exec-1")
    old.release()
    new = StateFolder(tmp_path, "exec-1")
    new.journal_path.write_bytes(b"x")

    old.discard()

    assert new.journal_path.exists()
    new.release()
