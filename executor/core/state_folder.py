"""The folder for everything that must survive an executor, locked by one process at a time."""

import fcntl
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from warren.executor.errors import StateFolderInUse


class StateFolder:
    """`<state dir>/<address>/` under a file lock that is released when the process ends.

    Raises:
        StateFolderInUse: another process, or another executor of this process, holds it.

    """

    def __init__(self, state_dir: Path, address: str) -> None:
        self.address = address
        self.path = state_dir / address
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = self._take_lock()

    @property
    def journal_path(self) -> Path:
        """The path of the journal, a file in this folder."""
        return self.path / "journal"

    @property
    def script_folder(self) -> Path:
        """The folder of the sources of running scripts."""
        return self.path / "gluesource"

    @property
    def notes_folder(self) -> Path:
        """The folder of the begin notes of job processes, a folder for each boot."""
        return self.path / "begun"

    def release(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def discard(self) -> None:
        """Delete what the executor left; the folder was released, and nothing is left to report.

        The folder itself stays with its lock. Nothing is done if it is held again.

        Raises:
            OSError: a file cannot be deleted.

        """
        try:
            lock = self._take_lock()
        except StateFolderInUse:
            return
        try:
            for path in self.path.glob(f"{self.journal_path.name}*"):
                path.unlink()
            for folder in (self.script_folder, self.notes_folder):
                if folder.exists():
                    shutil.rmtree(folder)
        finally:
            os.close(lock)

    def _take_lock(self) -> int:
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise StateFolderInUse(
                f"cannot start executor {self.address}: another process holds {self.path}"
            ) from error
        return lock


def free_folders(state_dir: Path, address: str) -> Iterator[StateFolder]:
    """Lock and yield the free folders among `address`, `address-2`, `address-3` and so on.

    Two callers at the same time get different folders, because the lock itself decides.
    """
    for number in itertools.count(1):
        try:
            yield StateFolder(state_dir, address if number == 1 else f"{address}-{number}")
        except StateFolderInUse:
            continue
