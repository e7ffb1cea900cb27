"""A single time."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from warren.scheduler.cron.cron_fields import echo
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.schedule import SingleTick, ValueForm

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class OneTime(SingleTick):
    """One instant, whatever the time zone of the job."""

    kind = "AT"
    keyword = "at"
    value_form = ValueForm.INSTANT
    title = "once"
    advice = "Runs once."
    sentence = "Once, at %(value)s"

    at_ms: int

    @classmethod
    def read(cls, value: str, _timezone: str) -> Self:
        """Read an ISO 8601 instant with its offset."""
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            at = None
        if at is None or at.tzinfo is None:
            raise Problem(Code.INSTANT, got=echo(value))
        return cls((at - _EPOCH) // _MILLISECOND)

    def tick(self, _anchor_ms: int) -> int | None:
        """Return the instant."""
        return self.at_ms
