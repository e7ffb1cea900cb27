"""Free disk space, the reserve to keep of it, and opening files without hanging.

A job may have put something else where a file is expected; opening a FIFO would wait for another
process. Job processes import this module.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_regular(path: str | os.PathLike[str], flags: int, mode: int = 0o640) -> int:
    """Return a descriptor of a regular file, at once; links are not followed.

    It can be an `opener`.

    Raises:
        OSError: it cannot be opened, or something other than a regular file is there.

    """
    try:
        file = os.open(path, flags | _SAFELY, mode)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a FIFO that nobody reads
            raise _not_regular(path) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _not_regular(path)
    os.set_blocking(file, True)  # the programs that a job starts inherit this
    return file


def misplaced(path: str) -> str:
    """Return why a path cannot hold a regular file; empty if it does, or if nothing is there."""
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode  # noqa: PTH116 - text, for speed
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return "" if stat.S_ISREG(mode) else str(_not_regular(path).strerror)


def _not_regular(path: str | os.PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, "Not a regular file", os.fspath(path))


#: Defaults of `WARREN_LOG_RESERVE` and `WARREN_LOG_SPOOL`.
DEFAULT_RESERVE, DEFAULT_SPOOL = "64MB or 5%", "1GB"

#: A disk with room for fewer files than this is short, whatever space it has: each log is a file.
LEAST_FILES = 1_000

_UNITS = {"kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_SIZE = re.compile(r"(\d{1,6}) ?(kB|MB|GB)", re.ASCII)
_SHARE = re.compile(r"(\d{1,2}(?:\.\d{1,2})?) ?%", re.ASCII)


@dataclass(frozen=True, slots=True)
class Space:
    """The size of a file system and what processes may still use of it, in bytes.

    `free_files` is how many more files it can hold; None = as many as there is space for.
    """

    size: int
    free: int
    free_files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Space to keep free: bytes or a share of the disk's size, whichever is less."""

    size: int
    share: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Reserve":
        """Parse a reserve such as `64MB`, `5%` or `64MB or 5%`.

        Raises:
            ValueError: the text is invalid.

        """
        sizes, shares = [], []
        for part in text.split(" or "):
            if match := _SIZE.fullmatch(part.strip()):
                sizes.append(int(match[1]) * _UNITS[match[2]])
            elif match := _SHARE.fullmatch(part.strip()):
                shares.append(float(match[1]) / 100)
            else:
                raise ValueError(f"{part.strip()[:40]!r} is neither a size nor a percentage")
        return cls(size=min(sizes, default=2**62), share=min(shares, default=1.0))

    def of(self, space: Space) -> int:
        """Return how many bytes of this disk to keep free."""
        return min(self.size, int(space.size * self.share))

    def shortfall(self, space: Space) -> int:
        """Return how many bytes of the reserve are used; 0 if it is intact."""
        return max(0, self.of(space) - space.free)


class DiskWatch:
    """Watches whether one of an executor's disks is below its reserve, or can hold few more files.

    It counts as recovered only when a quarter more is free, so that the state does not flap.
    """

    def __init__(self, folders: Sequence[Path], reserve: Reserve) -> None:
        self._folders = [str(folder) for folder in folders]
        self._reserve = reserve
        self._is_short = False

    def is_short(self) -> bool:
        """Check the disks; folders that do not exist are skipped."""
        self._is_short = any(self._is_below_reserve(folder) for folder in self._folders)
        return self._is_short

    def _is_below_reserve(self, folder: str) -> bool:
        with contextlib.suppress(OSError):
            space = space_of(folder)
            wanted = [(space.free, self._reserve.of(space))]
            if space.free_files is not None:
                wanted.append((space.free_files, LEAST_FILES))
            return any(
                left < (least + least // 4 if self._is_short else least) for left, least in wanted
            )
        return False


def space_of(place: str | int) -> Space:
    """Return the space of the disk that holds a path or an open file.

    Raises:
        OSError: there is no such path, or the disk cannot be read.

    """
    stats = os.statvfs(place)
    return Space(
        size=stats.f_blocks * stats.f_frsize,
        free=stats.f_bavail * stats.f_frsize,
        free_files=stats.f_favail if stats.f_files else None,
    )


def stop_mark(reserve_bytes: int) -> bytes:
    """Return the mark at the end of a log that was stopped to keep the reserve."""
    return (
        f"\n… [the log stops here: the disk has less than {reserve_bytes:,} bytes free]\n".encode()
    )
