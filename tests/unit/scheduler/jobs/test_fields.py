"""Each field of a job is declared once, and each column of its row is known."""

import inspect
from dataclasses import fields, replace
from typing import Any

import pytest

from warren.executor.handlers.declarations import JobFields, Retry
from warren.executor.handlers.handler_registry import job
from warren.scheduler.expectations import Expectations
from warren.scheduler.flows.graph import Graph, parse
from warren.scheduler.jobs.records import fingerprint, job_spec
from warren.scheduler.jobs.spec import (
    FIELDS,
    GROUPS,
    SHORT_RETRY,
    TOP,
    WRITTEN,
    Field,
    JobSpec,
    Secret,
    changed,
    columns_of,
)
from warren.scheduler.schedules.options import ScheduleOptions
from warren.sql.models import Job

#: Columns that say how a job stands, not what its author wants.
STATE = {
    "declared_in",
    "id",
    "add_time",
    "update_time",
    "script_version",
    "script_updated",
    "last_tick_at",
    "next_tick_at",
    "stop_reason",
    "stop_why",
}
PLAIN = JobSpec(name="nightly", app="reports")
#: A value of each type that is no field's default.
OTHER: dict[Any, Any] = {
    str: "other",
    int: 7,
    float: 0.25,
    bool | None: True,
    tuple[str, ...]: ("a", "b"),
    Expectations: Expectations(finish_by="07:00"),
    Graph | None: parse({"load": {"job": "load"}}),
    ScheduleOptions: ScheduleOptions(window="08:00-20:00", begin="2026-12-01"),
}


def row(spec: JobSpec) -> Job:
    return Job(script_type="BEAN", **columns_of(spec))


def other(field: Field) -> JobSpec:
    return replace(PLAIN, **{field.name: OTHER[field.type]})


def test_each_column_of_a_job_is_a_field_s_or_state() -> None:
    columns = set(Job.__mapper__.columns.keys())

    assert columns - STATE == {field.column for field in FIELDS.values()}
    assert columns > STATE


#: The fields that can be read again.
READABLE = [field for field in WRITTEN if not isinstance(field.kind, Secret)]


@pytest.mark.parametrize("field", READABLE, ids=lambda field: field.name)
def test_what_is_written_to_a_row_is_read_from_it(field: Field) -> None:
    wanted = other(field)

    assert job_spec(row(wanted), "reports", ()) == wanted


def test_a_secret_is_written_compared_and_never_read() -> None:
    field = FIELDS["alarm_secret"]
    stored = row(other(field))

    assert stored.alarm_secret == "other"
    assert job_spec(stored, "reports", ()).alarm_secret == ""
    assert changed(stored, PLAIN) == []  # an empty one leaves it
    assert changed(stored, other(field)) == []
    assert changed(row(PLAIN), other(field)) == [field]


@pytest.mark.parametrize("field", READABLE, ids=lambda field: field.name)
def test_another_value_is_a_change(field: Field) -> None:
    assert changed(row(PLAIN), PLAIN) == []
    assert changed(row(PLAIN), other(field)) == [field]
    assert changed(row(other(field)), PLAIN) == [field]


@pytest.mark.parametrize(
    "field", [one for one in FIELDS.values() if one.name != "enabled"], ids=lambda field: field.name
)
def test_a_fingerprint_tells_each_field_apart(field: Field) -> None:
    assert fingerprint(other(field)) != fingerprint(PLAIN)


def test_being_enabled_is_no_content() -> None:
    assert fingerprint(replace(PLAIN, enabled=True)) == fingerprint(PLAIN)


def test_a_handler_may_declare_each_field_of_a_job() -> None:
    ours = {"name": "job_name", "retry": "retry=", "process": "process="}
    of_retry = {field.name for field in SHORT_RETRY.values()}
    instead_of_a_handler = {"handler", "script", "flow"}

    wanted = {*TOP, *GROUPS} - of_retry - instead_of_a_handler
    declared = {
        *JobFields.__annotations__,
        *(f"{name}=" for name in inspect.signature(job).parameters),
    }
    assert {ours.get(name, name) for name in wanted} - declared == set()
    assert JobFields.__annotations__.keys() <= {*wanted, "job_name"}


def test_a_retry_has_each_field_of_its_group() -> None:
    own = {field.name for field in fields(Retry)} - {"never", "only"}

    assert own == {*SHORT_RETRY, *GROUPS["retry"]}
