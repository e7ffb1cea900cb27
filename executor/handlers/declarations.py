"""What `@job` can declare about a handler's job: its schedule, its retries, its other fields.

A job in code has the same fields and values as one in a job file, and is read by the same reader;
`declared_jobs.py` beside this writes them out. Imports the standard library only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from traceback import walk_tb
from typing import Any, TypedDict

from warren.broker.durations import DURATION, seconds_of

#: The longest wait, in seconds, as for a job's `retry_delay`.
MAX_SECONDS = 9_999_999
MAX_TIMES = 1_000
BACKOFFS = ("fixed", "exponential")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a job is due, by the keyword of a job file; made by `cron`, `every`, `delay` and `at`.

    `zone` is the IANA name of its time zone; empty = the scheduler's. `options` are those of a job
    file, such as `calendar`; `from` is written `from_`.
    """

    keyword: str
    value: float | str
    zone: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


def cron(expression: str, *, zone: str = "", **options: str) -> Schedule:
    """Return a schedule by a Quartz cron expression, whose first field is the second.

    `0 0 2 * * ?` is 02:00 on each day. `options` are those of a job file: `calendar="cn"`.
    """
    return Schedule(keyword="cron", value=expression, zone=zone, options=options)


def every(interval: float | str, *, zone: str = "", **options: str) -> Schedule:
    """Return a schedule with a due time each interval: seconds, or a duration such as "5m"."""
    return Schedule(keyword="every", value=interval, zone=zone, options=options)


def workday(nth: int, time: str, *, calendar: str, zone: str = "", **options: str) -> Schedule:
    """Return a schedule on a working day of each month: 3 is the third, -1 the last one."""
    more = {"time": time, "calendar": calendar, **options}
    return Schedule(keyword="workday", value=nth, zone=zone, options=more)


def delay(pause: float | str, *, zone: str = "") -> Schedule:
    """Return a schedule that is due this long after each run's end: seconds, or such as "5m"."""
    return Schedule(keyword="delay", value=pause, zone=zone)


def at(moment: datetime | str, *, zone: str = "") -> Schedule:
    """Return a schedule with one due time: ISO 8601 with its offset, or an aware datetime."""
    value = moment.isoformat() if isinstance(moment, datetime) else moment
    return Schedule(keyword="at", value=value, zone=zone)


class JobFields(TypedDict, total=False):
    """The fields of a job that its handler may declare, as in a job file.

    `job_name` is the job's name, by default the handler's. `param` is a text, the handler's params,
    or anything else that becomes JSON. Durations are seconds, or texts such as "90s", "5m", "2h".
    A test holds that there is one for each field of a job.
    """

    app: str
    job_name: str
    author: str
    tags: Sequence[str]
    schedule: Schedule
    run_date: Mapping[str, int | str]
    param: object
    param_template: str
    route: str
    block: str
    misfire: str | Mapping[str, Mapping[str, int | str]]
    late_limit: int | str
    catch_up: Mapping[str, int | str]
    delivery: str
    concurrency: int
    scope: str
    limits: Sequence[str | Mapping[str, int]]
    priority: str
    max_waiting: int
    timeout: int | str
    children: Sequence[str]
    alarm: Mapping[str, object]
    webhook: Mapping[str, str]
    expect: Mapping[str, str]
    enabled: bool


@dataclass(frozen=True, slots=True)
class Retry:
    """How a job is retried; see docs/jobs.md. Durations become seconds.

    Of the exceptions that a run may raise, only those in `only` are retried, by default all, and
    those in `never` are not, however many retries are left.

    Raises:
        ValueError: a value is out of range, or two do not fit together.
        TypeError: `never` or `only` holds something other than exception classes.

    """

    times: int
    delay: float | str = 0
    backoff: str = "fixed"
    most: float | str = 0
    jitter: float = 0.0
    never: tuple[type[BaseException], ...] = ()
    only: tuple[type[BaseException], ...] = (BaseException,)

    def __post_init__(self) -> None:
        for name in ("delay", "most"):
            object.__setattr__(self, name, wait_seconds(getattr(self, name), name))
        for name in ("never", "only"):
            kinds = getattr(self, name)
            kinds = kinds if isinstance(kinds, tuple) else (kinds,)
            object.__setattr__(self, name, kinds)
            for kind in kinds:
                if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                    raise TypeError(f"expected {name} to be exception classes, got: {kind!r}")
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

    def allows(self, error: BaseException) -> bool:
        """Whether a run that raised this may be retried."""
        return isinstance(error, self.only) and not isinstance(error, self.never)


def refusal_in(error: BaseException) -> str | None:
    """Return the line, with its place, of what this module refused in users' code; None = nothing.

    Values are refused where they are made, which may be before they are given to `@job`.
    """
    frames = [(frame, number) for frame, number in walk_tb(error.__traceback__)]
    if not frames or frames[-1][0].f_globals.get("__name__") != __name__:
        return None
    # What dataclasses generate has no file.
    theirs = [
        f"{frame.f_code.co_filename}:{number}"
        for frame, number in frames
        if frame.f_globals.get("__name__") != __name__ and frame.f_code.co_filename != "<string>"
    ]
    return f"{error} ({theirs[-1]})" if theirs else str(error)


def wait_seconds(delay: Any, what: str) -> float:
    """Return a wait in seconds, given as seconds or as a duration; `what` names it in an error.

    Raises:
        ValueError: it is neither, or longer than MAX_SECONDS.

    """
    seconds: Any = seconds_of(delay, needs_unit=True) if isinstance(delay, str) else delay
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= MAX_SECONDS:
        raise ValueError(
            f"expected {what} to be seconds, or {DURATION}, up to {MAX_SECONDS} s, got: {delay!r}"
        )
    return seconds  # type: ignore[no-any-return] # a number


def _is_whole(value: object, maximum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= maximum


def _is_share(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= 1 and round(value, 2) == value  # type: ignore[operator, call-overload] # a number
