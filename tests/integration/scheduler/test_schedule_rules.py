"""Schedules that 0.1.0 stored keep their rule until they are moved, and the audit knows."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import select, update

from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, on_memory
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.commands.commands import Commands
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.scheduler.schedules.options import ScheduleOptions
from warren.sql.jobs import history
from warren.sql.models import AuditEntry, History, Job

pytestmark = on_memory

#: Around these, what Berlin has twice is from 00:00 to 02:00, and what it leaves out is at 01:00.
AUTUMNS = [datetime(year, 10, day, tzinfo=UTC) for year, day in ((2027, 31), (2028, 29))]
SPRING = datetime(2028, 3, 26, tzinfo=UTC)
BERLIN = "Europe/Berlin"
#: Twice a night, near the changes of the clock.
NIGHTLY = "*/30 2 25-31 3,10 *"


def ms(at: datetime, hour: int = 0, minute: int = 0) -> int:
    return int(at.replace(hour=hour, minute=minute).timestamp() * 1_000)


class Desk:
    """Commands at a time of the test's choice."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.now_ms = int(datetime(2027, 10, 30, 12, tzinfo=UTC).timestamp() * 1_000)
        self.commands: Commands = acting(cluster.database, lambda: self.now_ms, who="ann")

    def job(self, kind: str, value: str, **options: str) -> int:
        """Create a job and leave it as 0.1.0 would have stored it."""
        said = ScheduleOptions.of(options)
        spec = JobSpec(
            name="old",
            app=APP,
            handler="noop",
            schedule_kind=kind,
            schedule_value=value,
            schedule_options=said,
            timezone=BERLIN,
            enabled=True,
        )
        self.cluster.add_app(APP)
        job_id = self.commands.jobs.create(spec)
        stored = said.by_rule(1).to_json()
        self.cluster.database.write(
            lambda session: [
                session.execute(update(model).values(schedule_options=stored))
                for model in (Job, History)
            ]
        )
        return job_id

    @property
    def row(self) -> Job:
        [row] = self.cluster.jobs()
        return row

    def spec(self) -> JobSpec:
        jobs = self.commands.jobs
        return self.cluster.database.read(lambda session: jobs.read(session, self.row.id)[1])

    def plan_until(self, still: SchedulerNode, until_ms: int) -> None:
        """Let a scheduler plan each tick on time."""
        while self.row.next_tick_at <= until_ms:
            still.planner.run_round(self.row.next_tick_at)
        self.now_ms = until_ms

    def fired(self, night: datetime) -> list[str]:
        """Return when something was due in a night, in UTC."""
        due = [run.scheduled_at for run in self.cluster.runs()]
        of_night = [at for at in sorted(due) if ms(night) <= at <= ms(night, 4)]
        return [f"{datetime.fromtimestamp(at / 1_000, UTC):%H:%M}" for at in of_night]

    def stored_rules(self) -> list[str | None]:
        changes = self.cluster.database.read(lambda s: list(history.changes_of(s, self.row.id)))
        return [change.schedule_options for change in changes]


@pytest.fixture
def desk(cluster: Cluster) -> Desk:
    return Desk(cluster)


