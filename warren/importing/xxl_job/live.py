"""XXL-JOB's tables in a running database."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from warren.importing.xxl_job.source_tables import INFO, LOG, OK, REPORT
from warren.sql.imports.foreign import ForeignDatabase, Values

_ACTIVITY = {
    INFO: ("trigger_status", "trigger_last_time", "trigger_next_time"),
    REPORT: ("running_count", "suc_count", "fail_count", "update_time"),
    "xxl_job_registry": ("update_time",),
}


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
        """Return the highest id of a run."""
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
