"""Before the data of a calendar end, each app whose jobs use it gets an alarm at each stage."""

from datetime import UTC, datetime, timedelta

from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, on_memory
from warren.scheduler.alarms.events import AlarmTargets, from_text
from warren.scheduler.alarms.message import MessageContext, message
from warren.scheduler.alarms.watches import CalendarWatch
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.schedules.options import ScheduleOptions
from warren.sql.models import Alarm

pytestmark = on_memory

DAY_MS = 86_400_000
DEFAULTS = AlarmTargets(emails=("ops@example.com",))


def test_an_app_is_alarmed_thirty_days_a_week_and_a_day_ahead(cluster: Cluster) -> None:
    now_ms = cluster.now_ms()
    today = datetime.fromtimestamp(now_ms / 1_000, UTC).date()
    commands = acting(cluster.database, lambda: now_ms)
    spec = CalendarSpec(name="x", until=today + timedelta(days=40))
    commands.calendars.apply("x", commands.calendars.resolved(spec))
    cluster.add_app(APP)
    for name, options in (("daily", {"calendar": "x"}), ("other", {})):
        commands.jobs.create(
            JobSpec(
                name=name,
                app=APP,
                handler="noop",
                schedule_kind="CRON",
                schedule_value="0 0 9 * * ?",
                schedule_options=ScheduleOptions.of(options),
                enabled=True,
            )
        )
    watches = [CalendarWatch(database=cluster.database, defaults=DEFAULTS) for _ in range(2)]

    counts = []
    for days in (0, 9, 10, 11, 32, 33, 39, 40, 41):
        for watch in watches:
            watch.run_round(now_ms + days * DAY_MS)
        stored = cluster.database.read(lambda session: session.query(Alarm).all())
        counts.append(len(stored))

    assert counts == [0, 0, 1, 1, 1, 2, 3, 3, 3]
    news = from_text(stored[0].content)
    said = message(news, MessageContext("UTC"))
    assert said.subject == f"[warren] {APP}: calendar x ends on {spec.until}"
    assert f"Then the jobs of app {APP} that use it stop: daily." in said.text
