"""What a new run is made of, and what the next attempt keeps of the one before."""

from dataclasses import fields
from typing import Any

from warren.sql.models import Run
from warren.sql.run_status import Kind
from warren.sql.runs.planned_runs import NewRun
from warren.sql.runs.run_rows import LockedRun

#: What an attempt has of its own.
OWN = {
    "kind": Kind.RETRY,
    "due_at": 9,
    "retries_left": 1,
    "attempt": 101,
    "starts": 51,
    "redeliveries": 2,
}


def test_the_next_attempt_keeps_every_field_that_is_not_its_own() -> None:
    values: dict[str, Any] = {name: name for name in LockedRun._fields}
    run = LockedRun(**values | {"attempt": 100, "without_children": 1})

    again = NewRun.again(run, due_at=9, retries_left=1, starts=51, redeliveries=2)

    shared = {field.name for field in fields(NewRun)} & set(LockedRun._fields)
    expected = {name: name for name in shared} | {"without_children": True, **OWN}
    assert {name: getattr(again, name) for name in expected} == expected


def test_an_attempt_without_handler_or_param_has_empty_ones() -> None:
    values: dict[str, Any] = dict.fromkeys(LockedRun._fields)
    run = LockedRun(**values | {"attempt": 0})

    again = NewRun.again(run, due_at=9, retries_left=1, starts=1)

    assert (again.handler, again.param, again.without_children) == ("", "", False)


def test_every_field_of_a_new_run_is_a_column() -> None:
    names = {field.name for field in fields(NewRun)} - {"run_id", "fault"}

    assert names <= set(Run.__mapper__.columns.keys())
