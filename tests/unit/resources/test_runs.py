"""Runs as they are described to programs."""

from typing import get_args

from warren.resources import runs
from warren.sql.run_status import Kind, RunStatus


def test_every_status_and_kind_can_be_asked_for() -> None:
    assert set(get_args(runs.Status)) == set(RunStatus)
    assert set(get_args(runs.Kind)) == set(Kind)
