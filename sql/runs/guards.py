"""Conditions on runs in SQL, for statements that bypass the ORM."""

from collections.abc import Iterable

from warren.sql.batch import Guard
from warren.sql.models import Run
from warren.sql.run_status import ENTERED_FROM, RunStatus


def may_enter(entered: RunStatus) -> Guard:
    """Return the guard that a run may enter this status."""
    return status_in(ENTERED_FROM[entered])


def status_in(statuses: Iterable[RunStatus]) -> Guard:
    """Return the guard that a run is in one of these statuses."""
    names = ", ".join(f"'{status.value}'" for status in sorted(statuses))
    return Guard(f"{Run.status.expression} IN ({names})")
