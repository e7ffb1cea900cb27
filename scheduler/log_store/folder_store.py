"""A log store in a folder that executors, schedulers and consoles share.

Each app has a folder of its own there, whose rights say who may write. A file says that the folder
is a log store: without it, as when a file system is not mounted, nothing is written.

An executor may put anything into its app's folder. So no link there is followed: it might lead to
the logs of another app.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from warren.broker.log_folder import MARK, is_store
from warren.scheduler.log_store.store import FOLDER, StoreUnavailable

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MARK_TEXT = "Logs of Warren's runs, a folder for each app. Executors write only where this is.\n"


class FolderStore:
    """The stored logs in a folder."""

    kind = FOLDER

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    def prepare(self) -> None:
        """Make the folder, and mark it as a log store unless it has something else in it.

        Raises:
            StoreUnavailable: it cannot be made, or is used for something else.

        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if self._is_new():
                (self.folder / MARK).write_text(_MARK_TEXT)
        except OSError as error:
            raise _unavailable(error) from error

    def address(self, key: str, size: int) -> str:  # noqa: ARG002 - executors write it themselves
        return ""

    def size(self, key: str) -> int | None:
        try:
            with self._opened(key) as file:
                return os.fstat(file).st_size
        except FileNotFoundError:
            self._must_be_there()
            return None
        except OSError as error:
            raise _unavailable(error) from error

    def fetch(self, key: str, offset: int, length: int) -> bytes:
        try:
            with self._opened(key) as file:
                return os.pread(file, length, offset)
        except FileNotFoundError:
            self._must_be_there()
            return b""
        except OSError as error:
            raise _unavailable(error) from error

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        self._must_be_there()
        faults: dict[str, str] = {}
        for key in keys:
            try:
                with self._folder_of(key) as (folder, name):
                    os.unlink(name, dir_fd=folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                faults[key] = _words(error)
        for day in {key.rpartition("/")[0] for key in keys}:
            with contextlib.suppress(OSError), self._folder_of(day) as (folder, name):
                os.rmdir(name, dir_fd=folder)  # unless it is not empty
        return faults

    def check(self) -> str:
        probe = self.folder / f".probe-{secrets.token_hex(4)}"
        try:
            if not self.folder.exists() or self._is_new():
                return (
                    f"{self.folder} is empty or absent: a scheduler will use it, unless a file "
                    "system has to be mounted there first"
                )
            probe.write_bytes(b"probe")
            text = probe.read_bytes()
            probe.unlink()
        except OSError as error:
            raise _unavailable(error) from error
        if text != b"probe":
            raise StoreUnavailable(f"{self.folder} does not keep what is written to it")
        return f"{self.folder} can be written, read and deleted from"

    def _is_new(self) -> bool:
        """Whether the folder is empty, or else raise StoreUnavailable unless it is a log store."""
        if is_store(self.folder):
            return False
        if any(self.folder.iterdir()):
            raise StoreUnavailable(
                f"{self.folder} has files, but no {MARK}: it is no log store; choose an empty "
                "folder"
            )
        return True

    def _must_be_there(self) -> None:
        """Raise StoreUnavailable if the folder is away, so that its files only seem to be gone."""
        if not is_store(self.folder):
            raise StoreUnavailable(f"{self.folder} is away, or no log store: it has no {MARK}")

    @contextlib.contextmanager
    def _folder_of(self, key: str) -> Iterator[tuple[int, str]]:
        """Open the folder of a key; yield it with the name there."""
        *parents, name = key.split("/")
        with contextlib.ExitStack() as opened:
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, folder)
            for parent in parents:
                folder = os.open(parent, _FOLDER, dir_fd=folder)
                opened.callback(os.close, folder)
            yield folder, name

    @contextlib.contextmanager
    def _opened(self, key: str) -> Iterator[int]:
        with self._folder_of(key) as (folder, name):
            file = os.open(name, _FILE, dir_fd=folder)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise OSError(f"{self.folder}/{key} is no regular file")
                yield file
            finally:
                os.close(file)


def _unavailable(error: OSError) -> StoreUnavailable:
    return StoreUnavailable(_words(error))


def _words(error: OSError) -> str:
    place = f"{os.fspath(error.filename)}: " if error.filename else ""
    return f"{place}{error.strerror or error}"
