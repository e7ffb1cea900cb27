"""Every given number of seconds, however long a run takes."""

from dataclasses import dataclass
from typing import Self

from warren.scheduler.schedules.period import period_ms
from warren.scheduler.schedules.schedule import Schedule, ValueForm


@dataclass(frozen=True, slots=True)
class FixedRate(Schedule):
    """anchor + n * period, for every whole n."""

    kind = "FIX_RATE"
    keyword = "every"
    value_form = ValueForm.SECONDS
    unit = " s"
    title = "fixed rate"
    advice = "Every N seconds, regardless of how long a run takes."
    sentence = "Every %(value)s s"

    period_ms: int

    @classmethod
    def read(cls, value: str, _timezone: str) -> Self:
        """Read whole seconds."""
        return cls(period_ms(value))

    def next_after(self, after_ms: int, anchor_ms: int) -> int | None:
        """Return the first tick after this instant."""
        return anchor_ms + (self._rank(after_ms, anchor_ms) + 1) * self.period_ms

    def last_until(self, after_ms: int, until_ms: int, anchor_ms: int) -> int | None:
        """Return the last tick of this span."""
        last = anchor_ms + self._rank(until_ms, anchor_ms) * self.period_ms
        return last if last > after_ms else None

    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int:
        """Count the ticks in this span."""
        return max(0, self._rank(until_ms, anchor_ms) - self._rank(after_ms, anchor_ms))

    def start(self, now_ms: int) -> tuple[int, int | None]:
        """Begin one period from now, on a whole second."""
        first = -(-(now_ms + self.period_ms) // 1_000) * 1_000
        return first - self.period_ms, first

    def fixed_period_ms(self) -> int:
        """Return its period."""
        return self.period_ms

    def _rank(self, instant_ms: int, anchor_ms: int) -> int:
        return (instant_ms - anchor_ms) // self.period_ms
