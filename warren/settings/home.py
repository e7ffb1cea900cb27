"""The folder `./.warren`, where `warren up` keeps everything.

A lock file lets one process at a time use it; the lock is released when the process ends.
"""

import fcntl
import os
import secrets
import shutil
from pathlib import Path
from typing import Self

from warren.errors import CommandError
from warren.settings.settings import DATABASE_FILE, HOME, Settings, needed_secret
from warren.sql.dialects.url_forms import form_of


class FileLock:
    """A lock on a file, held until `release`.

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
        os.close(self._file)


def lock_embedded_database(url: str) -> FileLock | None:
    """Lock an embedded database for one scheduler; return None if several can share the database.

    Raises:
        CommandError: another scheduler uses it.

    """
    form = form_of(url)
    if form is None or not form.is_embedded:
        return None
    path = Path(url.removeprefix(form.start).partition("?")[0])
    words = f"another scheduler is using {path}; an SQLite database serves one at a time"
    return FileLock(path.with_name(path.name + ".lock"), words)


LOG_FILE = HOME / "warren.log"
_SECRET_FILE = HOME / "secret"
_SECRET_BYTES = 32


class OpenHome:
    """The folder, for its owner only, locked within the block.

    If the block has made it and ends before `keep`, a refused first start, it is deleted again.

    Raises:
        CommandError: another `warren up` uses it.

    """

    def __init__(self) -> None:
        self.is_kept = HOME.exists()
        HOME.mkdir(mode=0o700, exist_ok=True)
        self._lock = FileLock(
            HOME / "lock",
            f"another `warren up` is using {HOME.absolute()}; stop it, or use another folder",
        )

    def keep(self) -> None:
        """Keep the folder from now on: what is in it is worth something."""
        self.is_kept = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        if not self.is_kept:
            shutil.rmtree(HOME, ignore_errors=True)
        self._lock.release()


def home_database_url() -> str:
    """Return the URL of the folder's database."""
    return f"sqlite:///{DATABASE_FILE.absolute()}"


def home_secret(settings: Settings) -> str:
    """Return the secret of the settings, else the folder's own, created on first use."""
    if settings.secret is not None:
        return settings.secret
    if not _SECRET_FILE.exists():
        _write_secret(_SECRET_FILE)
    return _SECRET_FILE.read_text(encoding="ascii").strip()


def known_secret(settings: Settings) -> str:
    """Return the secret of the settings, else that of `warren up` in this folder.

    If the settings name a database, only they can have its secret.

    Raises:
        SettingsError: there is neither.

    """
    if settings.secret is None and settings.database_url is None and _SECRET_FILE.exists():
        return home_secret(settings)
    return needed_secret(settings)


def _write_secret(path: Path) -> None:
    # Written under another name and renamed, so that it is never incomplete.
    unfinished = path.with_suffix(".new")
    unfinished.touch(mode=0o600)
    unfinished.chmod(0o600)
    unfinished.write_text(secrets.token_urlsafe(_SECRET_BYTES), encoding="ascii")
    unfinished.replace(path)
