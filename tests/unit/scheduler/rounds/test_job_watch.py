"""A role is woken by the ends of runs of its jobs, and of no others."""

from warren.scheduler.rounds.loop import JobWatch


def test_only_ends_of_its_jobs_wake_a_role() -> None:
    watch = JobWatch()
    watch.hear([1, 2])
    assert not watch.awake.is_set()

    watch.job_ids = frozenset({2})
    watch.hear([1, 3])
    assert not watch.awake.is_set()
    watch.hear(job_id for job_id in (1, 2))
    assert watch.awake.is_set()
