"""Reads run logs from executors, or else the end that is stored with the run."""

from sqlalchemy.orm import Session

from admin_web.logs.log_reader import LogPart, LogReader, ReadStatus, Source
from broker.rpc import Requester
from sql.listings.recent import DetailedRun
from sql.registry import presence

EXECUTOR, KEPT, NONE = "executor", "kept", "none"


class RunLogs:
    """Reads run logs."""

    def __init__(self, requester: Requester | None) -> None:
        self._reader = LogReader(requester)

    def boot(self, session: Session, run: DetailedRun) -> str:
        """Return the boot that has a run's log; empty if there is none.

        After a restart, the new boot at the same address serves the old logs.
        """
        if not run.app or not run.address:
            return ""
        holder = presence.holder(session, presence.EXECUTOR, run.app, run.address)
        return holder or run.boot_id or ""

    def read(
        self, run: DetailedRun, boot_id: str, from_line: int, limit: int
    ) -> tuple[LogPart, str]:
        """Return lines from a line on, and their source: EXECUTOR, KEPT or NONE."""
        source = Source(
            run_id=run.id,
            app=run.app or "",
            address=run.address or "",
            boot_id=boot_id,
            scheduled_at_ms=run.scheduled_at,
        )
        part = self._reader.read(source, from_line, limit=limit)
        if part.status is ReadStatus.LINES:
            return part, EXECUTOR
        tail = run.log_tail or ""
        if part.status is ReadStatus.BUSY or from_line > 1 or not tail:
            return part, NONE
        lines = tuple(tail.removesuffix("\n").split("\n"))
        return LogPart(status=part.status, lines=lines, is_end=True), KEPT