def assert_sound(desk: Desk) -> None:
    report = audit(desk.cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    assert report.is_sound, report.jobs


def test_each_due_time_is_computed_again_by_the_rule_of_its_time(
    desk: Desk, still: SchedulerNode
) -> None:
    job_id = desk.job("UNIX_CRON", NIGHTLY)
    desk.plan_until(still, ms(AUTUMNS[0], 12))

    moved = desk.commands.jobs.follow_rules([job_id])
    desk.plan_until(still, ms(AUTUMNS[1], 12))

    assert moved == 1
    assert desk.fired(AUTUMNS[0]) == ["01:00", "01:30"]
    assert desk.fired(SPRING) == []
    assert desk.fired(AUTUMNS[1]) == ["00:00", "00:30", "01:00", "01:30"]
    assert desk.stored_rules() == [None, '{"rule":2}']
    assert desk.cluster.skips() == []
    assert_sound(desk)


def test_a_schedule_that_nobody_moves_goes_on_by_its_rule(desk: Desk, still: SchedulerNode) -> None:
    desk.job("UNIX_CRON", NIGHTLY)
    desk.commands.jobs.update(desk.row.id, replace(desk.spec(), timeout=30), seen=None)

    desk.plan_until(still, ms(AUTUMNS[1], 12))

    assert desk.fired(SPRING) == ["01:00"]
    assert desk.fired(AUTUMNS[1]) == ["01:00", "01:30"]
    assert desk.row.schedule_options is None
    assert_sound(desk)


def test_an_edited_schedule_follows_the_newest_rule(desk: Desk, still: SchedulerNode) -> None:
    desk.job("UNIX_CRON", NIGHTLY)
    edited = replace(desk.spec(), schedule_value="*/20 2 25-31 3,10 *")
    desk.commands.jobs.update(desk.row.id, edited, seen=None)

    desk.plan_until(still, ms(AUTUMNS[0], 12))

    nights = ["00:00", "00:20", "00:40", "01:00", "01:20", "01:40"]
    assert desk.fired(AUTUMNS[0]) == nights
    assert_sound(desk)


def test_what_the_newest_rule_changes_is_known_before(desk: Desk) -> None:
    desk.job("UNIX_CRON", NIGHTLY)

    [old] = desk.commands.jobs.with_old_rules()

    assert (old.app, old.name, old.schedule) == (APP, "old", f"unix_cron {NIGHTLY}")
    assert old.changed.before == (ms(SPRING, 1),)
    assert old.changed.after[:2] == (ms(AUTUMNS[0]), ms(AUTUMNS[0], 0, 30))


@pytest.mark.parametrize(
    "broken",
    [
        {"schedule_options": "text", "schedule_value": NIGHTLY},
        {"schedule_options": None, "schedule_value": "text"},
        {"schedule_options": '{"calendar":"gone"}', "schedule_value": NIGHTLY},
    ],
)
def test_a_schedule_that_cannot_be_read_is_left_alone(
    desk: Desk, broken: dict[str, str | None]
) -> None:
    desk.job("UNIX_CRON", NIGHTLY)
    desk.cluster.database.write(lambda session: session.execute(update(Job).values(**broken)))

    assert desk.commands.jobs.with_old_rules() == []


def test_jobs_that_follow_the_newest_rule_are_left_alone(desk: Desk) -> None:
    job_id, gone = desk.job("UNIX_CRON", NIGHTLY), 10**6
    assert desk.commands.jobs.follow_rules([job_id, gone]) == 1

    assert desk.commands.jobs.with_old_rules() == []
    assert desk.commands.jobs.follow_rules([job_id]) == 0
    assert desk.stored_rules() == [None, '{"rule":2}']


def test_a_rate_gets_the_rhythm_of_its_from(desk: Desk, still: SchedulerNode) -> None:
    begin, period_ms = "2027-10-01T08:00", 7_000_000
    job_id = desk.job("FIX_RATE", str(period_ms // 1_000), **{"from": begin})
    # As if it had begun when it was applied.
    began = desk.now_ms + 7_000
    desk.cluster.database.write(
        lambda s: s.execute(update(Job).values(next_tick_at=began, last_tick_at=desk.now_ms))
    )
    desk.cluster.database.write(
        lambda s: s.execute(update(History).values(anchor=began, watermark=desk.now_ms))
    )
    desk.plan_until(still, began + 3 * period_ms)
    [old] = desk.commands.jobs.with_old_rules()

    desk.commands.jobs.follow_rules([job_id])
    desk.plan_until(still, desk.now_ms + 5 * period_ms)

    from_ms = int(datetime.fromisoformat(f"{begin}+02:00").timestamp() * 1_000)
    ticks = [run.scheduled_at for run in sorted(desk.cluster.runs(), key=lambda r: r.scheduled_at)]
    assert ticks[:4] == [began + n * period_ms for n in range(4)]
    assert {(tick - from_ms) % period_ms for tick in ticks[4:]} == {0}
    assert old.changed.before == (ticks[3] + period_ms,)
    assert old.changed.after == (ticks[4],)
    assert_sound(desk)


def test_who_moved_a_schedule_is_in_the_audit_log(desk: Desk) -> None:
    job_id = desk.job("UNIX_CRON", NIGHTLY)

    desk.commands.jobs.follow_rules([job_id])

    newest = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1)
    last = desk.cluster.database.read(lambda session: session.execute(newest).scalar_one())
    assert (last.who, last.object_id) == ("ann", job_id)
    assert "rule" in (last.after or "")
