"""How a handler says when its run is tried again. Imports little but the standard library."""

from dataclasses import dataclass
from typing import Any

from warren.broker.durations import DURATION, seconds_of

#: The longest wait, in seconds, as for a job's `retry_delay`.
MAX_SECONDS = 9_999_999
MAX_TIMES = 1_000
BACKOFFS = ("fixed", "exponential")


class RetryLater(Exception):
    """The run fails and is tried again after this wait, if its job has retries left.

    Args:
        delay: seconds, or a duration such as "90s", "5m", "2h" or "1d".
        message: the run's message.

    Raises:
        ValueError: the delay is no such duration.

    """

    def __init__(self, delay: float | str, message: str = "") -> None:
        self.seconds = wait_seconds(delay, "delay")
        super().__init__(message or f"to be tried again in {self.seconds:g} s")


@dataclass(frozen=True, slots=True)
class Retry:
    """How a job is retried; see docs/jobs.md. Durations become seconds.

    `never` are exceptions after which a run is not retried, however many retries are left.

    Raises:
        ValueError: a value is out of range, or two do not fit together.
        TypeError: `never` holds something else than exception classes.

    """

    times: int
    delay: float | str = 0
    backoff: str = "fixed"
    most: float | str = 0
    jitter: float = 0.0
    never: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        for name in ("delay", "most"):
            object.__setattr__(self, name, wait_seconds(getattr(self, name), name))
        never = self.never if isinstance(self.never, tuple) else (self.never,)
        object.__setattr__(self, "never", never)
        delay, most = self.delay, self.most
        for is_right, words in (
            (
                _is_whole(self.times, MAX_TIMES),
                f"times to be 0 to {MAX_TIMES}, got: {self.times!r}",
            ),
            (
                self.backoff in BACKOFFS,
                f"backoff to be one of {', '.join(BACKOFFS)}, got: {self.backoff!r}",
            ),
            (
                not most or most >= delay,  # type: ignore[operator] # both are seconds now
                f"most to be at least the delay of {delay} s, got: {most}",
            ),
            (self.backoff != "exponential" or delay, "a delay, because backoff is exponential"),
            (
                _is_share(self.jitter),
                f"jitter to be a number from 0 to 1 with up to two decimals, got: {self.jitter!r}",
            ),
        ):
            if not is_right:
                raise ValueError(f"expected {words}")
        for kind in never:
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise TypeError(f"expected never to be exception classes, got: {kind!r}")


def wait_seconds(delay: Any, what: str) -> float:
    """Return a wait, in seconds or as a duration, in seconds.

    Raises:
        ValueError: it is none, or longer than MAX_SECONDS.

    """
    seconds: Any = seconds_of(delay, needs_unit=True) if isinstance(delay, str) else delay
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= MAX_SECONDS:
        raise ValueError(
            f"expected {what} to be seconds, or {DURATION}, up to {MAX_SECONDS} s, got: {delay!r}"
        )
    return seconds  # type: ignore[no-any-return] # a number


def _is_whole(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _is_share(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= 1 and round(value, 2) == value  # type: ignore[operator, call-overload] # a number
