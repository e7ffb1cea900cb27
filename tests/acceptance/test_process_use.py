"""What a job says of its processes reaches the executor, and is kept there."""

from tests.support.deployment import Deployment
from warren.scheduler.jobs.spec import JobSpec

JOBS = 50
#: Of the executor `steady`.
SLOTS = 4


def processes(fleet: Deployment, run_ids: list[int]) -> list[int]:
    """Return the process of each of these runs once all have succeeded."""
    for run_id in run_ids:
        fleet.await_success(run_id)
    starts = {start["run"]: start["pid"] for start in fleet.starts()}
    return [starts[run_id] for run_id in run_ids]


def named(fleet: Deployment, prefix: str, count: int, **fields: str) -> list[str]:
    """Make this many jobs and return their names."""
    names = [f"{prefix}-{number}" for number in range(count)]
    fleet.jobs(*(JobSpec(name=name, app=fleet.app, **fields) for name in names))
    return names


def test_fifty_jobs_that_share_their_handlers_processes_need_no_more_than_slots(
    fleet: Deployment,
) -> None:
    names = named(fleet, "sharing", JOBS, handler="brief", process="handler")

    used = processes(fleet, [fleet.trigger(name) for name in names])

    assert len(used) == JOBS
    assert len(set(used)) <= SLOTS


def test_process_in_which_a_job_left_a_thread_serves_no_other(fleet: Deployment) -> None:
    names = named(fleet, "mates", 4, handler="leaves-a-thread", process="handler")
    clean, spoiler, *others = names

    [first] = processes(fleet, [fleet.trigger(clean)])
    [spoilt] = processes(fleet, [fleet.trigger(spoiler, param="yes")])
    after = [processes(fleet, [fleet.trigger(name)])[0] for name in (clean, *others)]

    assert spoilt == first
    assert spoilt not in after
    assert len(set(after)) == 1


def test_each_job_keeps_to_its_own_word(fleet: Deployment) -> None:
    counts = {}
    for use in ("fresh", "job", "handler"):
        one, other = named(fleet, f"one-{use}", 2, handler="noop", process=use)
        used = [processes(fleet, [fleet.trigger(name)])[0] for name in (one, one, other)]
        counts[use] = len(set(used))

    assert counts == {"fresh": 3, "job": 2, "handler": 1}
