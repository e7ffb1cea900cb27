"""The tables of XXL-JOB 2.2 to 3.5: what happens to each column, and how a row is read.

Whatever is wrong with a row becomes a finding in the import's report. The time zone of DATETIME
columns may differ from the admin's, as JDBC converts times to the one of its `serverTimezone`. It
is found by runs: a job's `trigger_last_time` is epoch milliseconds, and the run that it began has
the same time as a DATETIME: the difference is the offset of their zone.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Protocol
from zoneinfo import ZoneInfo

from warren.errors import CommandError
from warren.scheduler.imports.items import Finding, Verdict
from warren.sql.imports.foreign import Values
from warren.sql.instants import moment

GROUP, INFO, GLUE = "xxl_job_group", "xxl_job_info", "xxl_job_logglue"
USER, LOG, REPORT = "xxl_job_user", "xxl_job_log", "xxl_job_log_report"
#: The codes of success and of a timeout.
OK, TIMED_OUT = 200, 502
#: Marks a database of Warren, whose other tables have the names of XXL-JOB's.
OF_WARREN = "warren_cluster"
#: Zones to try if the given one does not fit.
OTHER_ZONES = (
    *("UTC", "Asia/Shanghai", "Asia/Tokyo", "Asia/Singapore", "Asia/Kolkata", "Asia/Dubai"),
    *("Europe/London", "Europe/Berlin", "Europe/Moscow", "Europe/Istanbul"),
    *("America/New_York", "America/Chicago", "America/Los_Angeles", "America/Sao_Paulo"),
    *(f"Etc/GMT{hours:+d}" for hours in range(-14, 13)),
)
#: How many of the latest runs are compared, and how long after its due time one may have begun.
_COMPARED = 5_000
_LATE_SECONDS = 30
#: Offsets of zones are multiples of this.
_STEP_SECONDS = 900


class Rule(Enum):
    """What happens to a column."""

    MAPPED = "imported"
    KEY = "identifies the row"
    #: Live state, secrets, and derived values.
    LEFT = "ignored"


_M, _K, _L = Rule.MAPPED, Rule.KEY, Rule.LEFT

#: Every column of any version of XXL-JOB, by its newest name.
RULES: Mapping[str, Mapping[str, Rule]] = {
    GROUP: {
        "id": _K,
        "app_name": _M,
        "name": _M,
        "address_type": _M,
        "address_list": _M,
        "access_token": _L,  # never stored and never printed
        "update_time": _L,  # an app has its own
    },
    INFO: {
        "id": _K,
        "job_group": _M,
        "name": _M,
        "author": _M,
        "alarm_email": _M,
        "job_cron": _M,
        "schedule_type": _M,
        "schedule_conf": _M,
        "schedule_timezone": _M,  # of a fork
        "misfire_strategy": _M,
        "executor_route_strategy": _M,
        "executor_handler": _M,
        "executor_param": _M,
        "executor_block_strategy": _M,
        "executor_timeout": _M,
        "executor_fail_retry_count": _M,
        "glue_type": _M,
        "glue_source": _M,
        "glue_remark": _M,
        "glue_updatetime": _L,  # a version of the script has its own
        "child_jobid": _M,
        "trigger_status": _M,
        "trigger_last_time": _L,  # `trigger_next_time` is the first open tick
        "trigger_next_time": _M,
        "add_time": _M,
        "update_time": _M,
    },
    GLUE: {
        "id": _K,
        "job_id": _M,
        "glue_type": _M,
        "glue_source": _M,
        "glue_remark": _M,
        "add_time": _M,
        "update_time": _L,  # a version does not change
    },
    USER: {
        "id": _K,
        "username": _M,
        "password": _L,  # an unsalted hash
        "token": _L,
        "role": _M,
        "permission": _M,
    },
    REPORT: {
        "id": _K,
        "trigger_day": _M,
        "running_count": _M,
        "suc_count": _M,
        "fail_count": _M,
        "update_time": _L,
    },
    LOG: {
        "id": _K,
        "job_group": _M,
        "job_id": _M,
        "executor_address": _M,
        "executor_handler": _M,
        "executor_param": _M,
        "executor_sharding_param": _M,
        "executor_fail_retry_count": _L,  # imported runs are not retried
        "trigger_time": _M,
        "trigger_code": _M,
        "trigger_msg": _M,
        "handle_time": _M,
        "handle_code": _M,
        "handle_msg": _M,
        "alarm_status": _L,  # imported runs raise no alarms
    },
}
#: Column names before 3.5, and their names since.
OLD_NAMES = {(GROUP, "title"): "name", (INFO, "job_desc"): "name"}
#: Columns that not every version has; all others are required.
OPTIONAL = {
    GROUP: {"access_token", "update_time"},
    INFO: {
        "job_cron",
        "schedule_type",
        "schedule_conf",
        "schedule_timezone",
        "misfire_strategy",
    },
    USER: {"token"},
    REPORT: {"update_time"},
}
#: Tables that are read as a whole; runs, of which there may be many, are read in pages.
READ_WHOLE = (GROUP, INFO, GLUE, USER, REPORT)


def known_as(table: str, column: str) -> str:
    """Return the name of a column since 3.5."""
    return OLD_NAMES.get((table, column), column)


def check_tables(columns: Mapping[str, Sequence[str]], where: str) -> None:
    """Raise CommandError unless these are XXL-JOB's tables, 2.2 or later; others may exist too."""
    if OF_WARREN in columns:
        raise CommandError(f"{where} is a database of Warren, not of XXL-JOB")
    missing = [table for table in RULES if table not in columns]
    if len(missing) == len(RULES):
        raise CommandError(
            f"{where} is not an XXL-JOB database: table {INFO} does not exist or cannot be read"
        )
    if missing:
        raise CommandError(f"{where} is incomplete: cannot read {', '.join(missing)}")
    for table, rules in RULES.items():
        there = {known_as(table, column) for column in columns[table]}
        for column in rules.keys() - OPTIONAL.get(table, set()) - there:
            raise CommandError(f"{where}: table {table} has no column {column}, which 2.2 has")
    there = set(columns[INFO])
    if "job_cron" not in there and not {"schedule_type", "schedule_conf"} <= there:
        raise CommandError(f"{where}: table {INFO} has neither job_cron nor schedule_type")


