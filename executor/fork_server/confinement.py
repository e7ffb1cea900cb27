"""The user that runs users' code, and the limits it runs under.

The zygote becomes that user before it imports a handler. Handlers, scripts and everything they
start then belong to that user, and the kernel keeps them away from the executor's files and
processes. Only logs are written by both: the executor owns each day's folder, the user's group may
write to it.
"""

import contextlib
import os
import pwd
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from warren.executor.errors import UserUnusable
from warren.executor.fork_server.job_limits import JobLimits

_ROOT = 0
_PASSABLE = 0o711


@dataclass(frozen=True, slots=True)
class JobUser:
    """A user that jobs run as."""

    name: str
    uid: int
    gid: int
    home: str

    @classmethod
    def find(cls, name: str) -> "JobUser":
        """Return the user of this name, if this process may run jobs as it.

        Raises:
            UserUnusable: there is no such user, or this process may not become that user.

        """
        try:
            row = pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise UserUnusable(f"there is no user {name!r} on this machine") from None
        if row.pw_uid == _ROOT:
            raise UserUnusable(f"{name!r} is root, which can read everything")
        if os.geteuid() != _ROOT:
            raise UserUnusable(f"only an executor that root starts can run jobs as {name!r}")
        return cls(row.pw_name, row.pw_uid, row.pw_gid, row.pw_dir)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The user of all job processes (None: the executor's own) and their limits.

    The executor owns both folders; the user writes to the log folder and reads the scripts.
    """

    user: JobUser | None = None
    limits: JobLimits = field(default_factory=JobLimits)
    log_folder: Path | None = None
    script_folder: Path | None = None

    # -- in the executor ----------------------------------------------------------------------

    def prepare_folders(self) -> None:
        """Create both folders so that the user can enter, but not list them.

        Scripts are in the state folder, whose other files only their owner can read.
        """
        if self.user is None:
            return
        if self.script_folder:
            _make_passable(self.script_folder)
            self.script_folder.parent.chmod(_PASSABLE)
        if self.log_folder and not self.log_folder.exists():
            _make_passable(self.log_folder)

    def prepare_log_folder(self, log_path: str) -> None:
        """Create the folder of a log, where the user and nobody else can create files."""
        if self.user is None:
            return
        folder = Path(log_path).parent
        with contextlib.suppress(OSError):  # a failure shows up in the run's message
            if not folder.exists():
                fresh = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
                _share_with(fresh, self.user)
                _rename(fresh, folder)
            elif folder.stat().st_gid == os.getegid():
                _share_with(folder, self.user)  # it dates from before a job user was set

    def allow_read(self, path: Path) -> None:
        """Let the user read a file."""
        if self.user is not None:
            os.chown(path, self.user.uid, -1)

    # -- in the zygote ------------------------------------------------------------------------

    def become_user(self) -> None:
        """Become the user. This clears the parent-death signal and makes the process dumpable.

        Raises:
            UserUnusable: that is not possible, or a folder is then out of reach.

        """
        user = self.user
        if user is None:
            return
        try:
            os.initgroups(user.name, user.gid)
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, user.uid)
        except OSError as error:
            raise UserUnusable(f"cannot become user {user.name}: {error.strerror}") from error
        os.environ.update(HOME=user.home, USER=user.name, LOGNAME=user.name)
        for folder in filter(None, (self.log_folder, self.script_folder)):
            _check_reachable(user, folder)


def _check_reachable(user: JobUser, folder: Path) -> None:
    for place in reversed((folder, *folder.parents)):
        if place.exists() and not os.access(place, os.X_OK):
            raise UserUnusable(f"user {user.name} cannot get to {folder}: chmod o+x {place}")


def _make_passable(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(_PASSABLE)


def _share_with(folder: Path, user: JobUser) -> None:
    os.chown(folder, -1, user.gid)
    folder.chmod(0o770)


def _rename(fresh: Path, folder: Path) -> None:
    try:
        fresh.rename(folder)
    except OSError:
        fresh.rmdir()  # another executor was faster and has put a log in it already
