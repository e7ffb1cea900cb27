"""What became of a due time, by all its runs, whatever caused them."""

import pytest

from tests.support.trigger_rows import run_facts
from warren.scheduler.backfills.kept_schedule import DueTimeState, state_of

RUN = run_facts(id=1, scheduled_at=1, status="SUCCEEDED")


def judged(*shards: str) -> str:
    """Judge shards, each given by the statuses of its runs in order."""
    runs = [
        RUN._replace(shard_index=index, attempt=attempt, status=status)
        for index, statuses in enumerate(shards)
        for attempt, status in enumerate(statuses.split())
    ]
    return state_of(runs)


@pytest.mark.parametrize(
    ("shards", "state"),
    [
        ([], DueTimeState.MISSING),
        (["CANCELLED"], DueTimeState.MISSING),
        (["FAILED CANCELLED"], DueTimeState.FAILED),
        (["SUCCEEDED"], DueTimeState.SUCCEEDED),
        (["FAILED SUCCEEDED"], DueTimeState.SUCCEEDED),
        (["SUCCEEDED FAILED"], DueTimeState.FAILED),
        (["KILLED"], DueTimeState.FAILED),
        (["UNDELIVERED PLANNED"], DueTimeState.OPEN),
        (["SKIPPED"], DueTimeState.SKIPPED),
        (["SUCCEEDED", "SKIPPED"], DueTimeState.SUCCEEDED),
        (["SUCCEEDED", "LOST"], DueTimeState.FAILED),
        (["FAILED", "RUNNING"], DueTimeState.OPEN),
        (["SUCCEEDED", "CANCELLED"], DueTimeState.FAILED),
    ],
)
def test_the_newest_run_of_each_shard_decides(shards: list[str], state: DueTimeState) -> None:
    assert judged(*shards) is state
