"""The outlook of each app: what is due in the next hour, and what of it starts late.

It knows the schedules, usual durations, slots of executors that are online, limits, pauses, and the
room of each job. It does not know what people and parents will start, how long a run takes in
truth, which executor a route chooses, or what becomes of held runs when a pause ends.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from warren.scheduler.board.outlook import Expected, Needed, Rate, Resource, Start, foresee
from warren.scheduler.limits import stored_uses
from warren.scheduler.membership.registration import stored_load
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.reading import calendars_for, read_schedule
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.sql.batch import chunks
from warren.sql.board import live, next_hour
from warren.sql.board.next_hour import DueJob, LimitRoom, Needs, OpenRun
from warren.sql.instants import HOUR_MS, MINUTE_MS
from warren.sql.models.job_tables import Scope
from warren.sql.registry import pauses, presence
from warren.sql.registry.pauses import EVERY_APP
from warren.sql.registry.presence import ProcessState
from warren.sql.run_status import IN_FLIGHT, LATE_MS, RunStatus
from warren.sql.unfolded import QUARTER_MS

MINUTES = 60
#: The most due times that are looked at: of one job, one a second, and of all jobs.
JOB_TICKS, ALL_TICKS = HOUR_MS // 1_000, 20_000
#: How long a run takes of which nothing is known.
UNKNOWN_MS = 1_000
#: The most late starts that an outlook lists.
MAX_LATE = 50
_SENT = IN_FLIGHT - {RunStatus.RUNNING}
_NO_NEEDS = Needs(0, 0, "", None, None, None)


def make(session: Session, *, timezone: str, now_ms: int, most: int = ALL_TICKS) -> None:
    """Store the outlook of each app that has executors or due runs.

    Args:
        session: a session that writes.
        timezone: that of jobs that name none.
        now_ms: where the hour begins.
        most: how many due times are looked at, or a few more.

    """
    until_ms = now_ms + HOUR_MS
    jobs = next_hour.due_jobs(session, until_ms)
    runs = next_hour.open_runs(session, until_ms)
    ids = sorted({job.id for job in jobs} | {run.job_id for run in runs})
    needs = {
        id_: need for part in chunks(ids) for id_, need in next_hour.needs(session, part).items()
    }
    slots, executors = _slots(session, now_ms)
    limits = next_hour.limits(session)
    takes = _Takes(needs, limits)
    planned = [
        *_due_times(
            session, jobs, takes, cluster_zone(session, timezone), (now_ms, until_ms), most=most
        ),
        *(_waiting(run, takes) for run in runs if run.status == RunStatus.PLANNED),
    ]
    paused = _paused(session, now_ms, until_ms)
    held = [one for one in planned if one.due_at < paused[one.app_id]]
    due = [one for one in planned if one.due_at >= paused[one.app_id]]
    due += [_waiting(run, takes) for run in runs if run.status in _SENT]
    running = [_running(run, takes, now_ms) for run in runs if run.status == RunStatus.RUNNING]
    apps = slots.keys() | {one.app_id for one in (*due, *held)}
    room = {Resource(Needed.SLOT, app_id): slots.get(app_id, 0) for app_id in apps}
    room |= {
        Resource(Needed.LIMIT, row.id): row.at_once for row in limits if row.at_once is not None
    }
    room |= _rooms(due, needs, executors)
    rates = {Resource(Needed.LIMIT, row.id): rate for row in limits if (rate := _rate(row))}
    starts = foresee(due, running, room, now_ms=now_ms, until_ms=until_ms, rates=rates)
    by_app: dict[int, list[Start]] = defaultdict(list)
    for start in starts:
        by_app[start.run.app_id].append(start)
    held_in = Counter(one.app_id for one in held)
    names = {row.id: row.name or "" for row in limits}
    is_cut = (
        len(due) + len(held) >= most
        or len(jobs) == next_hour.MAX_JOBS
        or len(runs) == next_hour.MAX_RUNS
    )
    outlooks = {
        app_id: content(
            by_app[app_id],
            [run for run in running if run.app_id == app_id],
            slots=slots.get(app_id, 0),
            limits=names,
            now_ms=now_ms,
            held=held_in[app_id],
            is_cut=is_cut,
        )
        for app_id in apps
    }
    next_hour.store(
        session, {app_id: json.dumps(facts) for app_id, facts in outlooks.items()}, now_ms=now_ms
    )


def content(
    starts: Sequence[Start],
    running: Iterable[Expected],
    *,
    slots: int,
    limits: Mapping[int, str],
    now_ms: int,
    held: int = 0,
    is_cut: bool = False,
) -> dict[str, Any]:
    """Return what is stored of an app: numbers by minute, and the first late starts.

    `minutes` is how many runs are expected to run at once in each minute at most, `waiting` how
    many wait. `quarters` is how many are due in each quarter of the hour; a pause holds `held`
    others. With `is_cut`, more is due than was looked at. `latest_ms` is how late the latest one
    starts, or is by the end of the hour, if one `stays_late`.
    """
    until_ms = now_ms + HOUR_MS
    runs = [(now_ms, now_ms + one.lasts_ms) for one in running]
    waits = []
    late = []
    for start in starts:
        begins_at = until_ms if start.starts_at is None else start.starts_at
        if start.starts_at is not None:
            runs.append((begins_at, begins_at + start.run.lasts_ms))
        if start.late_ms(until_ms) > LATE_MS:
            waits.append((start.run.due_at, begins_at))
            late.append(start)
    return {
        "slots": slots,
        "due": len(starts),
        "held": held,
        "quarters": _by_quarter((start.run.due_at for start in starts), now_ms),
        "is_cut": is_cut,
        "minutes": _most_at_once(runs, now_ms),
        "waiting": _most_at_once(waits, now_ms),
        "late_count": len(late),
        "latest_ms": max((start.late_ms(until_ms) for start in late), default=0),
        "stays_late": any(start.starts_at is None for start in late),
        "late": [
            {
                "job_id": start.run.job_id,
                "due_at": start.run.due_at,
                "starts_at": start.starts_at,
                "waits_for": _words(start.waited_for, limits),
            }
            for start in late[:MAX_LATE]
        ],
    }


def _by_quarter(due: Iterable[int], now_ms: int) -> list[int]:
    """Return how many due times are in each quarter of the hour; what is overdue is in none."""
    numbers = [0] * (HOUR_MS // QUARTER_MS)
    for due_at in due:
        place = (due_at - now_ms) // QUARTER_MS
        if 0 <= place < len(numbers):
            numbers[place] += 1
    return numbers


def _most_at_once(spans: Iterable[tuple[int, int]], now_ms: int) -> list[int]:
    """Return how many of these spans of time there are at once in each minute, at most."""
    changes = sorted(
        change
        for from_ms, to_ms in spans
        for change in ((max(from_ms, now_ms), 1), (max(to_ms, from_ms + 1, now_ms), -1))
    )
    most = [0] * MINUTES
    number, since_ms = 0, now_ms
    for at_ms, change in changes:
        first = (since_ms - now_ms) // MINUTE_MS
        last = min(MINUTES - 1, (at_ms - 1 - now_ms) // MINUTE_MS)
        for minute in range(first, last + 1):
            most[minute] = max(most[minute], number)
        number, since_ms = number + change, at_ms
    return most


def _words(resource: Resource | None, limits: Mapping[int, str]) -> str:
    if resource is None:
        return ""
    if resource.kind is Needed.LIMIT:
        return f"limit {limits.get(resource.id, '')}"
    return resource.kind.value


class _Takes:
    """What runs of each job take, and how long they last."""

    def __init__(self, needs: Mapping[int, Needs], limits: Iterable[LimitRoom]) -> None:
        self._needs = needs
        self._limits = {row.name: row.id for row in limits}

    def of(self, job_id: int, app_id: int) -> dict[Resource, int]:
        need = self._needs.get(job_id, _NO_NEEDS)
        taken = {Resource(Needed.SLOT, app_id): 1}
        if need.concurrency:
            taken[Resource(Needed.JOB, job_id)] = 1
        for use in stored_uses(need.limits):
            if use.name in self._limits:
                taken[Resource(Needed.LIMIT, self._limits[use.name])] = use.weight
        return taken

    def lasts_ms(self, job_id: int) -> int:
        need = self._needs.get(job_id, _NO_NEEDS)
        return need.usual_ms or need.took_ms or UNKNOWN_MS


def _due_times(
    session: Session,
    jobs: Sequence[DueJob],
    takes: _Takes,
    zone: str,
    span: tuple[int, int],
    *,
    most: int,
) -> list[Expected]:
    """Return the due times of schedules; those of fixed delays only until the next one."""
    found: list[Expected] = []
    calendars = calendars_for(session, jobs)
    for job in jobs:
        if len(found) >= most:
            break
        try:
            schedule = read_schedule(ScheduleFacts.of(job, job.timezone or zone), calendars)
        except Problem:  # the planner stops such a job, and says so
            continue
        after_ms = max(span[0], job.next_tick_at - 1)
        ticks = (
            [job.next_tick_at]
            if schedule.waits_for_completion
            else schedule.ticks(after_ms, span[1], job.next_tick_at, JOB_TICKS)
        )
        found += [_expected(job.id, job.app_id, tick, takes) for tick in ticks]
    return found


def _expected(job_id: int, app_id: int, due_at: int, takes: _Takes) -> Expected:
    return Expected(
        job_id=job_id,
        app_id=app_id,
        due_at=due_at,
        lasts_ms=takes.lasts_ms(job_id),
        takes=takes.of(job_id, app_id),
    )


def _waiting(run: OpenRun, takes: _Takes) -> Expected:
    return _expected(run.job_id, run.app_id, run.due_at, takes)


def _running(run: OpenRun, takes: _Takes, now_ms: int) -> Expected:
    ran_ms = max(0, now_ms - (run.started_at or now_ms))
    return Expected(
        job_id=run.job_id,
        app_id=run.app_id,
        due_at=run.due_at,
        lasts_ms=max(takes.lasts_ms(run.job_id) - ran_ms, UNKNOWN_MS),
        takes=takes.of(run.job_id, run.app_id),
    )


def _paused(session: Session, now_ms: int, until_ms: int) -> Mapping[int, int]:
    """Return until when each app is paused: after `until_ms` without an end; 0 = it is not."""
    ends = {
        pause.app_id: until_ms + 1 if pause.until_at is None else pause.until_at
        for pause in pauses.in_force(session, now_ms)
    }
    of_all = ends.get(EVERY_APP, 0)
    return defaultdict(lambda: of_all, {app_id: max(end, of_all) for app_id, end in ends.items()})


def _slots(session: Session, now_ms: int) -> tuple[dict[int, int], dict[int, int]]:
    """Return how many slots, and how many executors, each app has online."""
    slots: dict[int, int] = defaultdict(int)
    executors: dict[int, int] = defaultdict(int)
    for app_id, row in live.executors(session):
        if presence.state(row, now_ms) is ProcessState.ALIVE:
            number = stored_load(row).get("slots", 0)
            slots[app_id] += number if isinstance(number, int) else 0
            executors[app_id] += 1
    return slots, executors


def _rooms(
    due: Iterable[Expected], needs: Mapping[int, Needs], executors: Mapping[int, int]
) -> dict[Resource, int]:
    """Return how many runs of each job may run at once."""
    return {
        Resource(Needed.JOB, run.job_id): need.concurrency
        * (1 if need.scope == Scope.CLUSTER else max(1, executors.get(run.app_id, 0)))
        for run in due
        if (need := needs.get(run.job_id, _NO_NEEDS)).concurrency
    }


def _rate(row: LimitRoom) -> Rate | None:
    if row.rate is None or not row.per_ms:
        return None
    tokens = float(row.rate) if row.tokens is None else row.tokens
    return Rate(size=float(row.rate), per_ms=row.rate / row.per_ms, tokens=tokens)
