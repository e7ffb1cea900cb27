"""Every kind of schedule by its value in the column, and the parsing of rows.

A row may hold an unknown kind, written by a newer version. It cannot be parsed, which stops its
job.
"""

from collections.abc import Mapping

from warren.scheduler.cron.cron_fields import echo
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.cron_schedule import CronSchedule
from warren.scheduler.schedules.fixed_delay import FixedDelay
from warren.scheduler.schedules.fixed_rate import FixedRate
from warren.scheduler.schedules.no_schedule import NoSchedule
from warren.scheduler.schedules.one_time import OneTime
from warren.scheduler.schedules.schedule import Schedule

KINDS: Mapping[str, type[Schedule]] = {
    one.kind: one for one in (NoSchedule, CronSchedule, FixedRate, FixedDelay, OneTime)
}
#: The kinds whose next tick is set by the end of a run.
WAITING_KINDS = frozenset(kind for kind, one in KINDS.items() if one.waits_for_completion)

#: The kinds whose ticks depend on the time zone.
ZONED_KINDS = frozenset(kind for kind, one in KINDS.items() if one.uses_timezone)


def read_schedule(kind: str, value: str | None, timezone: str) -> Schedule:
    """Parse a row's kind and value, in an IANA time zone; raises `Problem`."""
    if kind not in KINDS:
        raise Problem(Code.SCHEDULE_KIND, known=", ".join(KINDS), got=echo(kind))
    return KINDS[kind].read(value or "", timezone)


def has_schedule(kind: str) -> bool:
    """Whether a row's kind can make its job due; an unknown kind may."""
    return kind not in KINDS or KINDS[kind].fires


def shown_as(kind: str) -> type[Schedule]:
    """Return the class that displays a row's value; `NoSchedule` for an unknown kind."""
    return KINDS.get(kind, NoSchedule)


def hint(kind: str, value: str | None, language: str = "en") -> str:
    """Return in words what in a row's schedule is easily misread; empty if nothing is."""
    return shown_as(kind).hint(value or "", language)


def written(kind: str, value: str | None) -> str:
    """Return a row's schedule in the words of a job file; an unknown kind by its own name."""
    if kind not in KINDS:
        return f"{kind} {value or ''}".strip()
    return KINDS[kind].written(value or "")
