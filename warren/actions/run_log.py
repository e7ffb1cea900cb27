"""`warren runs log`: the log file if it is on this machine, else the end stored with the run."""

import sys
import time
from pathlib import Path

from warren.executor.disk import open_regular
from warren.sql.engine import Database
from warren.sql.instants import moment
from warren.sql.listings import recent
from warren.sql.listings.recent import DetailedRun
from warren.sql.run_status import FINAL
from warren.views.terminal import warn

#: How often a followed file, and its run's row, are read.
FILE_SECONDS = 0.1
ROW_SECONDS = 0.5
_CHUNK = 65_536


def log_path(log_dir: Path, run: DetailedRun) -> Path:
    """Return where an executor on this machine writes a run's log; days are in UTC."""
    day = moment(run.scheduled_at)
    return log_dir / f"{day:%Y-%m-%d}" / f"{run.id}.log"


def print_log(database: Database, log_dir: Path, run_id: int, *, follow: bool) -> None:
    """Print a run's log; with `follow`, until the run has ended.

    Raises:
        NotFound: there is no such run.

    """
    run = database.read(lambda session: recent.run(session, run_id))
    path = log_path(log_dir, run)
    reader = LogReader(path)
    if follow:
        run = _follow(database, run, reader)
    reader.copy_new()
    if not reader.found:
        _print_kept(run, path)


class LogReader:
    """Copies a growing file to standard output."""

    def __init__(self, path: Path) -> None:
        self.found = False
        self._path = path
        self._position = 0

    def copy_new(self) -> None:
        """Copy what has been added. If the file was truncated, continue at its new end.

        Raises:
            OSError: the job has put something in its log's place that is no regular file.

        """
        try:
            with open(self._path, "rb", opener=open_regular) as file:
                self.found = True
                size = file.seek(0, 2)
                file.seek(min(self._position, size))
                while chunk := file.read(_CHUNK):
                    sys.stdout.buffer.write(chunk)
                self._position = file.tell()
        except FileNotFoundError:
            return
        sys.stdout.buffer.flush()


def _follow(database: Database, run: DetailedRun, reader: LogReader) -> DetailedRun:
    run_id, looked_at = run.id, time.monotonic()
    while run.status not in FINAL:
        reader.copy_new()
        time.sleep(FILE_SECONDS)
        if time.monotonic() - looked_at >= ROW_SECONDS:
            run = database.read(lambda session: recent.run(session, run_id))
            looked_at = time.monotonic()
    return run


def _print_kept(run: DetailedRun, path: Path) -> None:
    if run.log_tail:
        warn(f"there is no {path} on this machine; this is the end of the log, kept with the run")
        print(run.log_tail, end="" if run.log_tail.endswith("\n") else "\n")
    elif run.status in FINAL:
        warn(f"run {run.id} ({run.status}) has no log: none is kept, and there is no {path} here")
    else:
        warn(f"run {run.id} ({run.status}) has no log yet; there is no {path} on this machine")
