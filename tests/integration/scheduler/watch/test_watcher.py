"""The watch over a whole cluster's rows: incidents open, are told, and close."""

from typing import Any

import pytest
from sqlalchemy import select, update

from tests.integration.scheduler.conftest import Seat
from tests.support.cluster import APP, Cluster, on_memory
from warren.scheduler.alarms.events import IncidentNews, from_text
from warren.scheduler.expectations import Expectations
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.sql.alarms import incidents
from warren.sql.models import Alarm, App, Incident, Job, Pause, Run, Watch

MINUTE = 60_000
HOUR = 60 * MINUTE
pytestmark = pytest.mark.both("its statements meet each database's own arithmetic and locks")
NIGHTLY = {
    "schedule_kind": "CRON",
    "schedule_value": "0 0 2 * * ?",
    "timezone": "UTC",
    "enabled": True,
    "alarm_emails": ("owner@example.com",),
}


class Night:
    """A watched job, whose rows a test writes and whose watch it moves by hand."""

    def __init__(self, cluster: Cluster, node: SchedulerNode, **rules: str) -> None:
        self.cluster = cluster
        self.node = node
        cluster.job("nightly", **NIGHTLY, expect=Expectations(**rules))
        [self.job] = cluster.jobs(name="nightly")
        self.now_ms = cluster.now_ms()
        self._last_id = 10_000

    def due(self, due_at: int) -> None:
        """Have the schedule be due then, as if it had been watched for a day."""
        self.cluster.set_job("nightly", next_tick_at=due_at)
        self.since(due_at - 24 * HOUR)

    def since(self, since_at: int) -> None:
        self.write(update(Watch).values(since_at=since_at, next_look_at=0))

    def run(self, due_at: int, status: str, **columns: Any) -> int:
        self._last_id += 1
        values = {
            "id": self._last_id,
            "app_id": self.job.app_id,
            "job_id": self.job.id,
            "status": status,
            "kind": "CRON",
            "scheduled_at": due_at,
            "due_at": due_at,
            **columns,
        }
        self.cluster.database.write(lambda session: session.add(Run(**values)))
        return self._last_id

    def change(self, run_id: int, **columns: Any) -> None:
        self.write(update(Run).where(Run.id == run_id).values(**columns))

    def write(self, statement: Any) -> None:
        self.cluster.database.write(lambda session: session.execute(statement))

    def look(self, now_ms: int) -> None:
        self.node.watcher.run_round(now_ms)

    def incidents(self) -> list[Incident]:
        found = select(Incident).order_by(Incident.id)
        return self.cluster.database.read(lambda session: list(session.execute(found).scalars()))

    def told(self) -> list[tuple[str, str]]:
        kept = self.cluster.database.read(
            lambda session: list(session.execute(select(Alarm).order_by(Alarm.id)).scalars())
        )
        assert {alarm.target for alarm in kept} <= {"owner@example.com"}
        news = [from_text(alarm.content) for alarm in kept]
        return [(one.rule, one.state) for one in news if isinstance(one, IncidentNews)]


def test_a_due_time_that_does_not_start_opens_one_incident_until_it_does(
    cluster: Cluster, still: SchedulerNode
) -> None:
    night = Night(cluster, still, start_within="5m")
    due_at = night.now_ms + HOUR
    night.due(due_at)
    run_id = night.run(due_at, "PLANNED")
    cluster.set_job("nightly", next_tick_at=due_at + 24 * HOUR)

    night.look(due_at + 4 * MINUTE)
    assert night.incidents() == []
    night.look(due_at + 5 * MINUTE)
    night.look(due_at + 5 * MINUTE + 2_000)
    [incident] = night.incidents()
    assert (incident.rule, incident.due_at, incident.is_open) == ("start_within", due_at, 1)

    night.change(run_id, status="RUNNING", started_at=due_at + 6 * MINUTE)
    night.look(due_at + 6 * MINUTE + 2_000)
    [incident] = night.incidents()
    assert (incident.is_open, incident.closed_by) == (0, "KEPT")
    assert night.told() == [("start_within", "opened"), ("start_within", "closed")]


