"""Throughput and costs of runs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """Runs per second; per run, processor microseconds by process and rows read by the database."""

    runs_per_second: float
    cpu_us: dict[str, float]
    rows_read: float = 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and its range."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Spread":
        """Return the median and range of some figures."""
        return cls(statistics.median(figures), min(figures), max(figures))

    def words(self, digits: int = 0) -> str:
        """Return `0.42 (0.40 to 0.45)`, or just the figure if there is only one."""
        middle = f"{self.median:,.{digits}f}"
        if self.lowest == self.highest:
            return middle
        return f"{middle} ({self.lowest:,.{digits}f} to {self.highest:,.{digits}f})"


def ratio(ours: Sequence[Rate], others: Sequence[Rate]) -> Spread:
    """Return the ratio of our rates to others measured in turn with them, pair by pair."""
    pairs = zip(ours, others, strict=True)
    return Spread.of([one.runs_per_second / other.runs_per_second for one, other in pairs])


def speed(rates: Sequence[Rate]) -> Spread:
    """Return the runs per second."""
    return Spread.of([rate.runs_per_second for rate in rates])


def cpu_us(rates: Sequence[Rate]) -> dict[str, float]:
    """Return processor microseconds per run by process, as medians of all rounds."""
    return {
        name: statistics.median(rate.cpu_us[name] for rate in rates) for name in rates[0].cpu_us
    }
