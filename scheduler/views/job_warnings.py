"""Warnings about saved jobs: what looks wrong, but may be intended, so it is never refused."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy.orm import Session

from warren.broker.durations import shown
from warren.broker.messages import Catalogue
from warren.broker.reasons import Reason, Why
from warren.resources.spelling import nearest
from warren.scheduler.jobs.spec import JobSpec, facts_of
from warren.scheduler.schedules import registry
from warren.scheduler.schedules.reading import first_fires, load_calendars
from warren.scheduler.schedules.working_days import date_of, day_of
from warren.scheduler.views.process_view import read_catalogues
from warren.sql.alarms.watches import MIN_SUCCESSES
from warren.sql.instants import moment
from warren.sql.jobs import job_rows
from warren.sql.registry import apps, presence
from warren.sql.registry.presence import state

#: The most names that are compared with mistyped ones, which takes a second.
MAX_COMPARISONS = 20_000
#: How many due times are searched for a pause: a week of an hourly schedule.
DUE_TIMES_LOOKED_AT = 170
#: The warning about a job whose schedule follows an older rule.
OLD_RULE = (
    "due by the rule of an earlier version; what the newest changes: warren jobs follow-rules"
)


@dataclass(frozen=True, slots=True)
class OnlineExecutor:
    """An online executor; `catalogue` is None if it is not known."""

    address: str
    catalogue: Catalogue | None


class HandlerCheck:
    """Checks whether online executors of a job's app have its handler."""

    def __init__(self, online: Mapping[str, list[OnlineExecutor]]) -> None:
        self._online = online
        self._names: dict[str, frozenset[str]] = {}
        self._missing: dict[tuple[str, str], Reason] = {}
        self._comparisons = 0

    @classmethod
    def read(cls, session: Session, apps: Collection[str], now_ms: int) -> "HandlerCheck":
        only = next(iter(apps)) if len(apps) == 1 else None
        rows = [
            row
            for row in presence.listing(session, presence.EXECUTOR, only)
            if row.app in apps and state(row, now_ms).is_online
        ]
        catalogues = read_catalogues(session, rows)
        online: dict[str, list[OnlineExecutor]] = defaultdict(list)
        for row in rows:
            online[row.app].append(OnlineExecutor(row.address, catalogues.get(row.catalogue or "")))
        return cls(online)

    def of(self, spec: JobSpec) -> Reason | None:
        """Warn if no online executor has a job's handler, or if this was not checked."""
        online = self._online.get(spec.app, [])
        if not spec.handler:
            return None
        if not online:
            return Why.UNCHECKED_OFFLINE(app=spec.app)
        names = self._known(spec.app)
        if spec.handler in names:
            return None
        for executor in online:
            if executor.catalogue is None or executor.catalogue.has_more:
                return Why.UNCHECKED_UNTOLD(address=executor.address)
        key = spec.app, spec.handler
        if key not in self._missing:
            self._missing[key] = self._of_missing(spec.handler, names)
        return self._missing[key]

    def _of_missing(self, name: str, known: frozenset[str]) -> Reason:
        self._comparisons += len(known)
        if self._comparisons <= MAX_COMPARISONS and (near := nearest(name, sorted(known))):
            return Why.HANDLER_MISSING_NEAR(name=name, near=near)
        return Why.HANDLER_MISSING(name=name)

    def _known(self, app: str) -> frozenset[str]:
        if app not in self._names:
            catalogues = [
                executor.catalogue for executor in self._online[app] if executor.catalogue
            ]
            self._names[app] = frozenset(
                executor.name for each in catalogues for executor in each.handlers
            )
        return self._names[app]


def job_warnings(session: Session, spec: JobSpec, now_ms: int) -> list[str]:
    """Return what looks wrong about a job, in English."""
    handler = HandlerCheck.read(session, [spec.app], now_ms).of(spec)
    return [*([str(handler)] if handler else ()), *own_warnings(spec, now_ms)]


def file_warnings(
    session: Session, specs: Sequence[JobSpec], changed: Collection[str], now_ms: int
) -> list[tuple[str, str]]:
    """Return what looks wrong about the jobs of a file: pairs of APP/NAME and a sentence.

    Warnings about jobs that are not `changed` were given when those changed, and are not repeated,
    apart from that about their rule.
    """
    known = apps.ids_by_name(session)
    old = {
        f"{row.app}/{row.name}"
        for row in job_rows.without_rule(
            session,
            kinds=registry.RULED_KINDS,
            dated=registry.RULED_FROM_KINDS,
            app_ids={known[spec.app] for spec in specs if spec.app in known},
        )
    }
    check = HandlerCheck.read(session, {spec.app for spec in specs}, now_ms)
    warnings = []
    for spec in specs:
        name, handler = f"{spec.app}/{spec.name}", check.of(spec)
        warnings += [(name, str(handler))] if handler else []
        warnings += (
            [(name, words) for words in own_warnings(spec, now_ms)] if name in changed else []
        )
        warnings += [(name, OLD_RULE)] if name in old else []
    return [*warnings, *_ended_with_calendars(session, specs, now_ms)]


def _ended_with_calendars(
    session: Session, specs: Sequence[JobSpec], now_ms: int
) -> Iterable[tuple[str, str]]:
    """Yield the jobs to be started whose calendar has ended."""
    names = {spec.schedule_options.calendar for spec in specs if spec.enabled} - {""}
    known, today = load_calendars(session, names), day_of(moment(now_ms).date())
    for spec in specs:
        calendar = known.get(spec.schedule_options.calendar)
        if spec.enabled and calendar is not None and calendar.newest.until_day < today:
            until = date_of(calendar.newest.until_day)
            words = f"it has no due time: calendar {calendar.name!r} ended on {until}"
            yield f"{spec.app}/{spec.name}", words


def own_warnings(spec: JobSpec, now_ms: int) -> list[str]:
    """Return what looks wrong about a job, regardless of executors."""
    warnings = []
    if hint := registry.hint(spec.schedule_kind, spec.schedule_value):
        warnings.append(hint)
    if spec.expect.needs_usual:
        warnings.append(
            f"longest '{spec.expect.longest}' is watched once the job has {MIN_SUCCESSES} successes"
        )
    if pause := _longer_pause(spec, now_ms):
        warnings.append(
            f"success_every '{spec.expect.success_every}' is shorter than a pause of the schedule, "
            f"{shown(pause // 1_000)}: each such pause opens an incident"
        )
    return warnings


def _longer_pause(spec: JobSpec, now_ms: int) -> int | None:
    """Return the longest time between the next due times if no success can be expected in it."""
    every_ms = spec.expect.success_every_ms
    if not every_ms or not registry.has_schedule(spec.schedule_kind):
        return None
    if spec.schedule_options.calendar:
        return None  # it is not known here
    facts = facts_of(spec, "UTC")
    due_times = first_fires(facts, now_ms=now_ms, count=DUE_TIMES_LOOKED_AT)
    longest_ms = max((after - before for before, after in pairwise(due_times)), default=0)
    return longest_ms if longest_ms > every_ms else None
