"""XXL-JOB's tables in a running database."""

from collections.abc import Iterator, Mapping

from sql.imports.foreign import ForeignDatabase, Values
from warren.importing.xxl_job.tables import LOG


class LiveSource:
    """Reads a database as it is now; an account that may SELECT suffices."""

    def __init__(self, database: ForeignDatabase) -> None:
        self._database = database
        self._columns: Mapping[str, list[str]] | None = None

    @property
    def name(self) -> str:
        """What to call it to people."""
        return f"database {self._database.name}"

    def columns(self) -> Mapping[str, list[str]]:
        """Return the columns of each table, read once."""
        if self._columns is None:
            self._columns = self._database.columns()
        return self._columns

    def rows(self, tables: Mapping[str, list[str]]) -> Mapping[str, list[Values]]:
        """Return all rows of some tables, as they were at one moment."""
        return self._database.rows(tables)

    def highest_run_id(self) -> int:
        """Return the highest id that a run has."""
        return self._database.highest_id(LOG)

    def runs(self, columns: list[str]) -> Iterator[Values]:
        """Give the runs, oldest first."""
        for page in self._database.pages(LOG, columns):
            yield from page
