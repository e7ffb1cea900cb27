"""The interface of every kind of schedule: when it is due, how it is written, its names.

Each kind is a class in this folder, listed in `registry`; other code uses this interface only. Its
texts are English; the console translates them. `ScheduleFacts` is all that decides a schedule's
ticks, as one value: what a row says, or what JSON keeps of it.

Instants are epoch milliseconds, as in the job's row. The *anchor* is any one tick of the job, in
practice its stored next time: a fixed rate takes its phase from it, a fixed delay its only tick;
the others need none.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import ClassVar, Protocol, Self

from warren.broker.reasons import Reason, Why
from warren.scheduler.schedules.options import ScheduleOptions

#: Translates an English text into the reader's language.
Translate = Callable[[str], str]


class ValueForm(StrEnum):
    """How a form asks for the value of a schedule."""

    EXPRESSION = "expression"
    SECONDS = "seconds"
    INSTANT = "instant"
    WORKDAY = "workday"
    NOTHING = "nothing"


class Ticks(ABC):
    """The ticks of one job: queries on a fixed set of instants."""

    #: Whether it ever makes its job due.
    fires: ClassVar[bool] = True
    #: Whether the end of a run sets the next tick; the schedule then has not ended without one.
    waits_for_completion: ClassVar[bool] = False
    #: Whether its anchor decides its ticks.
    is_rhythmic: ClassVar[bool] = False

    __slots__ = ()

    @abstractmethod
    def next_after(self, after_ms: int, anchor_ms: int) -> int | None:
        """Return the first tick after this instant.

        None = never again; if it waits for completion, not before a run has ended.
        """

    @abstractmethod
    def last_until(self, after_ms: int, until_ms: int, anchor_ms: int) -> int | None:
        """Return the last tick after `after_ms` and not after `until_ms`."""

    @abstractmethod
    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int:
        """Count the ticks after `after_ms` and not after `until_ms`; cheap for long spans."""

    def ticks(self, after_ms: int, until_ms: int, anchor_ms: int, limit: int) -> list[int]:
        """List the first `limit` ticks after `after_ms` and not after `until_ms`."""
        due_times: list[int] = []
        while len(due_times) < limit:
            tick = self.next_after(due_times[-1] if due_times else after_ms, anchor_ms)
            if tick is None or tick > until_ms:
                break
            due_times.append(tick)
        return due_times

    def start(self, now_ms: int) -> tuple[int, int | None]:
        """Return the watermark and the first tick of a job that starts now; None = never."""
        return now_ms, self.next_after(now_ms, now_ms)

    def after_completion(self, _finished_ms: int) -> int | None:
        """Return the tick that the end of a run sets; None if it does not wait for completion."""
        return None

    def fixed_period_ms(self) -> int:
        """Return the time from each tick to the next; 0 = it varies."""
        return 0

    def least_distance_ms(self) -> int | None:
        """Return the shortest distance that the audit expects between ticks it cannot compute."""
        return None

    def due_at(self, _job_id: int, tick_ms: int) -> int:
        """Return when the run of a job's tick is due: the tick itself, or later with jitter."""
        return tick_ms

    def end_reason(self, _watermark_ms: int) -> Reason:
        """Return why there is no tick after the last one."""
        return Why.NO_FURTHER_TIME()

    def ends_with_calendar(self) -> int | None:
        """Return the last day that its calendar knows, if it continues after it; else None."""
        return None

    def lost_to(self, _effective_ms: int) -> list[int]:
        """Return the times to which a version of its calendar that starts then moves later ticks.

        They are before that start, so nothing runs for them.
        """
        return []

    def check_new(self, _now_ms: int) -> None:  # noqa: B027 - most kinds are never too late
        """Raise `Problem` if new jobs may no longer have this schedule."""


