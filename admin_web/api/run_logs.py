"""Reads run logs from executors, or else the end that is stored with the run."""

from admin_web.logs.log_reader import LogPart, LogReader, ReadStatus
from admin_web.logs.log_source import Source
from broker.rpc import Requester
from sql.listings.recent import DetailedRun

EXECUTOR, KEPT, NONE = "executor", "kept", "none"


class RunLogs:
    """Reads run logs."""

    def __init__(self, requester: Requester | None) -> None:
        self._reader = LogReader(requester)

    def read(
        self, run: DetailedRun, source: Source, from_line: int, limit: int
    ) -> tuple[LogPart, str]:
        """Return lines from a line on, and where they are from: EXECUTOR, KEPT or NONE."""
        part = self._reader.read(source, from_line, limit=limit)
        if part.status is ReadStatus.LINES:
            return part, EXECUTOR
        tail = run.log_tail or ""
        if part.status is ReadStatus.BUSY or from_line > 1 or not tail:
            return part, NONE
        lines = tuple(tail.removesuffix("\n").split("\n"))
        return LogPart(status=part.status, lines=lines, is_end=True), KEPT
