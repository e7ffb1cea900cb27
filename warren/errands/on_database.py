"""Does errands on this installation's database, in the name of the user who runs the command."""

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from warren.database_access import open_database
from warren.errands.desk import Desk, do
from warren.errands.table import ERRANDS, READ
from warren.executor.disk import open_regular
from warren.local_client import context_on
from warren.scheduler.completion.end import tick_end
from warren.settings.settings import Settings
from warren.sql.dialects.url_forms import file_url
from warren.sql.engine import Database
from warren.sql.instants import moment
from warren.sql.listings import recent
from warren.sql.run_status import FINAL
from warren.sql.runs.run_rows import DetailedRun
from warren.sql.runs.ticks import tick_of
from warren.terminal.output import Output, warn

#: How often a followed file, and its run's row, are read.
FILE_SECONDS = 0.1
ROW_SECONDS = 0.5
_CHUNK = 65_536
#: How often the rows of an awaited run are read.
POLL_SECONDS = 0.1
#: Errands about files alone.
_WITHOUT_DATABASE = {"jobs.check"}


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


class DatabaseSender:
    """Opens the database for the first errand, and again for the first that writes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._held = ExitStack()
        self._opened: dict[bool, Database] = {}

    def __enter__(self) -> Self:
        """Return the sender; the database is closed at the end of the block."""
        self._held.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Close the database."""
        return self._held.__exit__(kind, error, trace)

    def send(self, name: str, /, **options: Any) -> Output:
        """Do an errand and return its output."""
        if name in _WITHOUT_DATABASE:
            database = Database(file_url(Path(os.devnull)))  # it is never opened
            self._held.callback(database.close)
        else:
            database = self._database(for_writing=ERRANDS[name].scope != READ)
        context = context_on(database, self._settings)
        desk = Desk(context=context, zone=self._settings.zone, on_progress=_show_progress)
        output = do(desk, name, options)
        _end_progress()
        return output

    def await_end(self, run_id: int) -> None:
        """Wait until the whole tick of a run is over.

        A retry is planned in the transaction that ends its run: there is no gap between attempts.
        """
        database = self._database(for_writing=False)
        while True:
            rows = database.read(lambda session: recent.tick(session, run_id))
            if tick_end(tick_of(rows[0]), rows) is not None:
                return
            time.sleep(POLL_SECONDS)

    def print_log(self, run_id: int, *, follow: bool) -> None:
        """Print a run's log file, or what is kept of it."""
        database = self._database(for_writing=False)
        print_log(database, self._settings.log_dir, run_id, follow=follow)

    def _database(self, *, for_writing: bool) -> Database:
        if True in self._opened:  # what may be written may be read
            return self._opened[True]
        if for_writing not in self._opened:
            opened = open_database(self._settings, for_writing=for_writing)
            self._opened[for_writing] = self._held.enter_context(opened)
        return self._opened[for_writing]


def _show_progress(count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{count:,} …", end="", file=sys.stderr, flush=True)


def _end_progress() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