class Schedule(Ticks):
    """A kind of schedule: how its values are written, and the ticks of each.

    Class methods and attributes work even for a value that cannot be parsed.
    """

    #: The value in the column.
    kind: ClassVar[str]
    #: Its name in a job file.
    keyword: ClassVar[str]
    value_form: ClassVar[ValueForm]
    #: What else a job file may say beside the keyword to make the value.
    more_keys: ClassVar[tuple[str, ...]] = ()
    #: What the command line shows after the value.
    unit: ClassVar[str] = ""
    #: Its name in the console, and when to choose it.
    title: ClassVar[str]
    advice: ClassVar[str]
    #: When it fires, with a place for the value.
    sentence: ClassVar[str]
    #: Whether its ticks depend on the time zone.
    uses_timezone: ClassVar[bool] = False
    #: Whether its ticks may be narrowed and moved by options, and whether they need a calendar.
    takes_options: ClassVar[bool] = False
    needs_calendar: ClassVar[bool] = False

    __slots__ = ()

    @classmethod
    @abstractmethod
    def read(cls, value: str, timezone: str) -> Self:
        """Parse a row's value, in an IANA time zone; raises `Problem`."""

    @classmethod
    def newest_rule(cls, _begin: str) -> int:
        """Return the newest rule of a schedule that has this `from`; see `NEWEST_RULE`."""
        return 1

    @classmethod
    def written(cls, value: str) -> str:
        """Return a value as the command line shows it, in the words of a job file."""
        return f"{cls.keyword} {value}{cls.unit}"

    @classmethod
    def in_job_file(cls, value: str) -> dict[str, str | int]:
        """Return a value as in a job file, by its keyword."""
        is_number = cls.value_form is ValueForm.SECONDS and value.isdecimal()
        return {cls.keyword: int(value) if is_number else value}

    @classmethod
    def value_of(cls, said: object, _more: Mapping[str, object]) -> str:
        """Return the value to store, of what a job file says by its keyword and `more_keys`."""
        return str(said)

    @classmethod
    def in_words(cls, value: str, translate: Translate, _language: str) -> str:
        """Return when it fires, in words of a language such as `zh-CN`."""
        return translate(cls.sentence) % {"value": value}

    @classmethod
    def hint(cls, _value: str, _language: str) -> str:
        """Return in words what in a value is easily misread; empty if nothing is."""
        return ""

    @classmethod
    def waiting_for(cls, _value: str) -> str:
        """Return, in English, what a job waits for until it has a next tick."""
        return ""


class SingleTick(Schedule):
    """A schedule with one tick at a time."""

    __slots__ = ()

    @abstractmethod
    def tick(self, anchor_ms: int) -> int | None:
        """Return its tick; None = it has none."""

    def next_after(self, after_ms: int, anchor_ms: int) -> int | None:
        """Return the tick, if it comes after this instant."""
        tick = self.tick(anchor_ms)
        return tick if tick is not None and tick > after_ms else None

    def last_until(self, after_ms: int, until_ms: int, anchor_ms: int) -> int | None:
        """Return the tick, if it is in this span."""
        tick = self.next_after(after_ms, anchor_ms)
        return tick if tick is not None and tick <= until_ms else None

    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int:
        """Return 1 if the tick is in this span."""
        return 0 if self.last_until(after_ms, until_ms, anchor_ms) is None else 1


class Scheduled(Protocol):
    """A job's row, a change in its history, or a part of either."""

    @property
    def schedule_kind(self) -> str:
        """A kind of schedule, by its value in the column."""

    @property
    def schedule_value(self) -> str | None:
        """Its value, which the kind reads."""

    @property
    def schedule_options(self) -> str | None:
        """Its options, as JSON."""


@dataclass(frozen=True, slots=True)
class ScheduleFacts:
    """A schedule as it is stored.

    Attributes:
        kind: a kind of `registry`.
        value: what it reads.
        timezone: the IANA name of its zone.
        options: its options as canonical JSON; empty = none.

    """

    kind: str
    value: str
    timezone: str
    options: str = ""

    @classmethod
    def of(cls, row: Scheduled, timezone: str) -> Self:
        """Return the facts of a row, in a time zone."""
        return cls(
            row.schedule_kind, row.schedule_value or "", timezone, row.schedule_options or ""
        )

    @classmethod
    def from_json(cls, stored: str) -> Self:
        """Return what `to_json` has written."""
        return cls(**json.loads(stored))

    def to_json(self) -> str:
        """Return the facts as canonical JSON."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def calendar_of(row: Scheduled) -> str:
    """Return the name of the calendar that a row's schedule uses; empty if it uses none."""
    if not row.schedule_options or '"calendar"' not in row.schedule_options:
        return ""
    return ScheduleOptions.from_json(row.schedule_options).calendar
