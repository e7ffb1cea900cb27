"""XXL-JOB's tables in a running database, or in a dump, plain or compressed."""

import codecs
import gzip
import mmap
import shutil
import tempfile
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO

from warren.errors import CommandError
from warren.importing.dump import Data, RowInserted, Statements, TableMade
from warren.importing.xxl_job.source_tables import INFO, LOG, OK, READ_WHOLE, REPORT, RULES
from warren.sql.imports.foreign import ForeignDatabase, Values

_ACTIVITY = {
    INFO: ("trigger_status", "trigger_last_time", "trigger_next_time"),
    REPORT: ("running_count", "suc_count", "fail_count", "update_time"),
    "xxl_job_registry": ("update_time",),
}
_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: Bytes at the beginning and end with the tool's name, and its note that the dump is complete.
_NOTE = 512
_TOOLS = (b"-- MySQL dump", b"-- MariaDB dump")
_FINISHED = b"-- Dump completed"


class LiveSource:
    """Reads a database in its current state; an account with SELECT suffices."""

    def __init__(self, database: ForeignDatabase) -> None:
        self._database = database
        self._columns: Mapping[str, list[str]] | None = None

    @property
    def name(self) -> str:
        """The database's name, for messages."""
        return f"database {self._database.name}"

    def columns(self) -> Mapping[str, list[str]]:
        """Return the columns of each table, read once."""
        if self._columns is None:
            self._columns = self._database.columns()
        return self._columns

    def rows(self, tables: Mapping[str, list[str]]) -> Mapping[str, list[Values]]:
        """Return all rows of these tables, from one snapshot."""
        return self._database.rows(tables)

    def highest_run_id(self) -> int:
        return self._database.highest_id(LOG)

    def runs(self, columns: list[str], since: datetime) -> Iterator[Values]:
        """Yield the runs since a local time of the server, oldest first."""
        first = self._database.first_id(LOG, "trigger_time", since)
        if first is None:
            return
        for page in self._database.pages(LOG, columns, first - 1):
            yield from page

    def latest_runs(self, columns: list[str], count: int) -> Iterator[Values]:
        """Yield the latest runs, up to `count` of them."""
        for page in self._database.pages(LOG, columns, self.highest_run_id() - count):
            yield from page

    def runs_without_success(self, columns: Sequence[str], since: datetime) -> list[Values]:
        """Return the runs since a local time of the server that have not succeeded, by id."""
        first = self._database.first_id(LOG, "trigger_time", since)
        if first is None:
            return []
        return self._database.rows_unlike(LOG, columns, first - 1, column="handle_code", value=OK)

    def activity(self) -> object:
        """Return what an admin changes while it is running: ticks, its report, registrations."""
        there = self.columns()
        wanted = {
            table: [name for name in ("id", *columns) if name in there[table]]
            for table, columns in _ACTIVITY.items()
            if table in there
        }
        return self.rows(wanted)


class DumpSource:
    """Reads a dump once as a whole, and its runs only on request.

    Raises:
        CommandError: it is incomplete, not a dump, not UTF-8, or contains several databases of
            XXL-JOB.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _opened(path)
        self._data: Data = _mapped(self._file)
        self._columns: dict[str, list[str]] = {}
        self._rows: dict[str, list[Values]] = {table: [] for table in READ_WHOLE}
        self._highest_run_id = 0
        self._charset = ""
        _check_whole(self._data, str(path))
        self._read()

    @property
    def name(self) -> str:
        """The file's path, for messages."""
        return str(self._path)

    def close(self) -> None:
        if isinstance(self._data, mmap.mmap):
            self._data.close()
        self._file.close()

    def columns(self) -> Mapping[str, list[str]]:
        return self._columns

    def rows(self, tables: Mapping[str, list[str]]) -> Mapping[str, list[Values]]:
        """Return all rows of these tables, with these columns."""
        return {
            table: [
                {name: row[name] for name in columns if name in row} for row in self._rows[table]
            ]
            for table, columns in tables.items()
        }

    def highest_run_id(self) -> int:
        """Return the highest id that a run may have had."""
        return self._highest_run_id

    def latest_runs(self, columns: list[str], count: int) -> Iterator[Values]:
        """Yield the latest runs, up to `count` of them."""
        for row in deque(self._runs(), maxlen=count):
            yield {name: row[name] for name in columns if name in row}

    def runs(self, _columns: list[str], _since: datetime) -> Iterator[Values]:
        """Yield all runs in the order of the dump; both arguments are ignored."""
        yield from self._runs()

    def _runs(self) -> Iterator[Values]:
        for statement in Statements(self._data, self.name, {LOG}):
            if isinstance(statement, RowInserted):
                yield statement.values

    @property
    def is_narrow(self) -> bool:
        """Whether it was written in MySQL's old utf8, in which some characters became `?`."""
        return self._charset in ("utf8", "utf8mb3")

    def _read(self) -> None:
        statements = Statements(self._data, self.name, READ_WHOLE)
        for statement in statements:
            if isinstance(statement, RowInserted):
                self._rows[statement.table].append(statement.values)
            else:
                self._add_table(statement)
        self._charset = statements.charset
        if not self._highest_run_id and LOG in self._columns:
            ids = (int(row["id"] or 0) for row in self._runs())
            self._highest_run_id = max(ids, default=0)

    def _add_table(self, table: TableMade) -> None:
        if table.name in self._columns and table.name in RULES:
            raise CommandError(
                f"{self._path} makes {table.name} twice (the second time in database "
                f"{table.database or 'of no name'}): dump one database of XXL-JOB"
            )
        self._columns[table.name] = list(table.columns)
        if table.name == LOG:
            self._highest_run_id = max(0, table.next_id - 1)


def _opened(path: Path) -> IO[bytes]:
    file = path.open("rb")
    start = file.read(2)
    if start in _UTF_16:
        file.close()
        raise CommandError(
            f"{path} is UTF-16, as PowerShell's > writes it; use mysqldump --result-file"
        )
    if start != _GZIP:
        return file
    with file, gzip.open(path) as packed:
        plain = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        try:
            shutil.copyfileobj(packed, plain)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            plain.close()
            raise CommandError(f"{path}: cannot unpack it; is it cut? ({error})") from error
        plain.flush()
        return plain


def _mapped(file: IO[bytes]) -> Data:
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        return b""  # an empty file cannot be mapped


def _check_whole(data: Data, name: str) -> None:
    has_tool = any(tool in data[:_NOTE] for tool in _TOOLS)
    if has_tool and _FINISHED not in data[-_NOTE:]:
        raise CommandError(f'{name} has no last line "{_FINISHED.decode()}": the dump is cut')
