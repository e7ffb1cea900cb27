"""The calendars of a job file: what they change, in words, and how they are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from warren.scheduler.calendars.calendar_spec import OVER, CalendarSpec
from warren.scheduler.commands.business_day.calendars import CalendarChange, CalendarCommands
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.commands.job_files.preview import Change
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.calendar_rows import CalendarDays, load_calendars
from warren.scheduler.schedules.run_date import zone_or_utc
from warren.scheduler.schedules.working_days import Calendar, Calendars

#: Jobs and due times of which each has a line.
MAX_LINES = 20


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The days of the calendars of job files, what they change, and the calendars with them."""

    days: Mapping[str, CalendarDays]
    of: Sequence[CalendarChange]
    calendars: Calendars
    zone: ZoneInfo

    @property
    def changes(self) -> list[Change]:
        """What would change, in words."""
        return [in_words(change, self.zone) for change in self.of]


def foresee_calendars(context: CommandContext, specs: Sequence[CalendarSpec]) -> Foreseen:
    """Return what the calendars of job files would change; nothing is stored.

    One of which all that it knows has passed does not replace a stored one, which may know more.

    Raises:
        Problem: the actor may not change calendars, or a calendar makes no sense.

    """
    commands, zone = CalendarCommands(context), zone_or_utc(context.timezone)
    names = [spec.name for spec in specs]
    stored = context.database.read(lambda session: load_calendars(session, names))
    days = {spec.name: _days(commands, spec, stored) for spec in specs}
    changes = [
        commands.foresee(name, each) if each else CalendarChange(name=name)
        for name, each in days.items()
    ]
    calendars, known = dict(stored), {name: each for name, each in days.items() if each}
    for change in changes:
        if change.number:
            before = stored[change.name].versions if change.name in stored else ()
            version = known[change.name].version(change.number, change.effective_ms)
            calendars[change.name] = Calendar(change.name, (*before, version))
    return Foreseen(known, changes, calendars, zone)


def _days(commands: CalendarCommands, spec: CalendarSpec, stored: Calendars) -> CalendarDays | None:
    """Return the days of a calendar; None = they have passed, and the stored ones stay."""
    try:
        return commands.resolved(spec)
    except Problem as problem:
        if problem.code not in OVER:
            raise
    return None if spec.name in stored else commands.resolved(spec, even_over=True)


def store_calendars(context: CommandContext, foreseen: Foreseen) -> list[Change]:
    """Store the calendars that differ; return a change for each of all."""
    commands = CalendarCommands(context)
    return [
        in_words(commands.apply(change.name, foreseen.days[change.name]), foreseen.zone)
        if change.number
        else in_words(change, foreseen.zone)
        for change in foreseen.of
    ]


def in_words(change: CalendarChange, zone: ZoneInfo) -> Change:
    """Return a change of a calendar with a line for each job that it moves, and each lost tick."""
    if not change.number:
        return Change(action=ChangeAction.UNCHANGED, what="calendar", name=change.name)
    action = ChangeAction.CREATE if change.number == 1 else ChangeAction.UPDATE
    lines = [str(change.not_taken)] if change.not_taken else []
    lines += [
        f"{lost.app}/{lost.job}: {_shown(lost.tick_ms, zone)} has passed by then, and is skipped"
        for lost in change.lost
    ]
    lines += [
        f"{moved.app}/{moved.job}: next {_shown(moved.before_ms, zone)} -> "
        f"{_shown(moved.after_ms, zone)}"
        for moved in change.moved
    ]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more"]
    head = f"version {change.number}, known until {change.until}"
    return Change(action=action, what="calendar", name=change.name, details=(head, *lines))


def _shown(instant_ms: int | None, zone: ZoneInfo) -> str:
    if instant_ms is None:
        return "none"
    return f"{datetime.fromtimestamp(instant_ms / 1_000, zone):%Y-%m-%d %H:%M:%S %Z}"
