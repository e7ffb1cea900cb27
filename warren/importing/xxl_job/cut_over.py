"""Waits until XXL-JOB's admin has stopped and its runs have ended, before its jobs are taken over.

A run that is in progress there reports to XXL-JOB's admin. Once the admin is stopped, its result is
lost, and a retry that the admin has not sent never happens.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeVar
from zoneinfo import ZoneInfo

from warren.errors import CommandError
from warren.importing.xxl_job.source_tables import LOG, OK, Row
from warren.importing.xxl_job.sources import LiveSource
from warren.sql.errors import DatabaseUnavailable
from warren.sql.instants import epoch_ms, iso

T = TypeVar("T")

#: How long XXL-JOB's database must be unchanged, at least, before its jobs are taken over, and how
#: often it is checked: longer than its admin plans ahead, which is 5 s.
QUIET_SECONDS = 6
#: If nothing changes for this long, the admin is stopped: executors register with it every 30 s.
STOPPED_SECONDS = 35
#: Runs that are open for longer never end: XXL-JOB keeps some open for ever.
_OPEN_FOR = timedelta(days=1)
#: Runs that a line names.
_NAMED = 10
_COLUMNS = (
    "id",
    "job_id",
    "executor_address",
    "executor_fail_retry_count",
    "trigger_time",
    "trigger_code",
    "handle_code",
    "alarm_status",
)


class Pending(StrEnum):
    """What XXL-JOB has still to do about a run."""

    UNDER_WAY = "under way"
    RETRY = "to retry"


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that is not over in XXL-JOB."""

    run_id: int
    job_id: int
    address: str
    since: str
    pending: Pending

    @property
    def words(self) -> str:
        """What happens to it if XXL-JOB's admin is stopped now."""
        if self.pending is Pending.UNDER_WAY:
            return "it is still running; nobody will learn how it ends"
        return "it failed, and its retry will not happen; trigger the job here if it is needed"


def open_runs(source: LiveSource, zone: ZoneInfo) -> list[OpenRun]:
    """Return the runs of the last day that are not over, oldest first."""
    earliest = datetime.now(UTC) - _OPEN_FOR
    since = earliest.astimezone(zone).replace(tzinfo=None, microsecond=0)
    runs = []
    for values in source.runs_without_success(_COLUMNS, since):
        row = Row.of(LOG, values)
        pending = _pending(row)
        at = row.utc("trigger_time", zone)
        if pending is not None and at is not None and at >= earliest.replace(tzinfo=None):
            runs.append(
                OpenRun(
                    row.id,
                    row.number("job_id"),
                    row.line("executor_address"),
                    str(iso(epoch_ms(at))),
                    pending,
                )
            )
    return runs


def _pending(row: Row) -> Pending | None:
    codes = {row.number("trigger_code"), row.number("handle_code")}
    if codes <= {0, OK}:
        return Pending.UNDER_WAY
    is_retried = row.number("executor_fail_retry_count") > 0 and not row.number("alarm_status")
    return Pending.RETRY if is_retried else None


class CutOver:
    """Waits until nothing changes in XXL-JOB's database for some seconds, and nothing runs there.

    `report` gets lines for the person who is to stop XXL-JOB's admin. Without `wait_seconds` it
    does not wait: open runs are returned, and it is an error if the admin is running.
    """

    def __init__(
        self,
        source: LiveSource,
        zone: ZoneInfo,
        *,
        quiet_seconds: float,
        stopped_seconds: float = STOPPED_SECONDS,
        wait_seconds: float,
        report: Callable[[str], None],
    ) -> None:
        self._source = source
        self._zone = zone
        self._quiet_seconds = quiet_seconds
        self._stopped_seconds = stopped_seconds
        self._until = time.monotonic() + wait_seconds
        self._waits = wait_seconds > 0
        self._report = report
        self._before: object = None
        self._has_answered = False

    def wait(self) -> list[OpenRun]:
        """Return the runs whose result will be lost, once nothing changes there any more.

        Raises:
            CommandError: XXL-JOB's admin is still running.

        """
        left = self._wait_for_runs()
        if self._waits and not left:
            self._report("nothing is running in XXL-JOB: stop its admin now")
        while True:
            try:
                self._watch()
            except CommandError:
                if time.monotonic() >= self._until:
                    raise
            else:
                return self._open_runs()

    def _open_runs(self) -> list[OpenRun]:
        return self._ask(lambda: open_runs(self._source, self._zone))

    def _ask(self, ask: Callable[[], T]) -> T:
        """Ask the database; again, while there is time to wait, if it has answered before."""
        last = ""
        while True:
            try:
                answer = ask()
            except DatabaseUnavailable as error:
                if not self._has_answered or time.monotonic() >= self._until:
                    raise
                if last != str(error):
                    last = str(error)
                    self._report(f"{last}; trying again")
                time.sleep(1)
            else:
                self._has_answered = True
                return answer

    def check(self) -> None:
        """Check that nothing has changed since `wait`.

        Raises:
            CommandError: something has changed.

        """
        if self._ask(self._source.activity) != self._before:
            raise CommandError(
                f"{self._source.name} changed within {self._quiet_seconds:g} s: XXL-JOB's admin is "
                "still running; stop it before --take-over, or both start every run"
            )

    def _watch(self) -> None:
        self._before = self._ask(self._source.activity)
        end_at = time.monotonic() + self._quiet_seconds
        while (left := end_at - time.monotonic()) > 0:
            time.sleep(min(left, QUIET_SECONDS))
            self.check()

    def _wait_for_runs(self) -> Sequence[OpenRun]:
        last_count, activity, changed_at = -1, None, 0.0
        while left := self._open_runs():
            seconds = self._until - time.monotonic()
            if seconds <= 0:
                break
            if (newest := self._ask(self._source.activity)) != activity:
                activity, changed_at = newest, time.monotonic()
            elif time.monotonic() - changed_at > self._stopped_seconds:
                ids = ", ".join(str(run.run_id) for run in left[:_NAMED])
                self._report(
                    "nothing changes in XXL-JOB any more, so its admin is stopped, and these runs "
                    f"never end there ({len(left)}): {ids}{', …' if len(left) > _NAMED else ''}"
                )
                break
            if len(left) != last_count:
                last_count = len(left)
                self._report(
                    f"not over in XXL-JOB: {last_count}, such as run {left[0].run_id} of job "
                    f"{left[0].job_id}, since {left[0].since}; waiting for up to {seconds:.0f} s"
                )
            time.sleep(min(seconds, self._quiet_seconds))
        return left
