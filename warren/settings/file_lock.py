"""A lock file held by one process at a time; released when the process ends."""

import fcntl
import os
from pathlib import Path

from warren.errors import CommandError
from warren.sql.dialects.url_forms import form_of


class FileLock:
    """A lock, held until `release`.

    Raises:
        CommandError: another process holds it; the message is `words`.
        OSError: the file cannot be created.

    """

    def __init__(self, path: Path, words: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._file)
            raise CommandError(words) from error

    def release(self) -> None:
        """Release the lock."""
        os.close(self._file)


def lock_embedded_database(url: str) -> FileLock | None:
    """Lock an embedded database for one scheduler; None if the database can be shared.

    Raises:
        CommandError: another scheduler uses it.

    """
    form = form_of(url)
    if form is None or not form.is_embedded:
        return None
    path = Path(url.removeprefix(form.start).partition("?")[0])
    words = f"another scheduler is using {path}; an SQLite database serves one at a time"
    return FileLock(path.with_name(path.name + ".lock"), words)
