"""An executor's state folder: all that must survive it, locked by one process at a time.

Its signs of life are a small file there, for health checks on its host: an executor has no database
that could tell. The core's thread touches it about once a second, so it grows old if that thread
stops or hangs.
"""

import fcntl
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from warren.broker.reasons import Reason
from warren.executor.errors import StateFolderInUse
from warren.executor.messaging.outbox import Identity

SIGNS_NAME = "alive"
#: How often a sign is given; the core's rounds may come more often.
BEAT_SECONDS = 0.9
#: After this long without a sign, an executor counts as stopped or hanging.
STALE_SECONDS = 10.0


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
        return self.path / "journal"

    @property
    def epoch_path(self) -> Path:
        """The file of the newest epoch of the database."""
        return self.path / "epoch"

    @property
    def script_folder(self) -> Path:
        """The folder of the sources of running scripts."""
        return self.path / "gluesource"

    @property
    def notes_folder(self) -> Path:
        """The folder of the begin notes of job processes, a folder for each boot."""
        return self.path / "begun"

    def release(self) -> None:
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


class Signs(msgspec.Struct, frozen=True, kw_only=True):
    """What an executor says about itself; `born` are clock ticks since the host's boot."""

    address: str
    boot_id: str
    pid: int
    born: int
    was_welcomed: bool
    is_draining: bool
    #: Why it cannot start runs now; empty if it can.
    obstacle: str


class LifeSigns:
    """Writes the file and calls `on_beat`. Used from the core's thread."""

    def __init__(self, folder: Path, identity: Identity, on_beat: Callable[[], None]) -> None:
        self._path = folder / SIGNS_NAME
        self._identity = identity
        self._on_beat = on_beat
        self._born = _born(os.getpid())
        self._written: Signs | None = None
        self._beat_at = float("-inf")

    def beat(self, *, was_welcomed: bool, is_draining: bool, obstacle: Reason | None) -> None:
        """Give a sign, unless the last one is still young and says the same."""
        signs = Signs(
            address=self._identity.address,
            boot_id=self._identity.boot_id,
            pid=os.getpid(),
            born=self._born,
            was_welcomed=was_welcomed,
            is_draining=is_draining,
            obstacle=str(obstacle or ""),
        )
        now = time.monotonic()
        if signs == self._written and now - self._beat_at < BEAT_SECONDS:
            return
        self._beat_at = now
        self._on_beat()
        with suppress(OSError):  # heartbeats report a full disk; the file then grows old
            self._write(signs)

    def end(self) -> None:
        """Delete the file: the executor has ended."""
        with suppress(OSError):
            self._path.unlink()

    def _write(self, signs: Signs) -> None:
        if signs == self._written:
            os.utime(self._path)
            return
        self._written = None
        new = self._path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(signs))
        new.replace(self._path)
        self._written = signs


def running(state_dir: Path) -> Iterator[tuple[Signs, float]]:
    """Yield what each running executor of a state folder said, and how many seconds ago.

    Raises:
        OSError: a file cannot be read.

    """
    for path in sorted(state_dir.glob(f"*/{SIGNS_NAME}")):
        try:
            signs = msgspec.json.decode(path.read_bytes(), type=Signs)
            age_seconds = time.time() - path.stat().st_mtime
        except (FileNotFoundError, msgspec.MsgspecError):
            continue  # it has just ended, or this is not such a file
        if _born(signs.pid) == signs.born:
            yield signs, age_seconds


def _born(pid: int) -> int:
    """Return when a process began, as a later one may have the same id; -1 = it is gone.

    A zombie is gone.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if state in "ZX" else int(fields[18])