def unknown_columns(columns: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return table and name of each column that no version of XXL-JOB has."""
    return [
        (table, column)
        for table, rules in RULES.items()
        for column in columns[table]
        if known_as(table, column) not in rules
    ]


#: The most characters of a value that are shown.
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
        shown = self.text(column) if value is None else value
        shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"
        return Finding(
            verdict=verdict, table=self.table, id=self.id, column=column, value=shown, words=words
        )


class RunSource(Source, Protocol):
    """Where XXL-JOB's tables, with its latest runs, are read from."""

    def latest_runs(self, columns: list[str], count: int) -> Iterator[Values]:
        """Yield the latest runs, up to `count` of them."""


def datetime_zone(source: RunSource, zone: ZoneInfo) -> ZoneInfo:
    """Return the zone of the DATETIMEs: the given one, unless runs show a different one."""
    wanted = ["id", "trigger_last_time"]
    jobs = [Row.of(INFO, values) for values in source.rows({INFO: wanted})[INFO]]
    begun = {row.id: row.number("trigger_last_time") for row in jobs}
    votes: Counter[int] = Counter()
    at_ms: dict[int, int] = {}
    for values in source.latest_runs(["id", "job_id", "trigger_time"], _COMPARED):
        row = Row.of(LOG, values)
        last_ms = begun.get(row.number("job_id"), 0)
        wall = row.wall_time("trigger_time")
        if last_ms and wall is not None:
            seconds = (wall.replace(tzinfo=UTC) - moment(last_ms)).total_seconds()
            steps = round(seconds / _STEP_SECONDS)
            if -1 <= seconds - steps * _STEP_SECONDS <= _LATE_SECONDS:
                votes[steps * _STEP_SECONDS] += 1
                at_ms[steps * _STEP_SECONDS] = last_ms
    # A job that runs every quarter of an hour suggests many offsets, but most often the right one.
    possible = {offset for offset in votes if abs(offset) <= timedelta(hours=14).total_seconds()}
    given = {offset for offset in possible if _offset(zone, at_ms[offset]) == offset}
    best = max(possible, key=votes.__getitem__, default=None)
    if best is None or any(votes[offset] >= votes[best] for offset in given):
        return zone
    return likely_zone(best, at_ms[best])


def likely_zone(offset_seconds: float, at_ms: int) -> ZoneInfo:
    """Return a common zone with this offset at a time."""
    zones = (ZoneInfo(name) for name in OTHER_ZONES)
    return next((zone for zone in zones if _offset(zone, at_ms) == offset_seconds), ZoneInfo("UTC"))


def _offset(zone: ZoneInfo, at_ms: int) -> float:
    offset = moment(at_ms, zone).utcoffset()
    return offset.total_seconds() if offset else 0.0


def zone_for_past(wall: datetime, now_ms: int) -> ZoneInfo:
    """Return the common zone in which this wall time passed most recently."""
    seconds = (wall.replace(tzinfo=UTC) - moment(now_ms)).total_seconds()
    zones = (ZoneInfo(name) for name in OTHER_ZONES)
    over = [zone for zone in zones if _offset(zone, now_ms) >= seconds]
    return min(over, key=lambda zone: _offset(zone, now_ms), default=ZoneInfo("UTC"))
