"""Runs, skips and how far runs are, as API, command line and console show them."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from warren.broker.messages import result_value
from warren.resources.instant import Instant
from warren.resources.runs import Progress, Run, RunProgress, Skip
from warren.sql.jobs.skips import SkipLine
from warren.sql.run_status import RunStatus
from warren.sql.runs.run_rows import DetailedRun

_TIMES = tuple(name for name in Run.__struct_fields__ if name.endswith("_at"))
#: Fields that are as in the row.
_SAME = tuple(
    name
    for name in Run.__struct_fields__
    if name not in {*_TIMES, "result", "progress", "waits_for"}
)


def run_of(run: DetailedRun, waits_for: Sequence[str] = ()) -> Run:
    """Return a run; `waits_for` is what it waits for."""
    return Run(**run_fields(run, waits_for))


def run_fields(run: DetailedRun, waits_for: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a run by name."""
    fields = {name: getattr(run, name) for name in _SAME}
    fields |= {name: Instant.if_any(getattr(run, name)) for name in _TIMES}
    fields["result"] = result_value(run.result)
    fields["progress"] = _progress(run.progress)
    fields["waits_for"] = [*waits_for]
    return fields


def skip_of(skip: SkipLine) -> Skip:
    """Return skipped due times."""
    return Skip(
        id=skip.id,
        job_id=skip.job_id,
        job=skip.job,
        app=skip.app,
        from_at=Instant.of(skip.from_at),
        to_at=Instant.of(skip.to_at),
        recorded_at=Instant.of(skip.recorded_at),
        made_good=skip.made_good,
        made_good_by=skip.made_good_by,
        count=skip.number,
        reason=skip.reason,
    )


class Running(Protocol):
    """A run, with what says how far it is."""

    @property
    def status(self) -> str: ...
    @property
    def progress(self) -> str | None: ...
    @property
    def started_at(self) -> int | None: ...


def run_progress(run: Running, now_ms: int) -> RunProgress | None:
    """Return how far a run is; None if it is not running, or has not said.

    The time left assumes that it continues at the pace so far.
    """
    progress = _progress(run.progress) if run.status == RunStatus.RUNNING else None
    if progress is None:
        return None
    return progress.after(now_ms - run.started_at if run.started_at else 0)


def _progress(text: str | None) -> Progress | None:
    try:
        return msgspec.json.decode(text, type=Progress) if text else None
    except msgspec.MsgspecError:  # the row was changed by hand
        return None
