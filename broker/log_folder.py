"""A log store in a shared folder, as executors write to it.

A file is first written under another name, so that nobody reads an incomplete one. It begins in the
app's folder, whose group it takes: the system lets no executor pass that group on to folders if its
user is not a member. A file system that is not mounted leaves an empty folder without Warren's
mark; nothing is written there.
"""

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

#: The name of the file that says that a folder is a log store.
MARK = "warren-log-store"
#: The rights of folders and files there: the group reads logs, and deletes them.
_FOLDER_MODE, _FILE_MODE = 0o2770, 0o640


def shared_folder(place: str) -> Path | None:
    """Return the folder that a setting names as a log store; None if it names a bucket of S3."""
    parts = urlsplit(place)
    if parts.scheme == "s3":
        return None
    return Path(unquote(parts.path) if parts.scheme == "file" else place).absolute()


def is_store(folder: Path) -> bool:
    """Whether a folder is a log store, and is there."""
    return (folder / MARK).is_file()


def write_log(folder: Path, app: str, key: str, write: Callable[[BinaryIO], object]) -> None:
    """Store a log of an app under its key, as `write` writes it.

    Raises:
        OSError: it cannot be stored.
        ValueError: this is no key of a log of the app.

    """
    parts = key.split("/")
    if parts[0] != app or not all(part and not part.startswith(".") for part in parts):
        raise ValueError(f"expected the key of a log of {app}, got: {key[:200]!r}")
    if not is_store(folder):
        raise FileNotFoundError(f"{folder} is away, or no log store: it has no {MARK}")
    path = folder.joinpath(*parts)
    for parent in (folder / app, path.parent):
        with contextlib.suppress(FileExistsError):
            parent.mkdir()
            with contextlib.suppress(OSError):
                parent.chmod(_FOLDER_MODE)
    new = folder / app / f".{path.name}.{secrets.token_hex(4)}"
    try:
        opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
        with os.fdopen(opened, "wb") as file:
            with contextlib.suppress(OSError):
                os.fchmod(opened, _FILE_MODE)  # whatever the umask is
            write(file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
