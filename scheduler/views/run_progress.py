"""How far a running run is, as pages and the command line show it."""

from dataclasses import dataclass
from typing import Protocol

import msgspec

from warren.broker.messages.values import Progress
from warren.sql.run_status import RunStatus


class Running(Protocol):
    """A run, with what says how far it is."""

    @property
    def status(self) -> str: ...
    @property
    def progress(self) -> str | None: ...
    @property
    def started_at(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Per cent, what is `done` of a `total`, and the time left; None if that is not known."""

    percent: int | None
    done: str
    total: str
    left_ms: int | None
    text: str

    def __str__(self) -> str:
        """Return it as a line: `3 of 10 (30 %), loading`."""
        share = "" if self.percent is None else f" ({self.percent} %)"
        whole = f" of {self.total}" if self.total else ""
        return f"{self.done}{whole}{share}{', ' if self.text else ''}{self.text}"


def run_progress(run: Running, now_ms: int) -> RunProgress | None:
    """Return how far a run is; None if it is not running, or has not said.

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
