"""The logs of runs in this machine's files, which need no executor."""

import sys
import time
from datetime import UTC
from pathlib import Path

from warren.client import Client
from warren.executor.disk import open_regular
from warren.resources.runs import Run
from warren.sql.run_status import FINAL
from warren.terminal.output import warn

#: How often a followed file, and its run, are read.
FILE_SECONDS = 0.1
RUN_SECONDS = 0.5
_CHUNK = 65_536


def log_path(log_dir: Path, run: Run) -> Path:
    """Return where an executor on this machine writes a run's log; days are in UTC."""
    return log_dir / f"{run.scheduled_at.astimezone(UTC):%Y-%m-%d}" / f"{run.id}.log"


def print_file(client: Client, log_dir: Path, run_id: int, *, follow: bool) -> None:
    """Print a run's log, or what is kept of it; with `follow`, until the run has ended."""
    run: Run = client.get(run_id)
    path = log_path(log_dir, run)
    reader = LogReader(path)
    if follow:
        run = _follow(client, run, reader)
    reader.copy_new()
    if not reader.found:
        _print_kept(client, run, path)


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


def _follow(client: Client, run: Run, reader: LogReader) -> Run:
    looked_at = time.monotonic()
    while run.status not in FINAL:
        reader.copy_new()
        time.sleep(FILE_SECONDS)
        if time.monotonic() - looked_at >= RUN_SECONDS:
            run, looked_at = client.get(run.id), time.monotonic()
    return run


def _print_kept(client: Client, run: Run, path: Path) -> None:
    part = client.log(run.id)
    if part.source == "store":
        while part.text:
            print(part.text, end="")
            if part.is_end:
                return
            part = client.log(run.id, from_line=part.next_line)
        return
    if kept := client.log(run.id, kept=True).text:
        warn(f"there is no {path} on this machine; this is the end of the log, kept with the run")
        print(kept, end="")
    elif run.status in FINAL:
        warn(f"run {run.id} ({run.status}) has no log: none is kept, and there is no {path} here")
    else:
        warn(f"run {run.id} ({run.status}) has no log yet; there is no {path} on this machine")
