"""The progress of a running run, as its page shows it."""

from dataclasses import dataclass

import msgspec

from warren.broker.messages.values import Progress
from warren.sql.listings.recent import DetailedRun
from warren.sql.run_status import RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Per cent, what is `done` of a `total`, and the time left; None if that is not known."""

    percent: int | None
    done: str
    total: str
    left_ms: int | None
    text: str


def run_progress(run: DetailedRun, now_ms: int) -> RunProgress | None:
    """Return a run's progress; None if it is not running or has reported none.

    The time left assumes that it continues at the pace so far.
    """
    if run.status != RunStatus.RUNNING or not run.progress:
        return None
    try:
        progress = msgspec.json.decode(run.progress, type=Progress)
    except msgspec.MsgspecError:  # the row was changed by hand
        return None
    share = min(progress.done / progress.total, 1.0) if progress.total else None
    ran_ms = now_ms - run.started_at if run.started_at else 0
    return RunProgress(
        percent=None if share is None else int(100 * share),
        done=f"{progress.done:,.10g}",
        total=f"{progress.total:,.10g}" if progress.total else "",
        left_ms=int(ran_ms / share) - ran_ms if share and ran_ms > 0 else None,
        text=progress.text,
    )
