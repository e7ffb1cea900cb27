"""Calendars of working days: new versions decide due times that lie ahead, each once."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, on_memory
from warren.scheduler.actor import Right
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.commands.calendar_commands import CalendarChange
from warren.scheduler.commands.commands import Commands
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.scheduler.problems import Code, Problem, Refused
from warren.scheduler.schedules.options import ScheduleOptions
from warren.sql.models import Alarm, Job
from warren.sql.run_status import RunStatus

pytestmark = on_memory

#: The Monday from which the days of these tests are counted, at least two weeks ahead.
TODAY = datetime.now(UTC).date()
MONDAY = TODAY + timedelta(days=14 - TODAY.weekday())
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MAIL = ("ops@example.com",)


def at(days: int, hour: float = 0) -> int:
    """Return an instant, counted in days from the Monday."""
    midnight = datetime(MONDAY.year, MONDAY.month, MONDAY.day, tzinfo=UTC)
    return int(midnight.timestamp() * 1_000) + days * DAY_MS + int(hour * HOUR_MS)


def day(days: int) -> date:
    return MONDAY + timedelta(days=days)


class Desk:
    """Commands at a time of the test's choice."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.now_ms = at(-7)
        self.commands: Commands = acting(cluster.database, lambda: self.now_ms, who="ann")

    def calendar(
        self, days: Mapping[date, str] | None = None, *, until: date | None = None
    ) -> CalendarChange:
        spec = CalendarSpec(name="x", days=days or {}, until=until or day(400))
        calendars = self.commands.calendars
        return calendars.apply("x", calendars.resolved(spec))

    def job(self, name: str = "daily", cron: str = "0 0 9 * * ?", **options: str) -> Job:
        fields: dict[str, Any] = {"enabled": True, "alarm_emails": MAIL, "timezone": "UTC"}
        fields |= {key: options.pop(key) for key in ("kind", "misfire") if key in options}
        spec = JobSpec(
            name=name,
            app=APP,
            handler="noop",
            schedule_kind=fields.pop("kind", "CRON"),
            schedule_value=cron,
            schedule_options=ScheduleOptions.of({"calendar": "x"} | options),
            **fields,
        )
        self.cluster.add_app(APP)
        job_id = self.commands.jobs.create(spec)
        return self.row(job_id)

    def row(self, job_id: int) -> Job:
        [row] = self.cluster.jobs(id=job_id)
        return row

    def plan_until(self, still: SchedulerNode, until_ms: int) -> None:
        """Let a scheduler plan each tick on time."""
        while True:
            ahead = [job.next_tick_at for job in self.cluster.jobs() if job.is_enabled]
            if not ahead or min(ahead) > until_ms:
                return
            still.planner.run_round(min(ahead))

    def ticks(self) -> list[int]:
        return sorted(run.scheduled_at for run in self.cluster.runs())


@pytest.fixture
def desk(cluster: Cluster) -> Desk:
    return Desk(cluster)


