"""What an edit of a schedule, a stop and a deletion make of what is planned."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.acting import NamedCommands, acting
from tests.support.cluster import APP, Cluster
from tests.support.eventually import eventually
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.commands.job_file_preview import Change
from warren.scheduler.commands.schedule_changes import Stopped
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.sql.models import Job

pytestmark = pytest.mark.parametrize("cluster", ["memory"], indirect=True)


def cron(value: str) -> dict[str, Any]:
    return {"schedule_kind": "CRON", "schedule_value": value}


EACH_SECOND = cron("* * * * * ?")


class Clock:
    """The time of the database, as the commands see it: the start of a minute, and seconds."""

    def __init__(self, now_ms: int) -> None:
        self.start_ms = (now_ms // 60_000 + 2) * 60_000
        self.seconds = 0.0

    def __call__(self) -> int:
        return self.start_ms + int(self.seconds * 1_000)

    def iso(self, seconds: int) -> str:
        return datetime.fromtimestamp(self.start_ms / 1_000 + seconds, UTC).isoformat()


@pytest.fixture
def clock(cluster: Cluster) -> Clock:
    return Clock(cluster.now_ms())


@pytest.fixture
def commands(cluster: Cluster, clock: Clock) -> NamedCommands:
    return NamedCommands(cluster.database, clock, who="test")


def spec(name: str = "each", **fields: Any) -> JobSpec:
    return JobSpec(name=name, **({"app": APP, "handler": "noop"} | fields))


def with_options(**options: str) -> dict[str, Any]:
    return {"schedule_options": ScheduleOptions.of(options)}


def apply(commands: NamedCommands, *specs: JobSpec, **how: bool) -> dict[str, Change]:
    return {change.name: change for change in commands.apply([], specs, **how)}


def seconds_of(cluster: Cluster, clock: Clock, name: str = "each") -> dict[float, str]:
    """Return the status of each tick of a job, by its second."""
    job_id = the_job(cluster, name).id
    return {
        (run.scheduled_at - clock.start_ms) / 1_000: run.status
        for run in cluster.runs(job_id=job_id)
    }


def the_job(cluster: Cluster, name: str = "each") -> Job:
    return cluster.jobs(name=name)[0]


def is_sound(cluster: Cluster) -> bool:
    return audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC").is_sound


def plan_each_second(
    commands: NamedCommands, still: SchedulerNode, clock: Clock, name: str = "each", **fields: Any
) -> None:
    """Have seconds 1 to 5 planned; then it is second 2.5."""
    apply(commands, spec(name, enabled=True, **(EACH_SECOND | fields)))
    still.planner.run_round(clock())
    clock.seconds = 2.5


#: The edited schedule, and which of the seconds 3, 4 and 5 it does not have.
EDITS: dict[str, tuple[dict[str, Any], set[int]]] = {
    "an end that is far": (EACH_SECOND | with_options(until="2999-01-01"), set()),
    "a window that is open all day": (EACH_SECOND | with_options(window="00:00-24:00"), set()),
    "another zone": (EACH_SECOND | {"timezone": "Asia/Shanghai"}, set()),
    "the same in other words": (cron("*/1 * * * * ?"), set()),
    "each other second": (cron("0/2 * * * * ?"), {3, 5}),
    "a crontab line": ({"schedule_kind": "UNIX_CRON", "schedule_value": "* * * * *"}, {3, 4, 5}),
    "one instant": (
        {"schedule_kind": "AT", "schedule_value": "2099-01-01T00:00:00+00:00"},
        {3, 4, 5},
    ),
    "a rate that starts anew": ({"schedule_kind": "FIX_RATE", "schedule_value": "1"}, {3, 4, 5}),
    "a delay that starts anew": ({"schedule_kind": "FIX_DELAY", "schedule_value": "1"}, {3, 4, 5}),
}


def test_an_edit_cancels_only_what_is_to_come_and_the_new_schedule_does_not_have(
    cluster: Cluster, still: SchedulerNode, clock: Clock, commands: NamedCommands
) -> None:
    wrong = []
    for title, (fields, gone) in EDITS.items():
        name = title.replace(" ", "-")
        clock.seconds = 0
        plan_each_second(commands, still, clock, name)
        job_id, wanted = the_job(cluster, name).id, spec(name, **fields)
        before = {run.scheduled_at: run.id for run in cluster.runs(job_id=job_id)}

        foreseen = apply(commands, wanted, dry_run=True)[f"demo/{name}"]
        done = apply(commands, wanted)[f"demo/{name}"]

        said = [line for line in done.details if line.startswith("cancelled: ")]
        runs = "1 planned run" if len(gone) == 1 else f"{len(gone)} planned runs"
        checks = {
            "states": seconds_of(cluster, clock, name)
            == {second: "CANCELLED" if second in gone else "PLANNED" for second in range(1, 6)},
            "rows": {run.scheduled_at: run.id for run in cluster.runs(job_id=job_id)} == before,
            "count": (foreseen.cancelled, done.cancelled) == (len(gone), len(gone)),
            "words": said
            == [f"cancelled: {runs} that the new schedule does not have"] * bool(gone),
            "foreseen": foreseen == done,
            "watermark": the_job(cluster, name).last_tick_at >= clock.start_ms + 5_000,
            "audit": is_sound(cluster),
        }
        wrong += [f"{title}: {check}" for check, holds in checks.items() if not holds]

    assert wrong == []


def test_an_edit_that_means_the_same_changes_no_due_time(
    cluster: Cluster, still: SchedulerNode, clock: Clock, commands: NamedCommands
) -> None:
    apply(commands, spec(enabled=True, **cron("0/5 * * * * ?")))
    before = the_job(cluster)
    clock.seconds = 30  # nobody has planned since

    done = apply(commands, spec(**cron("*/5 * * * * ?")))

    after = the_job(cluster)
    assert done["demo/each"].details == ("schedule: cron 0/5 * * * * ? -> cron */5 * * * * ?",)
    assert (after.last_tick_at, after.next_tick_at) == (before.last_tick_at, before.next_tick_at)
    assert cluster.skips() == []
    still.planner.run_round(clock())
    assert seconds_of(cluster, clock)[30] == "PLANNED"
    assert is_sound(cluster)


def test_a_rate_goes_on_in_its_rhythm_when_only_its_options_change(
    cluster: Cluster, still: SchedulerNode, clock: Clock, commands: NamedCommands
) -> None:
    rate = {"schedule_kind": "FIX_RATE", "schedule_value": "3"}
    apply(commands, spec(enabled=True, **rate))
    still.planner.run_round(clock())
    clock.seconds = 2

    done = apply(commands, spec(**rate, **with_options(window="00:00-24:00")))

    assert done["demo/each"].cancelled == 0
    still.planner.run_round(clock() + 5_000)
    assert seconds_of(cluster, clock) == dict.fromkeys([3, 6, 9, 12], "PLANNED")
    assert is_sound(cluster)


def test_the_open_tick_of_a_fixed_delay_stays_with_another_delay(
    cluster: Cluster, still: SchedulerNode, clock: Clock, commands: NamedCommands
) -> None:
    apply(commands, spec(enabled=True, schedule_kind="FIX_DELAY", schedule_value="60"))
    still.planner.run_round(clock())
    [open_tick] = cluster.runs()

    done = apply(commands, spec(schedule_kind="FIX_DELAY", schedule_value="30"))
    still.planner.run_round(clock() + 60_000)

    assert done["demo/each"].cancelled == 0
    assert [(run.id, run.status) for run in cluster.runs()] == [(open_tick.id, "PLANNED")]
    assert is_sound(cluster)


def test_a_run_that_waits_for_its_jitter_moves_with_it_if_its_due_time_stays(
    cluster: Cluster, still: SchedulerNode, clock: Clock, commands: NamedCommands
) -> None:
    minutely = cron("1 * * * * ?")
    apply(commands, spec(enabled=True, **minutely, **with_options(jitter="50s")))
    still.planner.run_round(clock())
    [waiting] = cluster.runs()
    # Its due time is over, its jitter is not, which depends on the time of day.
    clock.seconds = 1 + (waiting.due_at - waiting.scheduled_at) / 2_000
    assert waiting.due_at > clock()

    kept = apply(commands, spec(**minutely))["demo/each"]
    [moved] = cluster.runs()
    again = apply(commands, spec(**minutely, **with_options(jitter="40s")))["demo/each"]
    [due] = cluster.runs()

    assert (kept.cancelled, again.cancelled) == (0, 0)
    assert (moved.id, moved.status, moved.due_at) == (waiting.id, "PLANNED", clock())
    assert (due.id, due.status, due.due_at) == (waiting.id, "PLANNED", clock())  # it is due now
    assert is_sound(cluster)


def test_a_schedule_that_ended_keeps_what_is_due_and_cancels_what_its_new_one_does_not_have(
    cluster: Cluster, still: SchedulerNode, clock: Clock, commands: NamedCommands
) -> None:
    plan_each_second(commands, still, clock, **with_options(until=clock.iso(5)[:19]))
    assert the_job(cluster).is_enabled == 0

    done = apply(commands, spec(**cron("0/4 * * * * ?")))

    states = seconds_of(cluster, clock)
    assert states == dict.fromkeys([1, 2, 4], "PLANNED") | dict.fromkeys([3, 5], "CANCELLED")
    assert done["demo/each"].cancelled == 2
    assert is_sound(cluster)


def test_what_stays_keeps_the_date_of_the_zone_in_which_it_was_due(
    cluster: Cluster, still: SchedulerNode, clock: Clock, commands: NamedCommands
) -> None:
    ahead = {"timezone": "Pacific/Kiritimati"}  # 14 hours ahead: another day for most of the day
    plan_each_second(commands, still, clock, param_template="{{ run_date }}", **ahead)
    before = {run.id: (run.run_date, run.param) for run in cluster.runs()}

    behind = {"timezone": "Pacific/Pago_Pago"}
    apply(commands, spec(param_template="{{ run_date }} again", **EACH_SECOND, **behind))

    after = {run.id: (run.run_date, run.param) for run in cluster.runs()}
    assert after == {run: (day, f"{param} again") for run, (day, param) in before.items()}


def test_a_stop_and_a_deletion_cancel_all_that_is_planned_and_say_how_many(
    cluster: Cluster, still: SchedulerNode, clock: Clock, commands: NamedCommands
) -> None:
    for name in ("stopped", "filed", "deleted", "pruned"):
        apply(commands, spec(name, enabled=True, **EACH_SECOND))
    still.planner.run_round(clock())
    clock.seconds = 2.5
    jobs = acting(cluster.database, clock).jobs
    ids = {job.name: job.id for job in cluster.jobs()}
    left = [spec("stopped"), spec("filed", enabled=False, **EACH_SECOND)]

    stopped = jobs.stop(ids["stopped"])
    again = jobs.stop(ids["stopped"])
    deleted = jobs.delete([ids["deleted"]])
    foreseen = apply(commands, *left, prune=True, dry_run=True)
    filed = apply(commands, *left, prune=True)

    assert (stopped, again) == (Stopped(5), None)
    assert deleted == {"demo/deleted": 5}
    assert foreseen == filed
    assert filed["demo/filed"].details == ("cancelled: 5 planned runs, as the job stops",)
    assert filed["demo/pruned"].details == ("cancelled: 5 planned runs",)
    assert {run.status for run in cluster.runs()} == {"CANCELLED"}
    assert is_sound(cluster)


def test_an_edit_that_also_stops_the_job_is_a_stop(
    cluster: Cluster, still: SchedulerNode, clock: Clock, commands: NamedCommands
) -> None:
    plan_each_second(commands, still, clock)
    wanted = spec(enabled=False, **cron("0/2 * * * * ?"))

    foreseen = apply(commands, wanted, dry_run=True)
    done = apply(commands, wanted)

    assert foreseen == done
    assert done["demo/each"].details[1:] == (
        "state: stop",
        "cancelled: 5 planned runs, as the job stops",
    )
    assert set(seconds_of(cluster, clock).values()) == {"CANCELLED"}
    assert is_sound(cluster)


def test_a_schedule_that_is_typed_tells_what_it_would_cancel(
    cluster: Cluster, still: SchedulerNode, clock: Clock, commands: NamedCommands
) -> None:
    plan_each_second(commands, still, clock)
    jobs, job_id = acting(cluster.database, clock).jobs, the_job(cluster).id

    told = jobs.foresee(job_id, ScheduleFacts("CRON", "0/2 * * * * ?", "UTC"), "")

    assert told == 2
    assert set(seconds_of(cluster, clock).values()) == {"PLANNED"}


def test_due_times_that_nobody_has_planned_are_skipped_by_an_edit_which_says_so(
    cluster: Cluster, still: SchedulerNode, clock: Clock, commands: NamedCommands
) -> None:
    plan_each_second(commands, still, clock)
    planned_until = the_job(cluster).last_tick_at
    clock.seconds = 20  # no scheduler has planned since
    hourly = spec(**cron("0 0 * * * ?"))

    foreseen = apply(commands, hourly, dry_run=True)
    assert cluster.skips() == []
    done = apply(commands, hourly)

    [skip] = cluster.skips()
    assert (skip.from_at, skip.to_at) == (planned_until + 1_000, clock())
    assert skip.reason == "schedule changed by test"
    assert foreseen == done
    assert f"skipped: {skip.count} due times that nobody had planned" in done["demo/each"].details
    assert is_sound(cluster)


def test_what_was_due_before_an_edit_runs_as_soon_as_somebody_can_run_it(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.job("each", enabled=True, **EACH_SECOND)

    def due() -> list[int]:
        now_ms = cluster.now_ms()
        return [run.id for run in cluster.runs(status="PLANNED") if run.due_at < now_ms]

    waiting = eventually(lambda: len(found := due()) > 1 and found)
    hourly = spec(schedule_kind="CRON", schedule_value="0 0 * * * ?")
    done = cluster.commands().apply([], [hourly])
    cluster.executor()

    eventually(lambda: {cluster.run(run_id).status for run_id in waiting} == {"SUCCEEDED"})
    assert done[0].cancelled > 0
    assert is_sound(cluster)
