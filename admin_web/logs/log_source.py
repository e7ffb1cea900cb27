"""Finds the executor that has a run's log, from the run's row and the registry."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from sql.listings.recent import DetailedRun
from sql.registry import presence


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Which log to read and where it is; an empty `boot_id` = no executor has it."""

    run_id: int
    app: str
    address: str
    boot_id: str
    scheduled_at_ms: int


def log_source(session: Session, run: DetailedRun) -> Source:
    """Return where a run's log is.

    After a restart, the new boot at the same address serves the old logs.
    """
    app, address = run.app or "", run.address or ""
    boot_id = ""
    if app and address:
        boot_id = presence.holder(session, presence.EXECUTOR, app, address) or run.boot_id or ""
    return Source(
        run_id=run.id,
        app=app,
        address=address,
        boot_id=boot_id,
        scheduled_at_ms=run.scheduled_at,
    )
