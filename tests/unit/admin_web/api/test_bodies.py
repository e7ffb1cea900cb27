"""Merge patches, and bodies that are nested deeper than any stack."""

from typing import Any

import pytest

from warren.admin_web.api.bodies import read_body
from warren.admin_web.api.job_bodies import JobBody, merged


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
