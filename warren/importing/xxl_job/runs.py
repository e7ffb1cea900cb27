"""Finished rows of `xxl_job_log` become runs; only with `--runs`."""

import html
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from warren.broker.messages.values import cut_message
from warren.errors import CommandError
from warren.importing.xxl_job.clock import zone_for_past
from warren.importing.xxl_job.dump_source import DumpSource
from warren.importing.xxl_job.live import LiveSource
from warren.importing.xxl_job.source_tables import LOG, OK, RULES, TIMED_OUT, Row
from warren.scheduler.imports.items import ImportedRun
from warren.sql.instants import epoch_ms, iso
from warren.sql.run_status import RunStatus

#: How much the clocks of two servers may differ.
_AHEAD_MS = 300_000
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
#: The tags that XXL-JOB itself writes.
_OWN_TAG = re.compile(r"<br\s*/?>|</?span\b[^<>]{0,200}>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


@dataclass(slots=True)
class RunReader:
    """Reads the runs of the last days of these jobs; counts those it leaves out."""

    zone: ZoneInfo
    days: int
    now_ms: int
    job_ids: Collection[int]
    unfinished: int = field(default=0, init=False)
    foreign: int = field(default=0, init=False)

    def read(self, source: LiveSource | DumpSource) -> Iterator[ImportedRun]:
        """Yield the finished runs."""
        columns = [name for name in source.columns()[LOG] if name in RULES[LOG]]
        now = datetime.fromtimestamp(self.now_ms / 1_000, UTC)
        since = now - timedelta(days=self.days)
        there = since.astimezone(self.zone).replace(tzinfo=None, microsecond=0)
        for values in source.runs(columns, there):
            row = Row.of(LOG, values)
            at = row.utc("trigger_time", self.zone)
            if at is None or at < since.replace(tzinfo=None):
                continue
            self._check_past(row, at)
            status = status_of(row.number("trigger_code"), row.number("handle_code"))
            if status is None:
                self.unfinished += 1
            elif row.number("job_id") not in self.job_ids:
                self.foreign += 1
            else:
                yield self._run(row, status, at)

    def _check_past(self, row: Row, at: datetime) -> None:
        if epoch_ms(at) <= self.now_ms + _AHEAD_MS:
            return
        wall = row.wall_time("trigger_time")
        assert wall is not None
        raise CommandError(
            f"run {row.id} is in the future: {LOG}.trigger_time {wall} is {iso(epoch_ms(at))} in "
            f"{self.zone}; tell the time zone of DATETIMEs there (JDBC's serverTimezone) by "
            f"--datetime-timezone, it is probably {zone_for_past(wall, self.now_ms)}"
        )

    def _run(self, row: Row, status: RunStatus, at: datetime) -> ImportedRun:
        triggered_ms = epoch_ms(at)
        ended = row.utc("handle_time", self.zone)
        return ImportedRun(
            source_id=row.id,
            job_id=row.number("job_id"),
            status=status,
            codes=(row.number("trigger_code"), row.number("handle_code")),
            address=row.line("executor_address")[:255],
            handler=row.line("executor_handler")[:255],
            param=row.text("executor_param"),
            sharding=row.line("executor_sharding_param")[:20],
            triggered_ms=triggered_ms,
            finished_ms=max(triggered_ms, epoch_ms(ended) if ended else triggered_ms),
            trigger_message=plain(row.text("trigger_msg")),
            message=_message(row.text("handle_msg")),
        )


def status_of(trigger_code: int, handle_code: int) -> RunStatus | None:
    """Return how a run ended; None if it has not."""
    if handle_code == OK:
        return RunStatus.SUCCEEDED
    if handle_code == TIMED_OUT:
        return RunStatus.TIMED_OUT
    if handle_code:
        return RunStatus.FAILED
    return None if trigger_code in (0, OK) else RunStatus.UNDELIVERED


def _message(text: str) -> str:
    """Return a result as plain text if XXL-JOB has marked it up; otherwise unchanged."""
    return plain(text) if _OWN_TAG.search(text) else cut_message(text)


def plain(marked: str) -> str:
    """Return XXL-JOB's HTML as plain text."""
    return cut_message(html.unescape(_TAG.sub("", _BREAK.sub("\n", marked))).strip())
