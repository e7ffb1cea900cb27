"""Merge patches, and bodies that are nested deeper than any stack."""

from typing import Any

import pytest
from werkzeug.datastructures import MultiDict

from warren.admin_web.api.bodies import read_body, read_query
from warren.admin_web.api.job_bodies import JobBody, merged
from warren.admin_web.api.problem_answers import Refusal
from warren.resources.jobs import NameQuery


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_does_what_the_rfc_shows(target: Any, patch: Any, result: Any) -> None:
    assert merged(target, patch) == result


def test_a_merge_patch_leaves_its_target_as_it_is() -> None:
    target = {"a": {"b": "c"}}

    merged(target, {"a": {"b": "d"}})

    assert target == {"a": {"b": "c"}}


def test_a_merge_patch_may_be_nested_as_deeply_as_a_whole_body() -> None:
    whole = merged({"handler": "h"}, {"state": nested(100_000)})

    assert read_body(JobBody, whole).handler == "h"


def test_unknown_fields_are_answered_with_the_nearest_at_every_depth() -> None:
    with pytest.raises(Refusal) as refused:
        read_body(JobBody, {"hander": "h", "retry": {"time": 3}, "xyz": 1, "cron": "* * * * *"})

    assert refused.value.errors == [
        {"pointer": "/hander", "detail": "unknown field 'hander', did you mean 'handler'?"},
        {"pointer": "/xyz", "detail": "unknown field 'xyz'"},
        {"pointer": "/cron", "detail": "unknown field 'cron': write `schedule: {cron: …}`"},
        {"pointer": "/retry/time", "detail": "unknown field 'time', did you mean 'times'?"},
    ]


def test_an_unknown_parameter_is_answered_with_the_nearest() -> None:
    with pytest.raises(Refusal) as refused:
        read_query(NameQuery, MultiDict({"nmae": "x"}))

    assert refused.value.errors == [
        {"parameter": "nmae", "detail": "unknown parameter 'nmae', did you mean 'name'?"}
    ]
