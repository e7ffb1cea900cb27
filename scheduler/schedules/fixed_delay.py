"""A number of seconds after the end of the previous run."""

from dataclasses import dataclass
from typing import Self

from warren.scheduler.schedules.period import period_ms
from warren.scheduler.schedules.schedule import SingleTick, ValueForm


@dataclass(frozen=True, slots=True)
class FixedDelay(SingleTick):
    """The one open tick, the anchor; the end of its run sets the next one."""

    kind = "FIX_DELAY"
    keyword = "delay"
    value_form = ValueForm.SECONDS
    unit = " s"
    title = "fixed delay"
    advice = "N seconds after the previous run finishes."
    sentence = "%(value)s s after each run has ended"
    waits_for_completion = True

    delay_ms: int

    @classmethod
    def read(cls, value: str, _timezone: str) -> Self:
        """Read whole seconds."""
        return cls(period_ms(value))

    @classmethod
    def waiting_for(cls, value: str) -> str:
        """Return that the job waits for a run to end, and what follows."""
        return f"{value} s after the end of its run"

    def tick(self, anchor_ms: int) -> int | None:
        """Return the anchor."""
        return anchor_ms

    def start(self, now_ms: int) -> tuple[int, int | None]:
        """Fire at once."""
        return now_ms, now_ms + 1

    def after_completion(self, finished_ms: int) -> int | None:
        """Return the end of the delay."""
        return finished_ms + self.delay_ms

    def least_distance_ms(self) -> int | None:
        """Return the delay, as a run's duration cannot be computed."""
        return self.delay_ms
