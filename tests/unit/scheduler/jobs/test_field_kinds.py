"""What a job says of its processes is stored so that nothing said is told from no."""

import pytest

from warren.scheduler.jobs.spec import YesOrNo


@pytest.mark.parametrize("chosen", [None, True, False])
def test_what_is_stored_reads_back_as_it_was_said(chosen: bool | None) -> None:
    assert YesOrNo().value(YesOrNo().stored(chosen)) is chosen


def test_rows_of_before_leave_it_to_the_executor_unless_they_said_yes() -> None:
    assert (YesOrNo().value(0), YesOrNo().value(1)) == (None, True)
