"""A lock file that one process holds at a time; it is released when the process ends."""

import fcntl
import os
from pathlib import Path

from warren.errors import CommandError


class FileLock:
    """Held from the start to `release`.

    Raises:
        CommandError: another process holds it, with `words`.
        OSError: the file cannot be made.

    """

    def __init__(self, path: Path, words: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._file)
            raise CommandError(words) from error

    def release(self) -> None:
        """Let another process have it."""
        os.close(self._file)


def lock_embedded_database(url: str) -> FileLock | None:
    """Hold an SQLite database for one scheduler; None for a database that many may share.

    Raises:
        CommandError: another scheduler works on it.

    """
    if not url.startswith("sqlite:///"):
        return None
    path = Path(url.removeprefix("sqlite:///").partition("?")[0])
    words = f"another scheduler is using {path}; an SQLite database serves one at a time"
    return FileLock(path.with_name(path.name + ".lock"), words)
