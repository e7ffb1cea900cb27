"""Counters by app, to which schedulers add every few seconds; deleting runs does not lower them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from warren.sql.batch import modify
from warren.sql.dialects.supported import of
from warren.sql.models import App, MetricCount
from warren.sql.rows import fetch, query
from warren.sql.run_status import RunStatus


class Counted(StrEnum):
    #: Ended runs; the label is their status.
    RUNS = "runs"
    #: How long runs took, and how late they started. The label is the upper bound of a bucket in
    #: milliseconds, ABOVE, or SUM for the sum of all in milliseconds.
    DURATION = "duration"
    LATENESS = "lateness"
    #: Skipped due times; no label.
    SKIPS = "skips"


#: The upper bounds of buckets in milliseconds, without the last bucket, which has none.
DURATION_BOUNDS_MS = (
    *(100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 1_800_000),
    *(3_600_000, 7_200_000, 14_400_000, 28_800_000),
)
LATENESS_BOUNDS_MS = (
    *(50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000),
    *(300_000, 900_000, 3_600_000),
)
#: Labels of a histogram besides its bounds.
ABOVE, SUM = "above", "sum"


class CountKey(NamedTuple):
    """Identifies a counter: what it counts, of which app, with which label."""

    name: Counted
    app_id: int
    label: str = ""


class AppCount(NamedTuple):
    """The value of one of an app's counters."""

    name: str
    app: str
    label: str
    number: int


def add(session: Session, counts: Mapping[CountKey, int]) -> None:
    """Add to counters; those that do not exist yet begin at 0."""
    rows = [
        {"name": key.name.value, "app_id": key.app_id, "label": key.label, "count": count}
        for key, count in sorted(counts.items())  # in the same order for all, to avoid deadlocks
        if count
    ]
    if rows:
        session.execute(of(session).insert_or_add(MetricCount, MetricCount.count), rows)


def add_cancelled(session: Session, cancelled: Mapping[int, int]) -> None:
    """Count runs that this transaction has cancelled, by app id."""
    status = RunStatus.CANCELLED.value
    add(session, {CountKey(Counted.RUNS, app_id, status): n for app_id, n in cancelled.items()})


def add_skips(session: Session, skipped: Mapping[int, int]) -> None:
    """Count due times that this transaction has skipped, by app id."""
    add(session, {CountKey(Counted.SKIPS, app_id): n for app_id, n in skipped.items()})


def of_apps(session: Session) -> list[AppCount]:
    """Return all counters of apps that exist."""
    counts = query(AppCount, MetricCount, app=App.name, number=MetricCount.count)
    return fetch(session, AppCount, counts.join(App, App.id == MetricCount.app_id))


def app_names(session: Session) -> list[str]:
    return list(session.execute(select(App.name).order_by(App.name)).scalars())


def forget_app(session: Session, app_id: int) -> None:
    """Delete the counters of an app that is deleted."""
    modify(session, delete(MetricCount).where(MetricCount.app_id == app_id))
