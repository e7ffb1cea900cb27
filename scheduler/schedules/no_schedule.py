"""No schedule: such a job runs by hand, by the API, or as the child of another."""

from dataclasses import dataclass
from typing import Self

from warren.scheduler.schedules.schedule import SingleTick, ValueForm
from warren.sql.job_choices import NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class NoSchedule(SingleTick):
    """No tick; its value is ignored."""

    kind = NO_SCHEDULE
    keyword = "none"
    value_form = ValueForm.NOTHING
    title = "none"
    advice = "Manually, through the API, or as a child of another job."
    sentence = "No schedule"
    fires = False

    @classmethod
    def read(cls, _value: str, _timezone: str) -> Self:
        """Return the schedule without ticks."""
        return cls()

    @classmethod
    def written(cls, _value: str) -> str:
        """Return the keyword alone."""
        return cls.keyword

    @classmethod
    def in_job_file(cls, _value: str) -> dict[str, str | int]:
        """Return nothing: it is the default."""
        return {}

    def tick(self, _anchor_ms: int) -> int | None:
        """Return None."""
        return None
