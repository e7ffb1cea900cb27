"""Opens files where a job may have put something else. Job processes import this module.

Opening a FIFO would wait for another process, and whoever waits with it would hang.
"""

import errno
import os
import stat

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
    """Return what is wrong with what is at a path; empty if it is a regular file or nothing."""
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode  # noqa: PTH116 - text, for speed
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return "" if stat.S_ISREG(mode) else str(_not_regular(path).strerror)


def _not_regular(path: str | os.PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, "Not a regular file", os.fspath(path))
