"""How quickly runs pass, and what each costs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """Runs a second; a run's microseconds of the processor by process, and rows it had read."""

    runs_per_second: float
    cpu_us: dict[str, float]
    rows_read: float = 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the range that it stands for."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Spread":
        """Return the median of some figures and their range."""
        return cls(statistics.median(figures), min(figures), max(figures))

    def words(self, digits: int = 0) -> str:
        """Return `0.42 (0.40 to 0.45)`, or the one figure that there is."""
        middle = f"{self.median:,.{digits}f}"
        if self.lowest == self.highest:
            return middle
        return f"{middle} ({self.lowest:,.{digits}f} to {self.highest:,.{digits}f})"


def ratio(ours: Sequence[Rate], others: Sequence[Rate]) -> Spread:
    """Return how ours compare with others that were measured in turn with them, pair by pair."""
    pairs = zip(ours, others, strict=True)
    return Spread.of([one.runs_per_second / other.runs_per_second for one, other in pairs])


def speed(rates: Sequence[Rate]) -> Spread:
    """Return the runs a second."""
    return Spread.of([rate.runs_per_second for rate in rates])


def cpu_us(rates: Sequence[Rate]) -> dict[str, float]:
    """Return the processor's microseconds a run by process, each the median of all rounds."""
    return {
        name: statistics.median(rate.cpu_us[name] for rate in rates) for name in rates[0].cpu_us
    }
