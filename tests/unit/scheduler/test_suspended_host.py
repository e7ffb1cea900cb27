"""A scheduler whose host slept knows at once how late it is: its clock went on meanwhile."""

import inspect
import time

import pytest

from warren.broker.messages import boot_seconds
from warren.scheduler.roles import Roles


def test_a_scheduler_takes_the_clock_that_also_counts_a_suspended_host() -> None:
    assert inspect.signature(Roles).parameters["monotonic"].default is boot_seconds
    assert boot_seconds() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=60)
