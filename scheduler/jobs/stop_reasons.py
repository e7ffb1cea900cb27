"""Why a job stopped: a person stopped it, or its schedule has ended or has a fault.

A job that a person stopped has no more runs of its schedule, retries included. It has no stored
reason, unless it had ended by itself before: then the reason names the person, and says that the
schedule has ended.
"""

from typing import Protocol

from warren.broker.reasons import Sentence, Why
from warren.broker.stored_reasons import from_json

#: A schedule has ended.
_ENDS = (Why.NO_FURTHER_TIME, Why.SCHEDULE_OVER, Why.CALENDAR_ENDED)


class Stopped(Protocol):
    """A job's row, or a part of it."""

    @property
    def stop_reason(self) -> str | None:
        """Why it is stopped, in words."""

    @property
    def stop_why(self) -> str | None:
        """The reason behind the words, as JSON."""


def is_by_person(job: Stopped) -> bool:
    """Whether a stopped job was stopped by a person, or never started."""
    return job.stop_reason is None or _code_of(job) is Why.STOPPED_BY


def has_ended(job: Stopped) -> bool:
    """Whether a stopped job has ended by itself, and its runs are still retried."""
    return _code_of(job) in (*_ENDS, Why.SCHEDULE_CHANGED_BY, Why.BACKFILLED_INSTEAD)


def ended_with_calendar(job: Stopped) -> bool:
    """Whether a stopped job has stopped where the data of its calendar ended."""
    return _code_of(job) is Why.CALENDAR_ENDED


def is_over(job: Stopped) -> bool:
    """Whether a stopped job's schedule has no due time left, whatever its other settings."""
    return _code_of(job) in (*_ENDS, Why.STOPPED_BY)


def may_start(job: Stopped) -> bool:
    """Whether a stopped job may be started as it is: its schedule has not ended."""
    return job.stop_reason is None or _code_of(job) in (
        Why.SCHEDULE_CHANGED_BY,
        Why.IMPORTED_IN_PART,
        Why.BACKFILLED_INSTEAD,
    )


def _code_of(job: Stopped) -> Sentence | None:
    reason = from_json(job.stop_why) if job.stop_why else None
    return None if reason is None else reason.code