def test_a_failed_night_is_late_until_a_rerun_succeeds(
    cluster: Cluster, still: SchedulerNode
) -> None:
    night = Night(cluster, still, finish_by="07:00")
    day = 24 * HOUR
    due_at = (night.now_ms // day + 1) * day + 2 * HOUR
    night.due(due_at)
    started = {"started_at": due_at + 5, "finished_at": due_at + 9}
    night.run(due_at, "FAILED", **started)
    cluster.set_job("nightly", next_tick_at=due_at + day)

    night.look(due_at + 5 * HOUR - 1)
    assert night.incidents() == []
    night.look(due_at + 5 * HOUR)
    assert [one.due_at for one in night.incidents()] == [due_at]

    end = due_at + 6 * HOUR
    night.run(due_at, "SUCCEEDED", origin_id=99, started_at=end - 5, finished_at=end)
    night.look(end + 2_000)
    assert night.told() == [("finish_by", "opened"), ("finish_by", "closed")]


@pytest.mark.parametrize("planned", [True, False])
def test_schedulers_that_were_all_away_tell_on_their_return(
    cluster: Cluster, still: SchedulerNode, planned: bool
) -> None:
    """The due time passed, and a run made up for it, before anybody could look."""
    night = Night(cluster, still, start_within="5m")
    due_at = night.now_ms + HOUR
    night.due(due_at)
    if planned:
        late = due_at + 10 * MINUTE
        night.run(due_at, "SUCCEEDED", started_at=late, finished_at=late + 5)
        cluster.set_job("nightly", next_tick_at=due_at + 24 * HOUR)

    night.look(due_at + HOUR)
    assert night.told() == [("start_within", "opened")]
    night.look(due_at + HOUR + 2_000)

    ends = ["closed"] if planned else []
    assert night.told() == [("start_within", state) for state in ("opened", *ends)]


def test_a_job_without_a_success_is_told_after_its_time(
    cluster: Cluster, still: SchedulerNode
) -> None:
    night = Night(cluster, still, success_every="26h")
    ended = night.now_ms
    night.since(ended - 24 * HOUR)
    night.run(ended - 5, "SUCCEEDED", started_at=ended - 4, finished_at=ended)

    night.look(ended + 1)
    night.look(ended + 26 * HOUR - 1)
    assert night.incidents() == []
    night.look(ended + 26 * HOUR)
    assert [(one.rule, one.due_at) for one in night.incidents()] == [("success_every", ended)]

    again = ended + 27 * HOUR
    night.run(again - 5, "SUCCEEDED", started_at=again - 4, finished_at=again)
    night.look(again + 2_000)
    assert night.told() == [("success_every", "opened"), ("success_every", "closed")]


def test_a_run_that_takes_longer_than_three_times_the_usual_is_told_and_goes_on(
    cluster: Cluster, still: SchedulerNode
) -> None:
    night = Night(cluster, still, longest="3 x usual")
    began = night.now_ms
    for number in range(4):
        at = began - (10 - number) * HOUR
        night.run(at, "SUCCEEDED", started_at=at, finished_at=at + MINUTE)
    run_id = night.run(began, "RUNNING", started_at=began)

    night.since(began - 24 * HOUR)
    night.look(began + HOUR)
    assert night.incidents() == []  # four successes do not tell what is usual
    at = began - 5 * HOUR
    night.run(at, "SUCCEEDED", started_at=at, finished_at=at + MINUTE)
    night.look(began + HOUR + 11 * MINUTE)
    [incident] = night.incidents()
    assert (incident.rule, incident.expected, incident.due_at) == (
        "longest",
        "3 x usual (3m)",
        began,
    )
    assert cluster.run(run_id).kill_requested_at is None

    night.change(run_id, status="SUCCEEDED", finished_at=began + 2 * HOUR)
    night.look(began + 2 * HOUR + 2_000)
    assert night.told() == [("longest", "opened"), ("longest", "closed")]


@on_memory
def test_a_pause_opens_none_and_a_stop_closes_what_is_open(
    cluster: Cluster, still: SchedulerNode
) -> None:
    night = Night(cluster, still, start_within="5m")
    due_at = night.now_ms + HOUR
    night.due(due_at)
    cluster.commands().pause(APP)
    night.look(due_at + HOUR)
    assert night.incidents() == []

    cluster.commands().resume(APP)
    night.due(due_at + 24 * HOUR)
    night.look(due_at + 25 * HOUR)
    assert [one.is_open for one in night.incidents()] == [1]
    cluster.commands().stop("nightly")
    night.look(due_at + 26 * HOUR)
    [incident] = night.incidents()
    assert (incident.is_open, incident.closed_by) == (0, "STOPPED")

    cluster.commands().start("nightly")
    night.due(due_at + 72 * HOUR)
    night.look(due_at + 73 * HOUR)
    assert [one.is_open for one in night.incidents()] == [0, 1]


@on_memory
@pytest.mark.parametrize("held", [True, False])
def test_a_success_is_awaited_anew_only_after_a_pause_that_held_a_due_time_back(
    cluster: Cluster, still: SchedulerNode, *, held: bool
) -> None:
    night = Night(cluster, still, success_every="26h")
    began = night.now_ms
    night.since(began)
    span = {"since_at": began + HOUR, "until_at": began + 2 * HOUR}
    pause = Pause(app_id=0, **span, paused_by="ops", reason="")
    cluster.database.write(lambda session: session.add(pause))
    night.run(began + 90 * MINUTE if held else began, "FAILED", routed_at=began + 2 * HOUR)
    if not held:
        night.change(10_001, routed_at=began + 40)

    night.look(began + 27 * HOUR - 1)
    assert night.incidents() == []
    night.since(began)
    night.look(began + 27 * HOUR)
    assert len(night.incidents()) == (0 if held else 1)
    night.since(began)
    night.look(began + 28 * HOUR)
    assert len(night.incidents()) == 1


@on_memory
def test_an_incident_of_a_deleted_job_closes(cluster: Cluster, still: SchedulerNode) -> None:
    night = Night(cluster, still, start_within="5m")
    due_at = night.now_ms + HOUR
    night.due(due_at)
    night.look(due_at + HOUR)
    night.write(Job.__table__.delete())  # type: ignore[attr-defined]

    night.look(due_at + HOUR + 5_000)

    [incident] = night.incidents()
    assert (incident.is_open, incident.closed_by) == (0, "DELETED")
    assert cluster.database.read(lambda session: session.query(Watch).count()) == 0


def test_runs_that_wait_behind_a_hanging_one_are_told_without_any_expectation(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    night = Night(cluster, still)
    began = night.now_ms
    night.run(began, "RUNNING", started_at=began)
    for number in range(1, 12):
        night.run(began + number * 2_000, "SENT")

    night.look(began + 14 * MINUTE)
    assert night.incidents() == []
    cluster.pass_time(still, 5.0)
    still.roster.set_health(True)
    seat()
    night.look(began + 15 * MINUTE + 2_000)
    assert [(one.rule, one.due_at) for one in night.incidents()] == [("waiting", began + 2_000)]

    night.write(update(Run).where(Run.status == "SENT").values(status="SUCCEEDED"))
    cluster.pass_time(still, 5.0)
    still.roster.set_health(True)
    seat()
    night.look(began + 15 * MINUTE + 4_000)
    assert night.told() == [("waiting", "opened"), ("waiting", "closed")]


@on_memory
def test_a_hundred_late_runs_are_told_only_while_an_executor_is_online(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    night = Night(cluster, still)
    began = night.now_ms
    for number in range(100):
        night.run(began + number, "PLANNED")

    night.look(began + 2 * MINUTE)
    assert night.incidents() == []
    seat()
    night.look(began + 2 * MINUTE)
    assert [one.expected for one in night.incidents()] == ["under 100 runs"]

    for left, is_open in ((60, 1), (40, 0)):
        late = Run.scheduled_at >= began + left
        night.write(update(Run).where(late).values(status="SUCCEEDED"))
        cluster.pass_time(still, 5.0)
        still.roster.set_health(True)
        seat()
        night.look(began + 2 * MINUTE)
        assert [one.is_open for one in night.incidents()] == [is_open]


@on_memory
def test_an_unseen_incident_reminds_each_half_hour_until_it_is_acknowledged(
    cluster: Cluster, still: SchedulerNode
) -> None:
    night = Night(cluster, still, start_within="5m")
    due_at = night.now_ms + HOUR
    night.due(due_at)
    opened = due_at + 5 * MINUTE
    for minutes in (0, 29, 30, 31, 60):
        night.look(opened + minutes * MINUTE)
    assert [state for _, state in night.told()] == ["opened", "reminder", "reminder"]

    [incident] = night.incidents()

    def seen(until_ms: int | None) -> None:
        cluster.database.write(
            lambda session: incidents.acknowledge(
                session, incident.id, by="ops", note="", until_ms=until_ms, now_ms=opened
            )
        )

    seen(opened + 100 * MINUTE)
    night.look(opened + 90 * MINUTE)
    assert len(night.told()) == 3
    night.look(opened + 120 * MINUTE)
    assert len(night.told()) == 4


@on_memory
def test_one_scheduler_watches_and_another_takes_over(
    cluster: Cluster, still: SchedulerNode
) -> None:
    night = Night(cluster, still, start_within="5m")
    other = cluster.new_scheduler()
    cluster.schedulers.append(other)
    due_at = night.now_ms + HOUR
    night.due(due_at)
    night.look(due_at + 6 * MINUTE)
    other.roles.watcher.run_round(due_at + 6 * MINUTE)
    assert (still.watcher.holds_lease, other.roles.watcher.holds_lease) == (True, False)

    still.watcher.leave()
    other.roles.watcher.run_round(due_at + 6 * MINUTE + 2_000)

    assert other.roles.watcher.holds_lease
    assert night.told() == [("start_within", "opened")]


def test_an_apps_targets_hear_of_jobs_without_their_own(
    cluster: Cluster, still: SchedulerNode
) -> None:
    spec = JobSpec(
        name="plain",
        app=APP,
        handler="noop",
        schedule_kind="FIX_RATE",
        schedule_value="3600",
        enabled=True,
        expect=Expectations(start_within="1m"),
    )
    cluster.apply(spec)
    columns = {"alarm_email": "team@example.com"}
    cluster.database.write(lambda session: session.execute(update(App).values(**columns)))

    still.watcher.run_round(cluster.now_ms() + 3 * HOUR)

    targets = select(Alarm.target)
    assert cluster.database.read(lambda session: list(session.execute(targets).scalars())) == [
        "team@example.com"
    ]
