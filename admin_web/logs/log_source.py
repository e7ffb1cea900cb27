"""Finds the executor that has a run's log, from the run's row and the registry."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.sql.listings.recent import DetailedRun
from warren.sql.registry import presence


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Which log to read and where it is; an empty `boot_id` = no executor has it.

    `heard_at_ms` is the executor's last heartbeat, in epoch milliseconds; 0 = it is not registered.
    """

    run_id: int
    app: str
    address: str
    boot_id: str
    scheduled_at_ms: int
    heard_at_ms: int


def log_source(session: Session, run: DetailedRun) -> Source:
    """Return where a run's log is.

    After a restart, the new boot at the same address serves the old logs.
    """
    app, address = run.app or "", run.address or ""
    boot_id, heard_at_ms = "", 0
    if app and address:
        last = presence.last_beat(session, presence.EXECUTOR, app, address)
        boot_id, heard_at_ms = last or (run.boot_id or "", 0)
    return Source(
        run_id=run.id,
        app=app,
        address=address,
        boot_id=boot_id,
        scheduled_at_ms=run.scheduled_at,
        heard_at_ms=heard_at_ms,
    )