def assert_sound(desk: Desk) -> None:
    report = audit(desk.cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    assert report.is_sound, report.jobs


def test_days_off_are_no_due_times_and_the_audit_agrees(desk: Desk, still: SchedulerNode) -> None:
    desk.calendar({day(1): "off Town fair", day(5): "work"})
    desk.job()

    desk.plan_until(still, at(7, 10))

    # From Monday of the week before; Tuesday is off, Saturday is not.
    week = [at(days, 9) for days in (-7, -6, -5, -4, -3)]
    assert desk.ticks() == [*week, *(at(days, 9) for days in (0, 2, 3, 4, 5, 7))]
    assert desk.cluster.skips() == []
    assert_sound(desk)


def test_a_new_version_gives_its_jobs_their_next_due_times(
    desk: Desk, still: SchedulerNode
) -> None:
    desk.calendar()
    desk.now_ms = at(-7, 12)
    job = desk.job(cron="0 0 9 ? * SAT", on_holiday="next")
    assert job.next_tick_at == at(-7 + 7, 9)  # Saturday's moves to Monday

    change = desk.calendar({day(-2): "work"})

    assert [(moved.before_ms, moved.after_ms) for moved in change.moved] == [(at(0, 9), at(-2, 9))]
    assert desk.row(job.id).next_tick_at == at(-2, 9)
    desk.plan_until(still, at(3))
    assert desk.ticks() == [at(-2, 9)]
    assert_sound(desk)


def test_applying_a_calendar_twice_changes_nothing(desk: Desk) -> None:
    first = desk.calendar({day(1): "off"})
    again = desk.calendar({day(1): "off"})

    assert (first.number, again.number) == (1, 0)


def test_a_rate_keeps_its_phase_when_its_calendar_changes(desk: Desk, still: SchedulerNode) -> None:
    desk.calendar()
    job = desk.job(kind="FIX_RATE", cron="7200", window="08:00-12:30")
    phase = job.next_tick_at % (7_200 * 1_000)

    desk.calendar({day(-6): "off"})
    desk.plan_until(still, at(3))

    assert {tick % (7_200 * 1_000) for tick in desk.ticks()} == {phase}
    assert not any(at(-6) <= tick < at(-5) for tick in desk.ticks())
    assert_sound(desk)


def month_end(desk: Desk) -> Job:
    """A job on the Friday of the first week, moved back if that is off."""
    friday = day(4)
    return desk.job(f"0 0 18 {friday.day} {friday.month} ?", on_holiday="previous")


def test_a_due_time_that_is_moved_into_the_past_is_skipped_with_an_alarm(
    desk: Desk, still: SchedulerNode
) -> None:
    desk.calendar()
    friday = day(4)
    job = desk.job("end", f"0 0 18 {friday.day} {friday.month} ?", on_holiday="previous")
    desk.now_ms = at(4, 8)

    change = desk.calendar({day(4): "off"})

    assert [lost.tick_ms for lost in change.lost] == [at(3, 18)]
    [skip] = desk.cluster.skips()
    assert (skip.from_at, skip.to_at, skip.count) == (at(3, 18), at(3, 18), 1)
    assert skip.reason.startswith("version 2 of calendar 'x' moved it into the past")
    alarms = desk.cluster.database.read(lambda session: session.query(Alarm).all())
    assert [alarm.job_id for alarm in alarms] == [job.id]
    desk.plan_until(still, at(7))
    assert desk.ticks() == []
    assert_sound(desk)


def test_what_ran_for_its_nominal_time_does_not_run_again(desk: Desk, still: SchedulerNode) -> None:
    desk.calendar({day(4): "off"})
    friday = day(4)
    desk.job("end", f"0 0 18 {friday.day} {friday.month} ?", on_holiday="previous")
    desk.plan_until(still, at(4))
    desk.now_ms = at(4, 8)

    change = desk.calendar()
    desk.plan_until(still, at(7))

    assert change.lost == []
    assert desk.ticks() == [at(3, 18)]
    assert_sound(desk)


def test_a_job_stops_with_the_data_of_its_calendar_and_goes_on_with_more(
    desk: Desk, still: SchedulerNode
) -> None:
    desk.calendar(until=day(1))
    job = desk.job()
    desk.plan_until(still, at(2))

    stopped = desk.row(job.id)
    assert (stopped.is_enabled, stopped.stop_reason) == (
        0,
        f"its calendar 'x' ends on {day(1)}",
    )
    desk.now_ms = at(2, 12)
    desk.calendar(until=day(100))
    assert desk.row(job.id).next_tick_at == at(3, 9)
    assert_sound(desk)


def test_a_new_calendar_is_seen_only_from_ten_seconds_on(desk: Desk, still: SchedulerNode) -> None:
    desk.calendar()
    desk.job(cron="0 0 9 * * ?")
    desk.now_ms = at(0, 9) - 7_000

    change = desk.calendar({day(0): "off"})
    desk.plan_until(still, at(1, 10))

    assert change.effective_ms == desk.now_ms + 10_000
    assert at(0, 9) in desk.ticks()  # it was due before
    desk.now_ms = at(2, 9) - 11_000
    desk.calendar({day(2): "off"})
    desk.plan_until(still, at(2, 10))
    assert at(2, 9) not in desk.ticks()
    assert_sound(desk)


def test_jitter_delays_the_run_and_not_its_due_time(desk: Desk, still: SchedulerNode) -> None:
    desk.calendar()
    job = desk.job(jitter="30m")

    desk.plan_until(still, at(-7, 10))

    [run] = desk.cluster.runs()
    assert run.scheduled_at == at(-7, 9)
    assert at(-7, 9) < run.due_at < at(-7, 9.5)
    assert_sound(desk)
    assert job.next_tick_at == at(-7, 9)


@pytest.mark.parametrize(
    ("cron", "survives"), [("0 0 9 ? * MON-FRI", True), ("0 0 10 * * ?", False)]
)
def test_an_edit_keeps_a_run_that_waits_for_its_jitter_if_it_keeps_its_due_time(
    desk: Desk, still: SchedulerNode, cron: str, *, survives: bool
) -> None:
    desk.calendar()
    job = desk.job(jitter="3h")
    desk.plan_until(still, at(-7, 9))
    [waiting] = desk.cluster.runs()
    desk.now_ms = at(-7, 9) + 1_000
    options = ScheduleOptions.of({"calendar": "x", "jitter": "2h"})
    _, spec, _ = desk.cluster.database.read(
        lambda session: desk.commands.jobs.read(session, job.id)
    )

    edited = replace(spec, schedule_value=cron, schedule_options=options)
    desk.commands.jobs.update(job.id, edited, seen=None)

    [run] = desk.cluster.runs()
    assert run.status == (RunStatus.PLANNED if survives else RunStatus.CANCELLED)
    if survives:
        assert desk.now_ms <= run.due_at < at(-7, 11)
        assert run.due_at != waiting.due_at or run.due_at < at(-7, 11)
    assert_sound(desk)


def test_a_run_date_counts_working_days(desk: Desk, still: SchedulerNode) -> None:
    desk.calendar({day(-3): "off"})
    spec = JobSpec(
        name="dated",
        app=APP,
        handler="noop",
        schedule_kind="CRON",
        schedule_value="0 0 2 * * ?",
        timezone="UTC",
        run_date_workdays=-1,
        run_date_calendar="x",
        param_template="{{ run_date }} {{ workdays(run_date, -1) }}",
        enabled=True,
    )
    desk.cluster.add_app(APP)
    desk.commands.jobs.create(spec)

    desk.plan_until(still, at(0, 3))

    monday = desk.cluster.runs()[-1]
    assert monday.scheduled_at == at(0, 2)
    assert (monday.run_date, monday.param) == (day(-4), f"{day(-4)} {day(-5)}")


def test_a_run_whose_date_the_calendar_does_not_know_fails_with_the_reason(
    desk: Desk, still: SchedulerNode
) -> None:
    desk.calendar(until=day(-6))
    desk.cluster.add_app(APP)
    spec = JobSpec(
        name="dated",
        app=APP,
        handler="noop",
        schedule_kind="CRON",
        schedule_value="0 0 2 * * ?",
        timezone="UTC",
        run_date_workdays=1,
        run_date_calendar="x",
        enabled=True,
    )
    desk.commands.jobs.create(spec)

    desk.plan_until(still, at(-4, 3))

    failed = [run for run in desk.cluster.runs() if run.status == RunStatus.FAILED]
    assert failed
    assert "calendar 'x': the calendar does not know so many working days" in (
        failed[-1].message or ""
    )


REFUSED: list[tuple[str, dict[str, str], Code]] = [
    ("0 0 9 * * ?", {"calendar": "y"}, Code.CALENDAR_UNKNOWN),
    ("0 0 9 * * ?", {"calendar": "xx"}, Code.CALENDAR_UNKNOWN_NEAR),
    ("0 0 9 ? * SUN", {}, Code.CALENDAR_LEAVES_NONE),
    ("0 0 9 * * ?", {"from": f"{day(500)}"}, Code.CALENDAR_LEAVES_NONE),
]


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(("cron", "options", "code"), REFUSED)
def test_a_job_that_its_calendar_leaves_no_due_time_is_refused(
    desk: Desk, cron: str, options: dict[str, str], code: Code, *, enabled: bool
) -> None:
    desk.calendar()

    with pytest.raises(Refused) as refused:
        desk.job(cron=cron, **options)

    assert [problem.code for problem in refused.value.problems] == [code]
    assert refused.value.problems[0].field.startswith("schedule/calendar")


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"weekend": ("SAT", "FUN")}, Code.UNKNOWN_WORD_NEAR),
        (
            {"weekend": ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")},
            Code.CALENDAR_WITHOUT_WORK,
        ),
        ({"until": TODAY - timedelta(days=30)}, Code.CALENDAR_PAST),
        ({"days": {TODAY: "maybe"}}, Code.CALENDAR_DAY),
        ({"name": "A Calendar"}, Code.CALENDAR_NAME),
        ({"source": "holidays:XX"}, Code.HOLIDAYS_UNKNOWN),
        ({"source": "holidays:DE-XX"}, Code.HOLIDAYS_UNKNOWN),
        ({"source": "acme.ics"}, Code.CALENDAR_SOURCE),
        ({"source": "acme.ics", "files": {"acme.ics": "nothing"}}, Code.ICALENDAR),
    ],
)
def test_a_calendar_that_makes_no_sense_is_refused(
    desk: Desk, spec: dict[str, Any], code: Code
) -> None:
    with pytest.raises(Problem) as refused:
        desk.commands.calendars.resolved(CalendarSpec(**({"name": "x"} | spec)))

    assert refused.value.code is code
    assert "\n" not in str(refused.value)


def test_only_an_administrator_changes_calendars(cluster: Cluster) -> None:
    commands = acting(
        cluster.database, cluster.now_ms, who="bob", rights=frozenset(Right) - {Right.ADMINISTER}
    )
    resolved = commands.calendars.resolved(CalendarSpec(name="x"))

    with pytest.raises(Problem) as refused:
        commands.calendars.apply("x", resolved)

    assert refused.value.code is Code.NO_RIGHT
