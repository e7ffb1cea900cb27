"""When a whole tick is over, and whether it succeeded."""

from types import SimpleNamespace
from typing import Any

import pytest

from warren.scheduler.completion.end import tick_end
from warren.sql.run_status import FINAL, FINE, OPEN, RunStatus
from warren.sql.runs.ticks import Tick

TICK = Tick(1, 2_000, 0)
SUCCEEDED, FAILED, SKIPPED = RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.SKIPPED


def runs(*shards: list[RunStatus], total: int | None = None) -> list[Any]:
    """Rows of a tick: for each shard the statuses of its attempts."""
    rows = [(index, at, end) for index, ends in enumerate(shards) for at, end in enumerate(ends)]
    return [
        SimpleNamespace(
            id=number,
            origin_id=0,
            run_date=None,
            shard_index=index,
            attempt=attempt,
            status=status,
            shard_total=len(shards) if total is None else total,
            finished_at=1_000 * number if status in FINAL else None,
        )
        for number, (index, attempt, status) in enumerate(rows, 1)
    ]


def succeeded(rows: list[Any]) -> bool:
    end = tick_end(TICK, rows)
    assert end is not None
    return end.succeeded


@pytest.mark.parametrize("status", sorted(OPEN))
def test_an_open_run_of_any_shard_keeps_a_tick_open(status: RunStatus) -> None:
    assert tick_end(TICK, runs([SUCCEEDED], [status], [FAILED])) is None


def test_a_further_attempt_keeps_a_tick_open() -> None:
    assert tick_end(TICK, runs([SUCCEEDED], [FAILED, RunStatus.PLANNED])) is None


def test_a_tick_succeeded_when_the_last_attempt_of_each_shard_did() -> None:
    assert succeeded(runs([SUCCEEDED], [FAILED, RunStatus.UNDELIVERED, SUCCEEDED]))


@pytest.mark.parametrize("status", sorted(FINAL - FINE))
def test_one_shard_that_did_not_succeed_spoils_its_tick(status: RunStatus) -> None:
    assert not succeeded(runs([SUCCEEDED], [status], [SUCCEEDED]))


def test_a_tick_of_which_a_shard_was_cleared_is_not_said_to_have_succeeded() -> None:
    assert not succeeded(runs([SUCCEEDED], [SUCCEEDED], total=3))


@pytest.mark.parametrize(
    ("shards", "total", "status"),
    [
        ([[FAILED, SUCCEEDED], [SUCCEEDED]], 2, SUCCEEDED),
        ([[SUCCEEDED], [FAILED, RunStatus.KILLED], [FAILED]], 3, RunStatus.KILLED),
        ([[SUCCEEDED], [SUCCEEDED]], 3, RunStatus.LOST),
        ([[SUCCEEDED], [FAILED]], 3, FAILED),
        ([[RunStatus.CANCELLED]], 0, RunStatus.CANCELLED),
        ([[SKIPPED]], 1, SKIPPED),
        ([[FAILED, SKIPPED]], 1, SKIPPED),
        ([[SKIPPED], [SUCCEEDED], [SKIPPED]], 3, SUCCEEDED),
        ([[SKIPPED], [SKIPPED]], 2, SKIPPED),
        ([[SKIPPED], [FAILED]], 2, FAILED),
    ],
)
def test_a_ticks_status_is_that_of_the_first_shard_that_did_not_succeed(
    shards: list[list[RunStatus]], total: int, status: RunStatus
) -> None:
    end = tick_end(TICK, runs(*shards, total=total))

    assert end is not None
    assert end.status is status


def test_a_broadcast_that_was_never_expanded_is_over_and_did_not_succeed() -> None:
    end = tick_end(TICK, runs([RunStatus.CANCELLED], total=0))

    assert end is not None
    assert not end.succeeded


def test_a_tick_ends_with_the_last_of_its_runs_and_is_named_by_its_first() -> None:
    rows = runs([FAILED, SUCCEEDED], [SUCCEEDED])
    rows[0].finished_at = 99_000

    end = tick_end(TICK, rows)

    assert end is not None
    assert (end.head_id, end.finished_at) == (1, 99_000)


def test_a_tick_whose_first_run_was_cleared_has_no_head() -> None:
    end = tick_end(TICK, runs([FAILED, SUCCEEDED])[1:])

    assert end is not None
    assert end.head_id is None
