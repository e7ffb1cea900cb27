"""What schedulers count of ended runs."""

from warren.scheduler.metrics import Ended, RunCounts, RunMetrics
from warren.sql.metrics import ABOVE, SUM, Counted, CountKey
from warren.sql.run_status import RunStatus

APP, OTHER, JOB = 7, 8, 3


def ended(
    status: RunStatus = RunStatus.SUCCEEDED,
    *,
    app_id: int = APP,
    due_at: int | None = 1_000,
    started_at: int | None = 1_000,
    finished_at: int = 1_000,
) -> Ended:
    return Ended(app_id, JOB, status, due_at, started_at, finished_at)


def numbers_of(*runs: Ended, name: Counted) -> dict[str, int]:
    counts = RunCounts()
    counts.add(runs)
    return {key.label: count for key, count in counts.numbers().items() if key.name is name}


def test_runs_are_counted_by_app_and_status() -> None:
    counts = RunCounts()

    counts.add([ended(), ended(), ended(RunStatus.FAILED), ended(app_id=OTHER)])

    assert {key: n for key, n in counts.numbers().items() if key.name is Counted.RUNS} == {
        CountKey(Counted.RUNS, APP, "SUCCEEDED"): 2,
        CountKey(Counted.RUNS, APP, "FAILED"): 1,
        CountKey(Counted.RUNS, OTHER, "SUCCEEDED"): 1,
    }


def test_a_value_on_a_bound_belongs_to_its_bucket_and_a_longer_one_to_the_next() -> None:
    runs = [ended(finished_at=1_000 + took_ms) for took_ms in (100, 101, 28_800_001)]

    assert numbers_of(*runs, name=Counted.DURATION) == {
        "100": 1,
        "500": 1,
        ABOVE: 1,
        SUM: 28_800_202,
    }


def test_lateness_is_from_the_due_time_to_the_start() -> None:
    run = ended(due_at=1_000, started_at=3_000, finished_at=9_000)

    assert numbers_of(run, name=Counted.LATENESS) == {"2500": 1, SUM: 2_000}


def test_a_run_that_seems_to_start_before_it_was_due_is_not_late() -> None:
    run = ended(due_at=5_000, started_at=4_990, finished_at=5_000)

    assert numbers_of(run, name=Counted.LATENESS) == {"50": 1}


def test_a_run_that_never_started_has_neither_duration_nor_lateness() -> None:
    run = ended(RunStatus.UNDELIVERED, started_at=None)

    assert numbers_of(run, name=Counted.RUNS) == {"UNDELIVERED": 1}
    assert numbers_of(run, name=Counted.DURATION) == {}
    assert numbers_of(run, name=Counted.LATENESS) == {}


def test_how_long_a_lost_run_took_is_not_guessed() -> None:
    run = ended(RunStatus.LOST, finished_at=99_000)

    assert numbers_of(run, name=Counted.DURATION) == {}
    assert numbers_of(run, name=Counted.LATENESS) == {"50": 1}


def test_a_run_whose_due_time_is_not_known_still_has_a_duration() -> None:
    run = ended(due_at=None, finished_at=2_000)

    assert numbers_of(run, name=Counted.LATENESS) == {}
    assert numbers_of(run, name=Counted.DURATION) == {"1000": 1, SUM: 1_000}


def test_what_was_taken_is_not_taken_again() -> None:
    metrics = RunMetrics()
    metrics.add([ended()])
    metrics.skip({APP: 3})

    first, second = metrics.take(), metrics.take()

    assert first.numbers()[CountKey(Counted.SKIPS, APP)] == 3
    assert first.successes == {JOB: 1_000}
    assert second.numbers() == {}
    assert second.successes == {}
