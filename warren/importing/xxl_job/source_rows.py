"""A row of XXL-JOB's, read column by column, and findings about it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol
from zoneinfo import ZoneInfo

from warren.importing.xxl_job.source_tables import known_as
from warren.scheduler.imports.findings import Finding, Verdict

#: Characters of a value that are shown.
SHOWN = 100
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Source(Protocol):
    """Where XXL-JOB's tables are read from."""

    @property
    def name(self) -> str:
        """Its name, for messages."""

    def columns(self) -> Mapping[str, list[str]]:
        """Return the columns of each table."""

    def rows(self, tables: Mapping[str, list[str]]) -> Mapping[str, list[Mapping[str, str | None]]]:
        """Return all rows of these tables, with these columns."""

    def highest_run_id(self) -> int:
        """Return the highest id of a run, as far as it is known."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row with all values as text, by the column names of version 3.5."""

    table: str
    values: Mapping[str, str | None]

    @classmethod
    def of(cls, table: str, values: Mapping[str, str | None]) -> "Row":
        """Return a row as it was read."""
        return cls(table, {known_as(table, name): value for name, value in values.items()})

    @property
    def id(self) -> int:
        """Its primary key."""
        return self.number("id")

    def has(self, column: str) -> bool:
        """Whether the column exists and is not empty."""
        return bool((self.values.get(column) or "").strip())

    def text(self, column: str) -> str:
        """Return a text; NULL is an empty one."""
        return self.values.get(column) or ""

    def line(self, column: str) -> str:
        """Return a text as one line, stripped."""
        return _CONTROL.sub(" ", self.text(column)).strip()

    def number(self, column: str) -> int:
        """Return a whole number; 0 if it is not one."""
        text = self.text(column).strip()
        return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else 0

    def wall_time(self, column: str) -> datetime | None:
        """Return a DATETIME as it is stored; None if it is not one."""
        try:
            return datetime.fromisoformat(self.text(column).strip()).replace(tzinfo=None)
        except ValueError:
            return None

    def utc(self, column: str, zone: ZoneInfo) -> datetime | None:
        """Return a DATETIME of a server in this zone as naive UTC; None if it is not one."""
        wall = self.wall_time(column)
        if wall is None or not 1971 <= wall.year <= 9000:  # noqa: PLR2004 - '0000-00-00', and worse
            return None
        return wall.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None, microsecond=0)

    def finding(
        self, verdict: Verdict, column: str, words: str, value: str | None = None
    ) -> Finding:
        """Return a finding about one of its columns."""
        shown = self.text(column) if value is None else value
        shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"
        return Finding(
            verdict=verdict, table=self.table, id=self.id, column=column, value=shown, words=words
        )
