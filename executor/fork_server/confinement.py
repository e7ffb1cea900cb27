"""Confines job processes: the user they run as, their limits, and what they may see.

The zygote becomes that user before it imports a handler. Handlers, scripts and everything they
start then belong to that user, and the kernel keeps them away from the executor's files and
processes. Only logs are written by both: the executor owns each day's folder, the user's group may
write to it.

The kernel also enforces resource limits on each job process and each process it starts.

The executor's settings stay secret. The zygote is a new program, which inherits no memory and no
descriptor but its control socket. That leaves the environment, which it would inherit, and /proc,
where processes of one user can read each other's environment and memory; both are closed here.

Job processes import this module.
"""

import contextlib
import math
import os
import pwd
import re
import resource
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self

from warren.executor.errors import UserUnusable
from warren.executor.fork_server import linux

#: The settings. Job processes get WARREN_RUN_ID and the like later.
_PREFIX = "WARREN_"
#: Where systemd puts our credential files, and the socket by which we notify it.
_OF_SYSTEMD = frozenset({"CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})


def keep_settings_secret() -> None:
    """Hide this process from its user's other processes; remove the settings from the environment.

    Read settings from the environment before this. It affects the whole process, so several
    executors of one process may all call it.
    """
    linux.hide_from_others()
    linux.wipe_variables([n for n in os.environ if n.startswith(_PREFIX) or n in _OF_SYSTEMD])


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_ITEM = re.compile(r"([a-z_]+)=([0-9]{1,12})([KMG]?)", re.ASCII)
#: Below these a Python program does not start, or cannot report what went wrong.
_MINIMUMS = {"memory": 64 * 2**20, "cpu": 1, "file_size": 65_536, "open_files": 32, "processes": 1}
_RESOURCES = {
    "memory": resource.RLIMIT_AS,
    "file_size": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}
#: How much CPU time a script has from SIGXCPU to SIGKILL.
KILL_AFTER_SECONDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """Bytes of address space, CPU seconds per run, bytes per file, descriptors, processes.

    0 sets no limit. The kernel counts all processes of a user and never limits root.
    """

    memory: int = 0
    cpu: int = 0
    file_size: int = 0
    open_files: int = 0
    processes: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text like `memory=2G, cpu=600`; raises ValueError with what is wrong."""
        limits: dict[str, int] = {}
        for item in filter(None, map(str.strip, text.split(","))):
            name, amount = _parse_item(item)
            if name in limits:
                raise ValueError(f"{name} is set twice")
            limits[name] = amount
        return cls(**limits)

    def apply(self, *, to_script: bool = False) -> None:
        """Apply the limits to this process for good; a lower existing limit stays.

        A script, and each process that it starts, is killed if it computes on after SIGXCPU. A
        handler's process may need the time for another run, so only SIGXCPU ends it.
        """
        for name, number in _RESOURCES.items():
            if wanted := getattr(self, name):
                least = _lesser(wanted, resource.getrlimit(number)[1])
                resource.setrlimit(number, (least, least))
        self.renew()
        if to_script and self.cpu:
            soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
            hard = _lesser(soft + KILL_AFTER_SECONDS, hard)
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))

    def renew(self) -> None:
        """Grant this process the CPU time of another run."""
        if self.cpu:
            used = resource.getrusage(resource.RUSAGE_SELF)
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            soft = _lesser(math.ceil(used.ru_utime + used.ru_stime) + self.cpu, hard)
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _parse_item(item: str) -> tuple[str, int]:
    match = _ITEM.fullmatch(item)
    known = [each.name for each in fields(JobLimits)]
    if not match or match[1] not in known:
        raise ValueError(f"cannot read {item[:100]!r}; the limits are {', '.join(known)}")
    name, amount = match[1], int(match[2]) * _UNITS[match[3]]
    if amount < _MINIMUMS[name]:
        raise ValueError(f"{name} is at least {_MINIMUMS[name]}")
    return name, amount


def _lesser(wanted: int, hard: int) -> int:
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


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
        """Create the folder of a log, where only the user can create files."""
        if self.user is None:
            return
        folder = Path(log_path).parent
        with contextlib.suppress(OSError):  # a failure shows up in the run's message
            if not folder.exists():
                from tempfile import mkdtemp  # noqa: PLC0415 - it makes each fork dearer, and job processes need it not

                fresh = Path(mkdtemp(prefix=".", dir=folder.parent))
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
