"""A run's timeline from its due time to its end."""

from dataclasses import dataclass
from enum import StrEnum

from flask_babel import LazyString, lazy_gettext

from warren.sql.listings.recent import DetailedRun
from warren.sql.run_status import FINAL, RunStatus

_STEPS = (
    ("due_at", lazy_gettext("due")),
    ("routed_at", lazy_gettext("routed")),
    ("sent_at", lazy_gettext("sent")),
    ("started_at", lazy_gettext("started")),
    ("finished_at", lazy_gettext("finished")),
)


class Stage(StrEnum):
    """The state of a step."""

    DONE = "done"
    NOW = "now"
    AHEAD = "ahead"
    #: It did not happen, or a later step was recorded first.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: its time in epoch milliseconds, and the time since the step before it."""

    word: LazyString
    stage: Stage
    at_ms: int | None = None
    gap_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How long a run waited and worked so far, in milliseconds."""

    waited_ms: int
    worked_ms: int

    @property
    def total_ms(self) -> int:
        """The total, at least 1 so that it can be divided by."""
        return max(1, self.waited_ms + self.worked_ms)


def steps(run: DetailedRun, now_ms: int) -> list[Step]:
    """Return a run's steps in order."""
    times = [getattr(run, column) for column, _ in _STEPS]
    if run.status == RunStatus.PLANNED and run.due_at > now_ms:
        times[0] = None
    last = max((number for number, at in enumerate(times) if at), default=-1)
    found: list[Step] = []
    known: int | None = None
    for number, (at, (_, word)) in enumerate(zip(times, _STEPS, strict=True)):
        if at:
            gap = max(0, at - known) if known is not None else None
            found.append(Step(word=word, stage=Stage.DONE, at_ms=at, gap_ms=gap))
            known = at
        else:
            stage = _missing(number, last, is_over=run.status in FINAL)
            at_ms = run.due_at if number == 0 else None
            found.append(Step(word=word, stage=stage, at_ms=at_ms))
    return found


def shares(run: DetailedRun, now_ms: int) -> Shares | None:
    """Return how long a run waited and worked; None before it is due."""
    end = run.finished_at or (now_ms if run.status not in FINAL else None)
    if end is None or end <= run.due_at:
        return None
    began = min(max(run.started_at or end, run.due_at), end)
    return Shares(waited_ms=began - run.due_at, worked_ms=end - began)


def _missing(number: int, last: int, *, is_over: bool) -> Stage:
    if is_over or number < last:
        return Stage.SKIPPED
    return Stage.NOW if number == last + 1 else Stage.AHEAD
