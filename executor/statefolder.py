"""The folder in which one executor keeps what must survive it, held by one process at a time."""

import fcntl
import os
from pathlib import Path

from executor.errors import StateFolderInUse


class StateFolder:
    """`<state dir>/<address>/` under a file lock that ends with the process.

    Raises:
        StateFolderInUse: another process, or another executor of this one, holds it.

    """

    def __init__(self, state_dir: Path, address: str) -> None:
        self.path = state_dir / address
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise StateFolderInUse(
                f"cannot start executor {address}: another process holds {self.path}"
            ) from error

    @property
    def journal_path(self) -> Path:
        """Where the journal is."""
        return self.path / "journal"

    @property
    def script_folder(self) -> Path:
        """Where the sources of scripts are while they run."""
        return self.path / "gluesource"

    def release(self) -> None:
        """Let another process have the folder."""
        os.close(self._lock)
