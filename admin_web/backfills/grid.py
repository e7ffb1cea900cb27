"""The run dates of a backfill as a grid: a row for each month, a cell for each date."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from flask_babel import lazy_gettext

from warren.admin_web.language.labels import State
from warren.scheduler.views.backfill_view import FilledState, FilledTick
from warren.sql.backfill_status import BackfillState

#: What became of a due time.
FILLED: Mapping[str, State] = {
    FilledState.TO_COME: State(lazy_gettext("to come"), "quiet", "ring"),
    FilledState.LEFT_OUT: State(lazy_gettext("left out"), "quiet", "minus"),
    FilledState.OPEN: State(lazy_gettext("open"), "busy", "play"),
    FilledState.SUCCEEDED: State(lazy_gettext("succeeded"), "good", "check"),
    FilledState.SKIPPED: State(lazy_gettext("skipped"), "quiet", "minus"),
    FilledState.FAILED: State(lazy_gettext("failed"), "bad", "cross"),
    FilledState.CANCELLED: State(lazy_gettext("cancelled"), "quiet", "minus"),
    FilledState.CLEARED: State(lazy_gettext("cleared"), "quiet", "minus"),
}
#: The states of a backfill.
STATES: Mapping[str, State] = {
    BackfillState.OPEN: State(lazy_gettext("open"), "busy", "play"),
    BackfillState.PAUSED: State(lazy_gettext("paused"), "warn", "pause"),
    BackfillState.DONE: State(lazy_gettext("done"), "good", "check"),
    BackfillState.CANCELLED: State(lazy_gettext("cancelled"), "quiet", "minus"),
}
#: A date with several due times shows the first of these that one of them has.
_GRAVITY = (
    FilledState.FAILED,
    FilledState.OPEN,
    FilledState.TO_COME,
    FilledState.SUCCEEDED,
    FilledState.SKIPPED,
    FilledState.CANCELLED,
    FilledState.CLEARED,
    FilledState.LEFT_OUT,
)


class Cell(NamedTuple):
    """A run date: its state, how many due times it has, and the run that its state is from."""

    run_date: str
    state: str
    ticks: int
    run_id: int | None

    @property
    def day(self) -> str:
        """The day of the month."""
        return self.run_date[-2:]


class Month(NamedTuple):
    """The dates of a month, such as 2026-11."""

    name: str
    cells: list[Cell]


def months(ticks: Iterable[FilledTick]) -> list[Month]:
    """Return the dates of a backfill by month, in order."""
    by_date = sorted(ticks, key=lambda tick: (tick.run_date, tick.scheduled_at))
    cells = [
        _cell(run_date, list(of_date))
        for run_date, of_date in groupby(by_date, lambda tick: tick.run_date)
    ]
    return [
        Month(name, list(of_month))
        for name, of_month in groupby(cells, lambda cell: cell.run_date[:7])
    ]


def _cell(run_date: str, ticks: list[FilledTick]) -> Cell:
    worst = min(ticks, key=lambda tick: _GRAVITY.index(FilledState(tick.state)))
    return Cell(run_date, worst.state, len(ticks), worst.run_id)
